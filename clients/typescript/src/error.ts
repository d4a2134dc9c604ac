// The error of this library. A tool that fails is no such error: its result says so.

/** The codes that this library itself gives. Others are the backend's, such as REQUEST_ID_REUSED and TOO_LARGE. */
export type OwnCode =
  | "BAD_SETTINGS"
  | "CANCELLED"
  | "DEVICE_AMBIGUOUS"
  | "DEVICE_OFFLINE"
  | "DEVICE_UNKNOWN"
  | "REFUSED"
  | "TIMEOUT"
  | "UNREACHABLE";

/** A call that has no result. Decide by `code`; the message says what to do. */
export class PunieError extends Error {
  override readonly name = "PunieError";

  constructor(
    readonly code: OwnCode | (string & {}),
    message: string,
    /** Facts from the backend beside the code, such as the `limit` of TOO_LARGE. */
    readonly data: Readonly<Record<string, unknown>> = {},
    /** The request, once it is stored: `result(requestId)` waits for it again. */
    readonly requestId?: string,
  ) {
    super(message);
  }
}

const ADVICE: Record<string, string> = {
  CALLER_UNAUTHORIZED:
    "Check the caller's token (PUNIE_CALLER_TOKEN). `punie-runner dev` prints the file that has it; `punie-runner operator` makes tokens for a hosted backend.",
  DEVICE_UNKNOWN: "It is not paired with this backend. On that computer: punie-runner pair CODE",
  DEVICE_UNAUTHORIZED: "Its owner has revoked it. Pair another one: punie-runner pair CODE",
};

/** The error for a function that has refused. */
export function refusal(data: Record<string, unknown> | undefined, text: string, about: string): PunieError {
  const code = typeof data?.["code"] === "string" ? data["code"] : "REFUSED";
  const message = typeof data?.["message"] === "string" ? data["message"] : text;
  const advice = ADVICE[code];
  return new PunieError(code, `${about}: ${message}.${advice === undefined ? "" : ` ${advice}`}`, data);
}
