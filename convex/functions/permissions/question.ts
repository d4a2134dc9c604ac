// Questions as rows: how one is found, and how those of a request end.

import type { Doc } from "../_generated/dataModel";
import type { MutationCtx, QueryCtx } from "../_generated/server";

/** Looks a question up. */
export async function questionRow(ctx: QueryCtx, permissionId: string): Promise<Doc<"permissions"> | null> {
  return await ctx.db
    .query("permissions")
    .withIndex("by_permission", (q) => q.eq("permissionId", permissionId))
    .unique();
}

/** A request with a result waits for no answer. */
export async function closeQuestions(ctx: MutationCtx, requestId: string): Promise<void> {
  const questions = ctx.db.query("permissions").withIndex("by_request", (q) => q.eq("requestId", requestId));
  for await (const question of questions) {
    await ctx.db.patch(question._id, { state: "closed" });
  }
}
