// devices:presence and devices:list: which devices there are, and what each last said; how it fares is in the first alone.
// A subscription to the list is run again at every beat of any device; one to the presence of a device at its own.
// `online` is the last beat's own word. Whether that beat is recent enough (2.5 times beatMs) is the reader's to judge by
// seenAtMs: a query that looked at the clock would not be run again when the time is up.

import { type ObjectType, v } from "convex/values";

import type { Doc } from "../_generated/dataModel";
import type { QueryCtx } from "../_generated/server";
import { callerArgs, requireCaller } from "../identity/caller";
import { deviceRow } from "../identity/device";
import * as ids from "../wire/ids";

/** The most devices in one reply. */
const MOST = 1000;

/** When a device was last heard, and what it said. Absent parts were never said. */
const seen = { seenAtMs: v.optional(v.number()), beatMs: v.optional(v.number()), online: v.boolean() };
const sighting = { ...seen, health: v.optional(v.string()) };

/** The last beat of a device. */
export async function presenceRow(ctx: QueryCtx, deviceId: string): Promise<Doc<"presence"> | null> {
  return await ctx.db
    .query("presence")
    .withIndex("by_device", (q) => q.eq("deviceId", deviceId))
    .unique();
}

function seenBy(beat: Doc<"presence"> | null): ObjectType<typeof seen> {
  if (beat === null) return { online: false };
  const { seenAtMs, beatMs, online } = beat;
  return { seenAtMs, online, ...(beatMs !== undefined && { beatMs }) };
}

const presenceArgs = { ...callerArgs, deviceId: v.string() };

export const presence = {
  args: presenceArgs,
  /** Null for a device that never beat. */
  returns: v.union(v.object(sighting), v.null()),
  handler: async (ctx: QueryCtx, asked: ObjectType<typeof presenceArgs>) => {
    await requireCaller(ctx, asked.callerToken, "look");
    ids.deviceId(asked.deviceId);
    const beat = await presenceRow(ctx, asked.deviceId);
    if (beat === null) return null;
    return { ...seenBy(beat), ...(beat.health !== undefined && { health: beat.health }) };
  },
};

const listArgs = { ...callerArgs, deviceId: v.optional(v.string()) };

export const list = {
  args: listArgs,
  /** Every device that is not revoked, or the one asked for, by id. */
  returns: v.array(v.object({ deviceId: v.string(), name: v.string(), platform: v.string(), ...seen })),
  handler: async (ctx: QueryCtx, asked: ObjectType<typeof listArgs>) => {
    await requireCaller(ctx, asked.callerToken, "look");
    const devices = await chosen(ctx, asked.deviceId);
    return await Promise.all(
      devices
        .filter((device) => !device.revoked)
        .map(async ({ deviceId, name, platform }) => {
          return { deviceId, name, platform, ...seenBy(await presenceRow(ctx, deviceId)) };
        }),
    );
  },
};

async function chosen(ctx: QueryCtx, deviceId: string | undefined): Promise<Doc<"devices">[]> {
  if (deviceId === undefined) {
    const there = ctx.db.query("devices").withIndex("by_device");
    return await there.filter((q) => q.eq(q.field("revoked"), false)).take(MOST);
  }
  ids.deviceId(deviceId);
  const device = await deviceRow(ctx, deviceId);
  return device === null ? [] : [device];
}
