// catalog:list: how a caller learns which tools, with which schemas, a device has.

import { type ObjectType, v } from "convex/values";

import type { QueryCtx } from "../_generated/server";
import { callerArgs, requireCaller } from "../identity/caller";
import { requireDevice } from "../identity/device";
import { kind } from "../schema";
import * as ids from "../wire/ids";

/** One thing that a device has. The hash tells whether the body changed. */
export const item = v.object({ key: v.string(), hash: v.string(), body: v.string() });

const args = { ...callerArgs, token: v.optional(v.string()), deviceId: v.string(), kind };

export const list = {
  args,
  /** By key. */
  returns: v.array(item),
  handler: async (ctx: QueryCtx, asked: ObjectType<typeof args>) => {
    const { callerToken, token, deviceId } = asked;
    if (callerToken === undefined && token !== undefined) {
      await requireDevice(ctx, deviceId, token);
    } else {
      await requireCaller(ctx, callerToken, "look");
      ids.deviceId(deviceId);
    }
    const rows = ctx.db
      .query("catalog")
      .withIndex("by_key", (q) => q.eq("deviceId", deviceId).eq("kind", asked.kind));
    return (await rows.collect()).map(({ key, hash, body }) => ({ key, hash, body }));
  },
};
