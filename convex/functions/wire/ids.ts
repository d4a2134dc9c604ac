// The identifiers that travel on the wire, and their grammar. They name files on devices, so nothing
// else may be in them.

import { invalid } from "./failure";

const PLAIN = /^[A-Za-z0-9_-]{1,128}$/;
const CONVERSATION = /^[A-Za-z0-9_.:/@+=-]{1,256}$/;
const TOOL = /^[A-Za-z0-9_.-]{1,128}$/;

function check(kind: string, text: string, grammar: RegExp, max: number, extra: string): void {
  if (grammar.test(text)) return;
  const shown = JSON.stringify([...text].slice(0, 40).join(""));
  throw invalid(`${kind} must be 1 to ${max} characters of A-Z a-z 0-9 _ -${extra}, not ${shown}`);
}

/** Characters that show nothing, or turn the direction of what does. */
const BLANK =
  /[\p{White_Space}\p{Cc}\u00ad\u034f\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\u{e0000}-\u{e007f}\u{e0100}-\u{e01ef}]/u;
/** Names with a meaning of their own on devices: an embedded backend's own caller, and all callers without rights. */
const RESERVED = ["command line", "default"];

/** Refuses a name that an operator cannot give to a caller. The embedded backend has the same rule. */
export function callerName(name: string): void {
  if ([...name].length > 64 || name.split(" ").some((word) => word === "" || BLANK.test(word))) {
    throw invalid("a caller's name must be 1 to 64 visible characters, with one blank between words");
  }
  if (RESERVED.includes(name.toLowerCase())) {
    throw invalid(`the name ${JSON.stringify(name)} has a meaning of its own on devices; choose another`);
  }
}

export const requestId = (text: string): void => check("a request id", text, PLAIN, 128, "");
export const deviceId = (text: string): void => check("a device id", text, PLAIN, 128, "");
export const leaseId = (text: string): void => check("a lease id", text, PLAIN, 128, "");
export const processId = (text: string): void => check("a process id", text, PLAIN, 128, "");
export const permissionId = (text: string): void => check("a permission id", text, PLAIN, 128, "");
export const toolName = (text: string): void => check("a tool name", text, TOOL, 128, ".");
export const conversationId = (text: string): void =>
  check("a conversation id", text, CONVERSATION, 256, ".:/@+=");
