// What a call looks like on the wire and what its answer does, as the real backend reads and writes them.
// Not here: what the functions do.

import { ConvexError, convexToJson, jsonToConvex, type Value } from "convex/values";

export type Kind = "query" | "mutation" | "action";
export type Call = { path: string; args: Record<string, unknown> };

/** A call that was refused before any function ran. */
export class Refusal extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly status = 400,
  ) {
    super(message);
  }
}

/** Reads the body of a call. The address may name the function in its place. */
export function readCall(body: string, addressed?: string): Call {
  let call: unknown;
  try {
    call = JSON.parse(body);
  } catch (bad) {
    throw new Refusal("BadJsonBody", String(bad));
  }
  if (!isObject(call)) throw new Refusal("BadJsonBody", "a call is an object");
  const { path = addressed, args, format } = call;
  if (typeof path !== "string") throw new Refusal("BadJsonBody", "missing field `path`");
  if (args === undefined || args === null) throw new Refusal("BadJsonBody", "missing field `args`: send {} for none");
  if (format !== undefined && format !== null && format !== "json" && format !== "convex_encoded_json") {
    throw new Refusal("BadFormat", `the format ${JSON.stringify(format)} is unknown`);
  }
  const only: unknown = Array.isArray(args) && args.length === 1 ? args[0] : args;
  if (!isObject(only)) throw new Refusal("BadJsonBody", "args must be or hold one object");
  return { path: canonical(addressed ?? path), args: only };
}

/** `events.js:list` is `events:list`, and a path without a function names the default one. */
function canonical(path: string): string {
  const found = /^(\w+(?:\/\w+)*)(?:\.js)?(?::(\w+))?$/.exec(path);
  if (found === null) throw new Refusal("BadConvexFunctionIdentifier", `${JSON.stringify(path)} is no path`);
  return `${found[1]}:${found[2] ?? "default"}`;
}

/** The arguments as values: `$`-wrapped ones are unwrapped, in every format. */
export function decode(args: Record<string, unknown>): Record<string, Value> {
  return jsonToConvex(args as never) as Record<string, Value>;
}

export function success(value: Value | undefined): string {
  return `{"status":"success","value":${print(convexToJson(value ?? null))}}`;
}

/** A function's error: data only where it was thrown on purpose. */
export function error(thrown: unknown): string {
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  const data = thrown instanceof ConvexError ? `,"errorData":${print(convexToJson(thrown.data as Value))}` : "";
  return `{"status":"error","errorMessage":${JSON.stringify(message)}${data}}`;
}

/** JSON as the real backend prints it: every number is a float. */
function print(json: unknown): string {
  if (typeof json === "number") return Number.isInteger(json) ? `${json}.0` : String(json);
  if (Array.isArray(json)) return `[${json.map(print).join(",")}]`;
  if (!isObject(json)) return JSON.stringify(json);
  const members = Object.entries(json).map(([key, member]) => `${JSON.stringify(key)}:${print(member)}`);
  return `{${members.join(",")}}`;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
