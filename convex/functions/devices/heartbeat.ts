// devices:heartbeat: a device says that it is there, signed, so that nobody else can say it.

import { type ObjectType, v } from "convex/values";

import type { MutationCtx } from "../_generated/server";
import { deviceRow, revokedDevice, unknownDevice } from "../identity/device";
import * as signature from "../identity/signature";
import { finite, numeric, payload, whole } from "../wire/arguments";
import { failure } from "../wire/failure";
import * as ids from "../wire/ids";
import { presenceRow } from "./presence";
import { hasOthers, withBeat } from "./processes";

/** How often a device beats that does not say, and how often one may. */
const BEAT_MS = 60_000;
/** The least often. */
const LONGEST_BEAT_MS = 3_600_000;
/** The most bytes of a health report. */
const HEALTH_LIMIT = 4 * 1024;

const args = {
  deviceId: v.string(),
  signedAtMs: numeric,
  signature: v.string(),
  online: v.optional(v.boolean()),
  // How often the device means to beat: seldom while a wake-up socket stands.
  beatMs: v.optional(numeric),
  // JSON text; the latest beat's word stands, also its silence.
  health: v.optional(v.string()),
  // One for each start of the device's process; older devices have none.
  processId: v.optional(v.string()),
};

export const heartbeat = {
  args,
  returns: v.object({
    serverNowMs: v.number(),
    nextBeatMs: v.number(),
    // True where another process with this device's identity beats, too; absent otherwise.
    otherProcess: v.optional(v.boolean()),
  }),
  handler: async (ctx: MutationCtx, asked: ObjectType<typeof args>) => {
    const { deviceId, health, processId } = asked;
    ids.deviceId(deviceId);
    if (processId !== undefined) ids.processId(processId);
    const signedAtMs = whole("signedAtMs", asked.signedAtMs);
    if (health !== undefined) payload("health", health, HEALTH_LIMIT);
    const wanted = asked.beatMs === undefined ? BEAT_MS : finite("beatMs", asked.beatMs);
    const beatMs = Math.min(Math.max(wanted, BEAT_MS), LONGEST_BEAT_MS);
    const device = await deviceRow(ctx, deviceId);
    if (device === null) throw unknownDevice();
    if (device.revoked) throw revokedDevice();
    const serverNowMs = Date.now();
    await signature.verify(signature.publicKey(device.publicKey), `${deviceId}:${signedAtMs}`, asked.signature);
    signature.fresh(signedAtMs, serverNowMs);
    const last = await presenceRow(ctx, deviceId);
    if (last !== null && signedAtMs <= last.signedAtMs) {
      throw failure("SIGNATURE_REPLAYED", "a beat signed at this time or later was heard already; sign again");
    }
    const online = asked.online ?? true;
    const known = last?.processes ?? [];
    const times = { online, nowMs: serverNowMs, nextMs: beatMs };
    const processes = processId === undefined ? known : withBeat(known, processId, times);
    const beat = {
      deviceId,
      signedAtMs,
      seenAtMs: serverNowMs,
      beatMs,
      online,
      processes,
      ...(health !== undefined && { health }),
    };
    if (last === null) await ctx.db.insert("presence", beat);
    else await ctx.db.replace(last._id, beat);
    const otherProcess = processId !== undefined && hasOthers(processes, processId, serverNowMs);
    return { serverNowMs, nextBeatMs: beatMs, ...(otherProcess && { otherProcess }) };
  },
};
