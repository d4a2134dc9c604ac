// The functions about devices: their sessions, their beats, and who is there.
// For the operator: `npx convex run devices:revoke '{"deviceId": "..."}'`.

import { v } from "convex/values";

import { internalMutation } from "./_generated/server";
import * as beats from "./devices/heartbeat";
import * as sightings from "./devices/presence";
import * as sessions from "./devices/session";
import { deviceRow } from "./identity/device";
import { mutation, query } from "./wire/public";

export const openSession = mutation(sessions.openSession);
export const heartbeat = mutation(beats.heartbeat);
export const presence = query(sightings.presence);
export const list = query(sightings.list);

/** Withdraws a device: its session ends at once, and its key opens no other. */
export const revoke = internalMutation({
  args: { deviceId: v.string() },
  returns: v.object({ revoked: v.boolean() }),
  handler: async (ctx, { deviceId }) => {
    const device = await deviceRow(ctx, deviceId);
    if (device !== null) await ctx.db.patch(device._id, { revoked: true });
    return { revoked: device !== null };
  },
});
