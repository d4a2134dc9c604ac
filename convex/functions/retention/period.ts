// How long bodies are kept, and which ids are refused for that. The operator may say how long:
// `npx convex env set PUNIE_RETENTION_DAYS 7`.

import type { MutationCtx, QueryCtx } from "../_generated/server";
import { deploymentRow } from "../identity/deployment";

const DAY_MS = 24 * 60 * 60 * 1000;
const DAYS = 30;
/** How far a caller's clock may be ahead of ours for the rows of its requests to be deleted. */
const AHEAD_MS = 60 * 60 * 1000;

/** The days as milliseconds; the usual ones where what is said makes no sense. */
export function retentionMs(): number {
  const days = saidDays();
  return (isSensible(days) ? days : DAYS) * DAY_MS;
}

/** The same for who deletes by it: that must not be guessed. */
export function exactRetentionMs(): number {
  const said = process.env.PUNIE_RETENTION_DAYS;
  if (isSensible(saidDays())) return retentionMs();
  throw new Error(`PUNIE_RETENTION_DAYS must be a number from 1 to 3650, not ${JSON.stringify(said)}`);
}

function saidDays(): number {
  const said = process.env.PUNIE_RETENTION_DAYS;
  return said === undefined || said === "" ? DAYS : Number(said);
}

function isSensible(days: number): boolean {
  return days >= 1 && days <= 3650;
}

const UUID_V7 = /^([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/i;

/** When a request id was made, by the time in it. Only a UUIDv7 carries one. */
function madeAtMs(requestId: string): number | undefined {
  const parts = UUID_V7.exec(requestId);
  return parts === null ? undefined : Number.parseInt(`${parts[1]}${parts[2]}`, 16);
}

/** The time up to which ids are refused: the rows of their requests may be gone. */
function refusedUntilMs(nowMs: number): number {
  return nowMs - (retentionMs() - AHEAD_MS);
}

/** Whether a request id was made before all that is kept, so that the row of its request may go. */
export function isPastRetention(requestId: string, nowMs: number): boolean {
  const madeMs = madeAtMs(requestId);
  return madeMs !== undefined && madeMs <= refusedUntilMs(nowMs);
}

/**
 * Whether a request id was made before all that is kept, or before any that was ever deleted, under whatever retention.
 * What is deleted is older than a day, less an hour: no row is read for a younger id.
 */
export async function isRefused(ctx: QueryCtx, requestId: string, nowMs: number): Promise<boolean> {
  const madeMs = madeAtMs(requestId);
  if (madeMs === undefined || madeMs > nowMs - (DAY_MS - AHEAD_MS)) return false;
  const deployment = await ctx.db.query("deployment").first();
  return madeMs <= Math.max(refusedUntilMs(nowMs), deployment?.sweptMs ?? 0);
}

/** Keeps for good up to when requests were deleted. */
export async function recordSweep(ctx: MutationCtx, nowMs: number): Promise<void> {
  const row = await deploymentRow(ctx);
  const sweptMs = refusedUntilMs(nowMs);
  if ((row.sweptMs ?? 0) < sweptMs) await ctx.db.patch(row._id, { sweptMs });
}
