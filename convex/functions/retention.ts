// Deleting what is old: inbox rows, and the results of old requests with all that belongs to them. No id ever runs twice:
// the small row of a request goes only where the time in its id has it refused from then on (events:appendRequest); where
// the id carries no time, the row stays. Every cursor stays good: rows go from behind, and what is open is found
// by events:listOpen whatever the inbox holds.

import { v } from "convex/values";

import { internal } from "./_generated/api";
import { internalMutation } from "./_generated/server";
import type { MutationCtx } from "./_generated/server";
import { requestRow } from "./events/request";
import { exactRetentionMs, isPastRetention, recordSweep } from "./retention/period";
import { utf8Length } from "./wire/text";

/** The most rows in one transaction, and the most bytes of their bodies that it reads. */
const BATCH = 100;
const BATCH_BYTES = 4 * 1024 * 1024;

export const sweep = internalMutation({
  args: {},
  returns: v.object({ deleted: v.number() }),
  handler: async (ctx) => {
    const nowMs = Date.now();
    const before = nowMs - exactRetentionMs();
    const batch = new Batch();
    await inbox(ctx, before, batch);
    await results(ctx, before, nowMs, batch);
    if (batch.requests > 0) await recordSweep(ctx, nowMs);
    if (batch.isFull()) await ctx.scheduler.runAfter(0, internal.retention.sweep, {});
    return { deleted: batch.rows };
  },
});

/** What one transaction has deleted so far. */
class Batch {
  rows = 0;
  requests = 0;
  private bytes = 0;

  add(body: string): void {
    this.rows += 1;
    this.bytes += utf8Length(body);
  }

  isFull(): boolean {
    return this.rows >= BATCH || this.bytes >= BATCH_BYTES;
  }
}

async function inbox(ctx: MutationCtx, before: number, batch: Batch): Promise<void> {
  const old = ctx.db.query("inbox").withIndex("by_creation_time", (q) => q.lt("_creationTime", before));
  for (const row of await old.take(BATCH)) {
    await ctx.db.delete(row._id);
    batch.add("");
  }
}

async function results(ctx: MutationCtx, before: number, nowMs: number, batch: Batch): Promise<void> {
  const old = ctx.db.query("results").withIndex("by_time", (q) => q.lt("storedAtMs", before));
  for await (const result of old) {
    // The result goes last: as long as it is there, the next batch finds what is left.
    if (!(await belongings(ctx, result.requestId, batch)) || batch.isFull()) return;
    await ctx.db.delete(result._id);
    batch.add(result.payload);
    const request = await requestRow(ctx, result.requestId);
    if (request !== null && isPastRetention(result.requestId, nowMs)) {
      await ctx.db.delete(request._id);
      batch.add("");
      batch.requests += 1;
    }
  }
}

/** Deletes the progress, the questions and the body of a request. False: there is more than this batch holds. */
async function belongings(ctx: MutationCtx, requestId: string, batch: Batch): Promise<boolean> {
  for (const table of ["progress", "permissions"] as const) {
    const rows = ctx.db.query(table).withIndex("by_request", (q) => q.eq("requestId", requestId));
    for await (const row of rows) {
      if (batch.isFull()) return false;
      await ctx.db.delete(row._id);
      batch.add("data" in row ? row.data : row.title);
    }
  }
  const request = await requestRow(ctx, requestId);
  const body = request && (await ctx.db.get(request.bodyId));
  if (body) {
    if (batch.isFull()) return false;
    await ctx.db.delete(body._id);
    batch.add(body.args);
  }
  return true;
}
