// Which device is calling, by its session's token; and which devices may be asked.
// Not here: signatures, which prove a device's key when a session is opened.

import { v } from "convex/values";

import type { Doc } from "../_generated/dataModel";
import type { QueryCtx } from "../_generated/server";
import { type Failure, failure } from "../wire/failure";
import * as ids from "../wire/ids";
import { sha256 } from "../wire/text";

/** The arguments by which a device is known. */
export const deviceArgs = { deviceId: v.string(), token: v.string() };

/** The row of a device. */
export async function deviceRow(ctx: QueryCtx, deviceId: string): Promise<Doc<"devices"> | null> {
  return await ctx.db
    .query("devices")
    .withIndex("by_device", (q) => q.eq("deviceId", deviceId))
    .unique();
}

/** Refuses whoever does not hold the current session of this device. */
export async function requireDevice(ctx: QueryCtx, deviceId: string, token: string): Promise<void> {
  ids.deviceId(deviceId);
  const device = await deviceRow(ctx, deviceId);
  if (device === null) throw unknownDevice();
  // Hashes are compared, so the time it takes tells nothing of the token.
  if (device.revoked || device.tokenHash !== (await sha256(token))) {
    throw failure("DEVICE_UNAUTHORIZED", "the token is not this device's session");
  }
}

/** Refuses a device that no request can be sent to. */
export async function requireAddressee(ctx: QueryCtx, deviceId: string): Promise<void> {
  ids.deviceId(deviceId);
  const device = await deviceRow(ctx, deviceId);
  if (device === null) throw unknownDevice();
  if (device.revoked) throw revokedDevice();
}

/** The device never opened a session here. */
export function unknownDevice(): Failure {
  return failure("DEVICE_UNKNOWN", "no device of this id has opened a session");
}

/** The owner withdrew the device. */
export function revokedDevice(): Failure {
  return failure("DEVICE_UNAUTHORIZED", "this device was revoked");
}
