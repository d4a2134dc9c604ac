// events:cancel: a caller no longer wants a request's result.

import { type ObjectType, v } from "convex/values";

import type { MutationCtx } from "../_generated/server";
import { callerArgs, requireCaller } from "../identity/caller";
import * as ids from "../wire/ids";
import { notify, requestRow } from "./request";

const args = { ...callerArgs, requestId: v.string() };
const state = v.union(v.literal("cancelling"), v.literal("finished"), v.literal("unknown"));
type Reply = { state: typeof state.type };

export const cancel = {
  args,
  returns: v.object({ state }),
  handler: async (ctx: MutationCtx, asked: ObjectType<typeof args>): Promise<Reply> => {
    await requireCaller(ctx, asked.callerToken, "ask");
    ids.requestId(asked.requestId);
    const request = await requestRow(ctx, asked.requestId);
    if (request === null) return { state: "unknown" };
    if (request.state === "finished") return { state: "finished" };
    if (!request.cancelled) {
      await ctx.db.patch(request._id, { cancelled: true });
      await notify(ctx, request.deviceId, "tool_cancel", request.requestId);
    }
    return { state: "cancelling" };
  },
};
