// events:appendResult and events:getResult: what came of a request. The first one stored wins.

import { type ObjectType, v } from "convex/values";

import type { Doc } from "../_generated/dataModel";
import type { MutationCtx, QueryCtx } from "../_generated/server";
import { callerArgs, requireCaller } from "../identity/caller";
import { deviceArgs, requireDevice } from "../identity/device";
import { closeQuestions } from "../permissions/question";
import { outcome } from "../schema";
import { PAYLOAD_LIMIT, payload } from "../wire/arguments";
import { failure } from "../wire/failure";
import * as ids from "../wire/ids";
import { fieldsHash } from "../wire/text";
import { requestOfDevice, requireLease } from "./request";

const appendArgs = {
  ...deviceArgs,
  requestId: v.string(),
  leaseId: v.string(),
  outcome,
  payload: v.string(),
  truncated: v.optional(v.boolean()),
};

export const appendResult = {
  args: appendArgs,
  // Exactly one of the two is true.
  returns: v.object({ stored: v.boolean(), duplicate: v.boolean() }),
  handler: async (ctx: MutationCtx, asked: ObjectType<typeof appendArgs>) => {
    await requireDevice(ctx, asked.deviceId, asked.token);
    ids.requestId(asked.requestId);
    ids.leaseId(asked.leaseId);
    payload("payload", asked.payload, PAYLOAD_LIMIT);
    const request = await requestOfDevice(ctx, asked.requestId, asked.deviceId);
    const result = await resultOf(asked.outcome, asked.payload, asked.truncated);
    if (request.state === "finished") {
      // Asked before the lease: a repeat after a lost reply is a repeat whoever holds it now.
      const stored = await resultRow(ctx, request.requestId);
      if (stored?.bodyHash === result.bodyHash) return { stored: false, duplicate: true };
      throw failure("RESULT_EXISTS", "another result of this request is stored already");
    }
    requireLease(request, asked.leaseId);
    await finish(ctx, request, result);
    return { stored: true, duplicate: false };
  },
};

type Result = Pick<Doc<"results">, "outcome" | "payload" | "truncated" | "bodyHash">;

/** A result with the hash that tells it from any other. */
export async function resultOf(outcome: Result["outcome"], payload: string, truncated?: boolean): Promise<Result> {
  const bodyHash = await fieldsHash([outcome, payload, truncated]);
  return { outcome, payload, bodyHash, ...(truncated !== undefined && { truncated }) };
}

/** Stores the result of an open request, which ends it and its questions. */
export async function finish(ctx: MutationCtx, request: Doc<"requests">, result: Result): Promise<void> {
  await ctx.db.insert("results", { requestId: request.requestId, storedAtMs: Date.now(), ...result });
  await ctx.db.patch(request._id, { state: "finished" });
  await closeQuestions(ctx, request.requestId);
}

async function resultRow(ctx: QueryCtx, requestId: string): Promise<Doc<"results"> | null> {
  return await ctx.db
    .query("results")
    .withIndex("by_request", (q) => q.eq("requestId", requestId))
    .unique();
}

const getArgs = { ...callerArgs, requestId: v.string() };

export const getResult = {
  args: getArgs,
  /** Null while there is no result, for a request nobody made, and for a result that retention has taken. */
  returns: v.union(
    v.object({
      requestId: v.string(),
      outcome,
      payload: v.string(),
      storedAtMs: v.number(),
      truncated: v.optional(v.boolean()),
    }),
    v.null(),
  ),
  handler: async (ctx: QueryCtx, asked: ObjectType<typeof getArgs>) => {
    await requireCaller(ctx, asked.callerToken, "ask");
    ids.requestId(asked.requestId);
    const stored = await resultRow(ctx, asked.requestId);
    if (stored === null) return null;
    const { _id, _creationTime, bodyHash, ...result } = stored;
    return result;
  },
};
