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

export const requestId = (text: string): void => check("a request id", text, PLAIN, 128, "");
export const deviceId = (text: string): void => check("a device id", text, PLAIN, 128, "");
export const leaseId = (text: string): void => check("a lease id", text, PLAIN, 128, "");
export const processId = (text: string): void => check("a process id", text, PLAIN, 128, "");
export const permissionId = (text: string): void => check("a permission id", text, PLAIN, 128, "");
export const toolName = (text: string): void => check("a tool name", text, TOOL, 128, ".");
export const conversationId = (text: string): void =>
  check("a conversation id", text, CONVERSATION, 256, ".:/@+=");
