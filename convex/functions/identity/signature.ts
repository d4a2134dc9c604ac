// Ed25519 signatures of a device: what is signed, by whom, and when.
// Not here: which key belongs to which device.

import { failure, invalid } from "../wire/failure";
import { fromBase64, hex, utf8 } from "../wire/text";

/** How far a signature's time may be from the server's, either way. */
const SKEW_MS = 5 * 60 * 1000;

/**
 * The points of small order: with one of them as a key, or as the first half of a signature, one signature fits many
 * texts. The sign bit, the last one, is not looked at. (RFC 7748 section 6.1 and RFC 8032 give the field and the curve;
 * the last two are points in encodings that exceed the field.)
 */
const SMALL_ORDER = new Set([
  "0000000000000000000000000000000000000000000000000000000000000000",
  "0100000000000000000000000000000000000000000000000000000000000000",
  "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
  "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
  "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
  "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
  "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
]);

function isSmallOrder(point: Uint8Array): boolean {
  const bare = point.slice();
  bare[31] = (bare[31] ?? 0) & 0x7f;
  return SMALL_ORDER.has(hex(bare));
}

/** Checks a public key as it travels: 32 raw bytes in standard base64. */
export function publicKey(text: string): Uint8Array<ArrayBuffer> {
  const bytes = fromBase64(text);
  if (bytes?.length !== 32) throw invalid("publicKey must be an Ed25519 key: 32 bytes in base64");
  return bytes;
}

/** Checks a signature (64 raw bytes in standard base64) over a text. */
export async function verify(key: Uint8Array<ArrayBuffer>, text: string, signature: string): Promise<void> {
  const bytes = fromBase64(signature);
  if (bytes?.length === 64 && !isSmallOrder(key) && !isSmallOrder(bytes.slice(0, 32))) {
    const imported = await crypto.subtle.importKey("raw", key, { name: "Ed25519" }, false, ["verify"]);
    if (await crypto.subtle.verify({ name: "Ed25519" }, imported, bytes, utf8(text))) return;
  }
  throw failure("BAD_SIGNATURE", "the signature does not fit the key and the signed text");
}

/**
 * Refuses a signature made too long ago, or by a clock that runs ahead. The reply carries the server's time, so that
 * the device can correct its own.
 */
export function fresh(signedAtMs: number, serverNowMs: number): void {
  if (Math.abs(signedAtMs - serverNowMs) <= SKEW_MS) return;
  throw failure("SIGNATURE_STALE", "the signature's time is more than 5 minutes from the server's", { serverNowMs });
}
