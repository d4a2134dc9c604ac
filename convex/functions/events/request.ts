// A request: its row, its body, and the form in which it travels to the device.

import { v } from "convex/values";

import type { Doc } from "../_generated/dataModel";
import type { MutationCtx, QueryCtx } from "../_generated/server";
import { failure } from "../wire/failure";
import { session } from "../wire/session";

type Request = Doc<"requests">;

/** How long a caller counts as listening for progress since it last said so. */
export const WATCH_MS = 60_000;

/** What a device is asked to do. */
export const toolRequest = v.object({
  requestId: v.string(),
  toolName: v.string(),
  args: v.string(),
  conversationId: v.optional(v.string()),
  agentType: v.optional(v.string()),
  createdAtMs: v.number(),
  deadlineMs: v.optional(v.number()),
  cancelled: v.boolean(),
  attempt: v.number(),
  issuedAtMs: v.optional(v.number()),
  signature: v.optional(v.string()),
  /** The name of the caller's token or identity; absent where the request is older than this field. */
  callerName: v.optional(v.string()),
  session: v.optional(session),
});
export type ToolRequest = typeof toolRequest.type;

/** Looks a request up. */
export async function requestRow(ctx: QueryCtx, requestId: string): Promise<Request | null> {
  return await ctx.db
    .query("requests")
    .withIndex("by_request", (q) => q.eq("requestId", requestId))
    .unique();
}

/** The same for a device's own request: another device's is as unknown as none. */
export async function requestOfDevice(ctx: QueryCtx, requestId: string, deviceId: string): Promise<Request> {
  const request = await requestRow(ctx, requestId);
  if (request?.deviceId === deviceId) return request;
  throw failure("REQUEST_UNKNOWN", "this device has no request of this id");
}

/** Refuses a lease that is not the last one granted. A request that was never claimed has none. */
export function requireLease(request: Request, leaseId: string): void {
  if (request.leaseId === leaseId) return;
  throw failure(
    "LEASE_LOST",
    request.leaseId === undefined ? "this request was never claimed" : "another lease was granted for this request",
  );
}

/** Tells whether a caller listens for a request's progress, so that sending it is worth a call. */
export function isWatched(request: Request, nowMs: number): boolean {
  return request.state === "open" && nowMs < (request.watchedUntilMs ?? 0);
}

/** A request with its body, or null where retention has taken the body. */
export async function withBody(ctx: QueryCtx, request: Request): Promise<ToolRequest | null> {
  const body = await ctx.db.get(request.bodyId);
  if (body === null) return null;
  const { _id, _creationTime, ...asked } = body;
  const { requestId, toolName, cancelled, attempt } = request;
  return { requestId, toolName, cancelled, attempt, ...asked };
}

/** Tells a device of something: one row in its inbox, ordered by its commit. */
export async function notify(
  ctx: MutationCtx,
  deviceId: string,
  type: Doc<"inbox">["type"],
  requestId: string,
): Promise<void> {
  await ctx.db.insert("inbox", { deviceId, seq: ctx.db.vars.commitTs, type, requestId });
}
