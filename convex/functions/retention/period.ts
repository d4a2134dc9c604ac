// How long bodies are kept. The operator may say: `npx convex env set PUNIE_RETENTION_DAYS 7`.

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

/**
 * Whether a request id was made before all that is kept, by the time in it: the row of its request may be gone. Only a
 * UUIDv7 carries a time.
 */
export function isPastRetention(requestId: string, nowMs: number): boolean {
  const parts = UUID_V7.exec(requestId);
  return parts !== null && Number.parseInt(`${parts[1]}${parts[2]}`, 16) <= nowMs - (retentionMs() - AHEAD_MS);
}
