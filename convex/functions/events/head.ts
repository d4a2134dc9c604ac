// events:head: the newest sequence number of a device, which a wake-up socket subscribes to.

import { type ObjectType, v } from "convex/values";

import type { QueryCtx } from "../_generated/server";
import { deviceArgs, requireDevice } from "../identity/device";

export const head = {
  args: deviceArgs,
  // Decimal text: nanoseconds do not fit a float.
  returns: v.union(v.string(), v.null()),
  handler: async (ctx: QueryCtx, asked: ObjectType<typeof deviceArgs>) => {
    await requireDevice(ctx, asked.deviceId, asked.token);
    const newest = await ctx.db
      .query("inbox")
      .withIndex("by_device", (q) => q.eq("deviceId", asked.deviceId))
      .order("desc")
      .first();
    return newest === null ? null : String(newest.seq);
  },
};
