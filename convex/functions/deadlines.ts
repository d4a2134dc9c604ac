// Closing requests that nobody may be expected to answer any more: past their deadline, with no lease in force.
// A device that is there answers such a request itself; this is for the one that is away. Its late result is refused
// with RESULT_EXISTS.

import { v } from "convex/values";

import { internal } from "./_generated/api";
import { internalMutation } from "./_generated/server";
import type { Doc } from "./_generated/dataModel";
import type { MutationCtx } from "./_generated/server";
import { finish, resultOf } from "./events/results";

/** The most requests in one transaction. */
const BATCH = 100;

export const close = internalMutation({
  args: {},
  returns: v.object({ closed: v.number() }),
  handler: async (ctx) => {
    const now = Date.now();
    const overdue = await ctx.db
      .query("requests")
      .withIndex("by_close", (q) => q.eq("state", "open").lte("closeAtMs", now))
      .take(BATCH);
    for (const request of overdue) await expire(ctx, request);
    if (overdue.length === BATCH) await ctx.scheduler.runAfter(0, internal.deadlines.close, {});
    return { closed: overdue.length };
  },
});

async function expire(ctx: MutationCtx, request: Doc<"requests">): Promise<void> {
  const claimed = request.attempt > 0;
  const error = claimed
    ? "The request's time is up, and the device that had begun it has not answered. Parts of it may have been done."
    : "The request was not run: its time was up before the device took it. Ask again if it is still wanted.";
  const meta = {
    durationMs: 0,
    code: "expired",
    retryable: !claimed,
    ...(claimed && { attempt: request.attempt, mayHaveRun: true }),
  };
  const payload = JSON.stringify({ toolName: request.toolName, error, meta });
  await finish(ctx, request, await resultOf("error", payload));
}
