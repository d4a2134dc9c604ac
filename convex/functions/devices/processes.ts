// Which processes of one device beat: how two that share an identity (a copied home) are told from one that was
// restarted. A device is told of another process only when that one beat after the asker's own first beat. A process
// that has ended cannot do that, so that a restart, after a crash too, is never taken for a second process.

import { v } from "convex/values";

/** The most processes that are remembered of one device. */
const MOST = 8;

/** The processes of one device by their beats, the one that beat last at the end. */
export const processes = v.array(
  v.object({
    processId: v.string(),
    firstMs: v.number(),
    lastMs: v.number(),
    /** After so long without a beat it counts as gone: two beats after its last one. */
    untilMs: v.number(),
  }),
);
type Processes = typeof processes.type;

/** The list with a beat of this process, which is to beat again within `nextMs`; one that says goodbye is taken off. */
export function withBeat(
  known: Processes,
  processId: string,
  beat: { online: boolean; nowMs: number; nextMs: number },
): Processes {
  const { online, nowMs, nextMs } = beat;
  const own = known.find((process) => process.processId === processId);
  const others = known.filter((process) => process.processId !== processId && process.untilMs >= nowMs);
  if (!online) return others;
  const now = { processId, firstMs: own?.firstMs ?? nowMs, lastMs: nowMs, untilMs: nowMs + 2 * nextMs };
  return [...others, now].slice(-MOST);
}

/** Tells whether another process has beaten since the first beat of this one, and is not gone. */
export function hasOthers(known: Processes, processId: string, nowMs: number): boolean {
  const own = known.find((process) => process.processId === processId);
  if (own === undefined) return false;
  return known.some(
    (other) => other.processId !== processId && other.lastMs > own.firstMs && other.untilMs >= nowMs,
  );
}
