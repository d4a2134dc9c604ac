// events:appendProgress, events:watchProgress and events:listProgress: what a running request has to say so far.
// Lossy by design: a piece may be missing, and none ever holds up the result. A device sends pieces only while a caller
// listens. A query cannot write, so reading is no sign of that: the caller says it with watchProgress, again and again,
// and the device learns it from the replies to claim and appendProgress.

import { type ObjectType, v } from "convex/values";

import type { MutationCtx, QueryCtx } from "../_generated/server";
import { callerArgs, requireCaller } from "../identity/caller";
import { deviceArgs, requireDevice } from "../identity/device";
import { numeric, PAGE_BYTES, payload, whole } from "../wire/arguments";
import * as ids from "../wire/ids";
import { utf8Length } from "../wire/text";
import { isWatched, requestOfDevice, requestRow, requireLease, WATCH_MS } from "./request";

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
  // caller has cancelled: progress doubles as a look at that. `watched` says whether a caller still listens.
  returns: v.object({ stored: v.boolean(), cancelled: v.boolean(), watched: v.boolean() }),
  handler: async (ctx: MutationCtx, asked: ObjectType<typeof appendArgs>) => {
    await requireDevice(ctx, asked.deviceId, asked.token);
    ids.requestId(asked.requestId);
    ids.leaseId(asked.leaseId);
    const n = whole("n", asked.n);
    payload("data", asked.data, PIECE_LIMIT);
    const request = await requestOfDevice(ctx, asked.requestId, asked.deviceId);
    requireLease(request, asked.leaseId);
    const { requestId, cancelled } = request;
    if (request.state === "finished") return { stored: false, cancelled, watched: false };
    const taken = await ctx.db
      .query("progress")
      .withIndex("by_request", (q) => q.eq("requestId", requestId).eq("n", n))
      .first();
    if (taken === null) await ctx.db.insert("progress", { requestId, n, data: asked.data });
    return { stored: taken === null, cancelled, watched: isWatched(request, Date.now()) };
  },
};

const watchArgs = { ...callerArgs, requestId: v.string() };
const watchState = v.union(v.literal("watching"), v.literal("finished"), v.literal("unknown"));
type Watching = { state: typeof watchState.type; expiresInMs: number };

export const watchProgress = {
  args: watchArgs,
  // For how long that counts: call it again before then.
  returns: v.object({ state: watchState, expiresInMs: v.number() }),
  handler: async (ctx: MutationCtx, asked: ObjectType<typeof watchArgs>): Promise<Watching> => {
    await requireCaller(ctx, asked.callerToken, "ask");
    ids.requestId(asked.requestId);
    const request = await requestRow(ctx, asked.requestId);
    if (request === null) return { state: "unknown", expiresInMs: 0 };
    if (request.state === "finished") return { state: "finished", expiresInMs: 0 };
    await ctx.db.patch(request._id, { watchedUntilMs: Date.now() + WATCH_MS });
    return { state: "watching", expiresInMs: WATCH_MS };
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
