// Text as bytes: how long it is, its hash, and base64 in its one spelling.

const encoder = new TextEncoder();

/** How many bytes a text has in UTF-8. */
export function utf8Length(text: string): number {
  return encoder.encode(text).length;
}

/** The bytes of a text in UTF-8. */
export function utf8(text: string): Uint8Array<ArrayBuffer> {
  return encoder.encode(text);
}

/** Bytes in lower-case hexadecimal, as every hash travels. */
export function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The SHA-256 of a text, in hexadecimal. */
export async function sha256(text: string): Promise<string> {
  return hex(new Uint8Array(await crypto.subtle.digest("SHA-256", utf8(text))));
}

/** The hash of several fields: JSON tells each from the next, and an absent one from an empty one. */
export async function fieldsHash(fields: (string | number | boolean | undefined)[]): Promise<string> {
  return await sha256(JSON.stringify(fields.map((field) => field ?? null)));
}

/** The bytes that standard base64 spells, or null: padding is needed, and nothing else is read. */
export function fromBase64(text: string): Uint8Array<ArrayBuffer> | null {
  if (text.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) return null;
  const characters = atob(text);
  if (btoa(characters) !== text) return null;
  return Uint8Array.from(characters, (character) => character.charCodeAt(0));
}
