// events:listForDevice: one page of a device's inbox after its cursor, oldest first.
//
// It reads no clock and nothing that changes by itself, so an idle device's polls come from Convex's cache. Rows are
// never skipped, also not those of finished requests: the cursor counts commits, and the device's journal knows what
// it has answered. `request` is there for a tool_request whose body is still stored; it is null for a tool_cancel (its
// request always came before) and for a body that is gone.

import { type ObjectType, v } from "convex/values";

import type { Doc } from "../_generated/dataModel";
import type { QueryCtx } from "../_generated/server";
import { deviceArgs, requireDevice } from "../identity/device";
import { numeric, type Numeric, PAGE_BYTES, wait, whole } from "../wire/arguments";
import { invalid } from "../wire/failure";
import { utf8Length } from "../wire/text";
import { requestRow, toolRequest, withBody } from "./request";

/** Events in a page when the device does not say. */
const LIMIT = 64;
/** The most it may ask for. */
const MOST = 512;
const LARGEST_SEQ = 2n ** 63n - 1n;

const args = {
  ...deviceArgs,
  cursor: v.union(v.string(), v.null()),
  limit: v.optional(numeric),
  waitMs: v.optional(numeric),
};

const event = v.object({
  seq: v.string(),
  type: v.string(),
  requestId: v.string(),
  request: v.union(toolRequest, v.null()),
});
type Event = typeof event.type;

const page = v.object({
  events: v.array(event),
  cursor: v.union(v.string(), v.null()),
  isDone: v.boolean(),
});

export const listForDevice = {
  args,
  returns: page,
  handler: async (ctx: QueryCtx, asked: ObjectType<typeof args>): Promise<typeof page.type> => {
    wait(asked.waitMs);
    await requireDevice(ctx, asked.deviceId, asked.token);
    const after = cursorOf(asked.cursor);
    const pager = new Pager(limitOf(asked.limit));
    const rows = ctx.db
      .query("inbox")
      .withIndex("by_device", (q) => q.eq("deviceId", asked.deviceId).gt("seq", after));
    let isDone = true;
    for await (const row of rows) {
      if (!pager.begin(committed(row.seq))) {
        isDone = false;
        break;
      }
      pager.add(await eventOf(ctx, row));
    }
    isDone = pager.closeGroup() && isDone;
    return { events: pager.events, cursor: pager.last?.toString() ?? asked.cursor, isDone };
  },
};

function cursorOf(cursor: string | null): bigint {
  if (cursor === null) return 0n;
  const seq = /^[0-9]+$/.test(cursor) ? BigInt(cursor) : null;
  if (seq === null || seq > LARGEST_SEQ) throw invalid("cursor must be decimal digits");
  return seq;
}

function limitOf(asked: Numeric | undefined): number {
  const limit = asked === undefined ? LIMIT : whole("limit", asked);
  if (limit === 0) throw invalid("limit must be at least 1");
  return Math.min(limit, MOST);
}

/** A query sees what is committed, so every seq has its number. */
function committed(seq: Doc<"inbox">["seq"]): bigint {
  if (typeof seq === "bigint") return seq;
  throw new Error("a query met a row that is not committed");
}

async function eventOf(ctx: QueryCtx, row: Doc<"inbox">): Promise<Event> {
  const request = row.type === "tool_request" ? await requestRow(ctx, row.requestId) : null;
  return {
    seq: String(row.seq),
    type: row.type,
    requestId: row.requestId,
    request: request === null ? null : await withBody(ctx, request),
  };
}

/**
 * A page under way. Rows of one commit share a seq and stay together: a cursor between them would lose the rest.
 * The first group always fits, whatever its size.
 */
class Pager {
  readonly events: Event[] = [];
  /** The seq of the last group taken. */
  last: bigint | null = null;
  private bytes = 0;
  private group: Event[] = [];
  private groupBytes = 0;
  private groupSeq: bigint | null = null;

  constructor(private readonly limit: number) {}

  /** Makes ready for a row of this seq. False: the page is full without it. */
  begin(seq: bigint): boolean {
    if (this.groupSeq !== null && this.groupSeq !== seq) {
      if (!this.closeGroup() || this.events.length >= this.limit) return false;
    }
    this.groupSeq = seq;
    return true;
  }

  add(event: Event): void {
    this.group.push(event);
    this.groupBytes += utf8Length(JSON.stringify(event));
  }

  /** Takes the group that has come together. False: it has to wait for the next page. */
  closeGroup(): boolean {
    const fits =
      this.events.length + this.group.length <= this.limit && this.bytes + this.groupBytes <= PAGE_BYTES;
    const waits = !fits && this.events.length > 0;
    if (!waits && this.groupSeq !== null) {
      this.events.push(...this.group);
      this.bytes += this.groupBytes;
      this.last = this.groupSeq;
    }
    this.group = [];
    this.groupBytes = 0;
    this.groupSeq = null;
    return !waits;
  }
}
