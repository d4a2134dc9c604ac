// events:claim: one process asks to be the one that runs a request.
// A refusal is a value with a reason, because it is an ordinary outcome, not a fault.

import { type ObjectType, v } from "convex/values";

import type { Doc } from "../_generated/dataModel";
import type { MutationCtx } from "../_generated/server";
import { deviceArgs, requireDevice } from "../identity/device";
import { finite, numeric } from "../wire/arguments";
import { invalid } from "../wire/failure";
import * as ids from "../wire/ids";
import { isWatched, requestRow } from "./request";

/** How long a lease lives when the device does not say. */
const LEASE_MS = 60_000;
/** The longest it may ask for. */
const LONGEST_LEASE_MS = 600_000;
/** How long the device may be away after its lease, before its answer to an overdue request comes too late. */
const CLAIMED_GRACE_MS = 600_000;

const args = {
  ...deviceArgs,
  requestId: v.string(),
  leaseId: v.string(),
  leaseMs: v.optional(numeric),
};

const reason = v.union(
  // This lease is new, or took over from one that expired: attempt grew by one.
  v.literal("granted"),
  // This lease was the last one granted already, expired or not: it lives on.
  v.literal("renewed"),
  // Refused: another lease is in force. Ask again when it has expired.
  v.literal("leased"),
  // Refused: there is a result.
  v.literal("finished"),
  // Refused: this device has no request of this id.
  v.literal("unknown"),
);

const claimed = v.object({
  granted: v.boolean(),
  reason,
  attempt: v.number(),
  cancelled: v.boolean(),
  // What is left of the lease in force, ours or the other's; 0 when there is none.
  expiresInMs: v.number(),
  // Whether a caller listens for progress: while none does, the device sends none.
  watched: v.boolean(),
});

export const claim = {
  args,
  returns: claimed,
  handler: async (ctx: MutationCtx, asked: ObjectType<typeof args>): Promise<typeof claimed.type> => {
    await requireDevice(ctx, asked.deviceId, asked.token);
    ids.requestId(asked.requestId);
    ids.leaseId(asked.leaseId);
    const leaseMs = leaseOf(asked.leaseMs);
    const request = await requestRow(ctx, asked.requestId);
    if (request?.deviceId !== asked.deviceId) {
      return { granted: false, reason: "unknown", attempt: 0, cancelled: false, expiresInMs: 0, watched: false };
    }
    const now = Date.now();
    const { attempt, cancelled, leaseExpiresAtMs = 0 } = request;
    const watched = isWatched(request, now);
    const judged = judge(request, asked.leaseId, now);
    switch (judged) {
      case "granted":
      case "renewed": {
        const grown = judged === "granted" ? attempt + 1 : attempt;
        await ctx.db.patch(request._id, {
          leaseId: asked.leaseId,
          leaseExpiresAtMs: now + leaseMs,
          attempt: grown,
          // A deadline that passes meanwhile is the device's to keep: it knows what it has done.
          closeAtMs: Math.max(request.closeAtMs, now + leaseMs + CLAIMED_GRACE_MS),
        });
        return { granted: true, reason: judged, attempt: grown, cancelled, expiresInMs: leaseMs, watched };
      }
      case "leased":
        return { granted: false, reason: judged, attempt, cancelled, expiresInMs: leaseExpiresAtMs - now, watched };
      case "finished":
        return { granted: false, reason: judged, attempt, cancelled, expiresInMs: 0, watched };
    }
  },
};

function leaseOf(asked: number | bigint | undefined): number {
  const leaseMs = asked === undefined ? LEASE_MS : finite("leaseMs", asked);
  if (leaseMs < 1) throw invalid("leaseMs must be at least 1");
  return Math.min(leaseMs, LONGEST_LEASE_MS);
}

function judge(request: Doc<"requests">, leaseId: string, now: number): "granted" | "renewed" | "leased" | "finished" {
  if (request.state === "finished") return "finished";
  if (request.leaseId === undefined) return "granted";
  if (request.leaseId === leaseId) return "renewed";
  return now < (request.leaseExpiresAtMs ?? 0) ? "leased" : "granted";
}
