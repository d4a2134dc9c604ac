// How a function says no: data that clients act on. Only thrown data survives in production, so
// whatever anyone acts on is thrown here, with a code. Clients decide by the code, never by the text.

import { ConvexError } from "convex/values";

export type Code =
  | "BAD_SIGNATURE"
  | "CALLER_UNAUTHORIZED"
  | "DEVICE_KEY_MISMATCH"
  | "DEVICE_UNAUTHORIZED"
  | "DEVICE_UNKNOWN"
  | "INVALID_ARGUMENT"
  | "LEASE_LOST"
  | "PAIRING_REQUIRED"
  | "REQUEST_ID_REUSED"
  | "REQUEST_UNKNOWN"
  | "RESULT_EXISTS"
  | "SIGNATURE_REPLAYED"
  | "SIGNATURE_STALE"
  | "TOO_LARGE";

// A type and not an interface: error data must be an open record.
type Thrown = {
  code: Code;
  message: string;
  limit?: number;
  serverNowMs?: number;
};

export type Failure = ConvexError<Thrown>;

/** An error with a code, and perhaps something else to act on. */
export function failure(code: Code, message: string, more: { limit?: number; serverNowMs?: number } = {}): Failure {
  return new ConvexError<Thrown>({ code, message, ...more });
}

/** An argument of the right shape that cannot mean anything. */
export function invalid(message: string): Failure {
  return failure("INVALID_ARGUMENT", message);
}

/** Text longer than the contract lets it be. Its sender shrinks it and sends it again. */
export function tooLarge(what: string, limit: number): Failure {
  return failure("TOO_LARGE", `${what} is larger than ${limit} bytes`, { limit });
}
