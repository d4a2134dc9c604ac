// Arguments: the validators that all functions use, and the bounds that validators cannot say.
// A wrong shape is refused by Convex; a value out of bounds is INVALID_ARGUMENT or TOO_LARGE.

import { v } from "convex/values";

import { invalid, tooLarge } from "./failure";
import { utf8Length } from "./text";

/** The most bytes of UTF-8 that one payload may have. A document may have 1 MiB. */
export const PAYLOAD_LIMIT = 900 * 1024;

/** The most bytes of events or requests in one reply. */
export const PAGE_BYTES = 4 * 1024 * 1024;

/** A number, however the client spelled it: some official clients send integers as int64. */
export const numeric = v.union(v.number(), v.int64());
export type Numeric = number | bigint;

/** The number, if it is one that can be reckoned with. */
export function finite(field: string, value: Numeric): number {
  const number = Number(value);
  if (!Number.isFinite(number)) throw invalid(`${field} must be finite`);
  return number;
}

/** The number as a whole one, not negative. */
export function whole(field: string, value: Numeric): number {
  const number = Number(value);
  if (Number.isInteger(number) && number >= 0 && number <= 2 ** 53) return number;
  throw invalid(`${field} must be a whole number from 0 to 2^53`);
}

/** Text within a bound that is no payload's: names, labels, signatures. */
export function bounded(field: string, text: string | undefined, max: number): void {
  if (text !== undefined && utf8Length(text) > max) throw invalid(`${field} must be at most ${max} bytes`);
}

/** A payload within its bound. */
export function payload(field: string, text: string, limit: number): void {
  if (utf8Length(text) > limit) throw tooLarge(field, limit);
}

/** How long a backend that holds calls may hold this one. This one holds none, and checks it all the same. */
export function wait(waitMs: Numeric | undefined): void {
  if (waitMs !== undefined && finite("waitMs", waitMs) < 0) throw invalid("waitMs must not be negative");
}
