// How long bodies are kept. The operator may say: `npx convex env set PUNIE_RETENTION_DAYS 7`.

const DAY_MS = 24 * 60 * 60 * 1000;
const DAYS = 30;

/** The days as milliseconds. */
export function retentionMs(): number {
  const said = process.env.PUNIE_RETENTION_DAYS;
  const days = said === undefined || said === "" ? DAYS : Number(said);
  if (days >= 1 && days <= 3650) return days * DAY_MS;
  throw new Error(`PUNIE_RETENTION_DAYS must be a number from 1 to 3650, not ${JSON.stringify(said)}`);
}
