// punie-client: the tools of a paired computer for an agent.

export { connect, Punie } from "./client.js";
export type { Answer, CallOptions, ConnectOptions, Question, ToolChoice } from "./client.js";
export { PunieError } from "./error.js";
export { ToolResult } from "./result.js";
export type { Format, Image, Meta } from "./result.js";
export type { Tool } from "./tools.js";
