// Secrets that the operator hands out: caller tokens, and the code that a new device shows once.
// They are made in actions: the randomness of a mutation can be foretold from its seed.

import { hex, sha256 } from "../wire/text";

/** Letters and digits without those that look alike (I, L, O, U). */
const READABLE = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/** A token of 256 random bits. */
export function newToken(): string {
  return hex(crypto.getRandomValues(new Uint8Array(32)));
}

/** 40 random bits in 8 characters that can be read aloud. */
export function newPairingCode(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => READABLE.charAt(byte & 31)).join("");
}

/** The hash of a code as people type it: case, blanks, dashes and look-alikes do not matter. */
export async function pairingCodeHash(typed: string): Promise<string> {
  const plain = typed.replace(/[- ]/g, "").toUpperCase().replace(/O/g, "0").replace(/[IL]/g, "1");
  return await sha256(`pairing:${plain}`);
}
