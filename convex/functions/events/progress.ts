// events:appendProgress and events:listProgress: what a running request has to say so far.
// Lossy by design: a piece may be missing, and none ever holds up the result.

import { type ObjectType, v } from "convex/values";

import type { MutationCtx, QueryCtx } from "../_generated/server";
import { callerArgs, requireCaller } from "../identity/caller";
import { deviceArgs, requireDevice } from "../identity/device";
import { numeric, PAGE_BYTES, payload, whole } from "../wire/arguments";
import * as ids from "../wire/ids";
import { utf8Length } from "../wire/text";
import { requestOfDevice, requireLease } from "./request";

/** The most bytes of one piece. */
const PIECE_LIMIT = 64 * 1024;
/** The most pieces of one answer. */
const MOST = 1000;

const appendArgs = {
  ...deviceArgs,
  requestId: v.string(),
  leaseId: v.string(),
  n: numeric,
  data: v.string(),
};

export const appendProgress = {
  args: appendArgs,
  // `stored` is false when this number was taken already, or the request is finished. `cancelled` says whether the
  // caller has cancelled: progress doubles as a look at that.
  returns: v.object({ stored: v.boolean(), cancelled: v.boolean() }),
  handler: async (ctx: MutationCtx, asked: ObjectType<typeof appendArgs>) => {
    await requireDevice(ctx, asked.deviceId, asked.token);
    ids.requestId(asked.requestId);
    ids.leaseId(asked.leaseId);
    const n = whole("n", asked.n);
    payload("data", asked.data, PIECE_LIMIT);
    const request = await requestOfDevice(ctx, asked.requestId, asked.deviceId);
    requireLease(request, asked.leaseId);
    const { requestId, cancelled } = request;
    if (request.state === "finished") return { stored: false, cancelled };
    const taken = await ctx.db
      .query("progress")
      .withIndex("by_request", (q) => q.eq("requestId", requestId).eq("n", n))
      .first();
    if (taken === null) await ctx.db.insert("progress", { requestId, n, data: asked.data });
    return { stored: taken === null, cancelled };
  },
};

const listArgs = { ...callerArgs, requestId: v.string(), after: v.optional(numeric) };

export const listProgress = {
  args: listArgs,
  /** The pieces after `after`, in order; ask again after the last one until there is none. */
  returns: v.array(v.object({ n: v.number(), data: v.string() })),
  handler: async (ctx: QueryCtx, asked: ObjectType<typeof listArgs>) => {
    await requireCaller(ctx, asked.callerToken, "ask");
    ids.requestId(asked.requestId);
    const after = asked.after === undefined ? -1 : whole("after", asked.after);
    const rows = ctx.db
      .query("progress")
      .withIndex("by_request", (q) => q.eq("requestId", asked.requestId).gt("n", after));
    const pieces: { n: number; data: string }[] = [];
    let bytes = 0;
    for await (const { n, data } of rows) {
      bytes += utf8Length(JSON.stringify({ n, data }));
      if (pieces.length === MOST || (bytes > PAGE_BYTES && pieces.length > 0)) break;
      pieces.push({ n, data });
    }
    return pieces;
  },
};
