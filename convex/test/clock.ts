// A clock that stands still until it is moved, in the place of the runtime's own: cases compare times exactly.

const RuntimeDate = Date;
const BEGIN_MS = 1_763_000_000_000;
let nowMs = BEGIN_MS;

class StandingDate extends RuntimeDate {
  constructor(...parts: [] | [number | string | Date]) {
    super(...((parts.length === 0 ? [nowMs] : parts) as [number]));
  }

  static override now(): number {
    return nowMs;
  }
}

/** Puts it in place of Date. */
export function install(): void {
  globalThis.Date = StandingDate as DateConstructor;
}

/** Puts it back to where it begins. */
export function reset(): void {
  nowMs = BEGIN_MS;
}

/** Moves it, and says what it shows then. */
export function advance(ms: number): number {
  nowMs += ms;
  return nowMs;
}
