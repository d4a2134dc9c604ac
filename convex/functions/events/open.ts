// events:listOpenIds and events:listOpen: a device's requests without a result, oldest first, whatever its cursor says.
// A device asks for the ids, and then for those alone that it does not know. Both are bounded: what does not fit shows
// once the older ones are answered.

import { type ObjectType, v } from "convex/values";

import type { Doc } from "../_generated/dataModel";
import type { QueryCtx } from "../_generated/server";
import { deviceArgs, requireDevice } from "../identity/device";
import { PAGE_BYTES } from "../wire/arguments";
import { invalid } from "../wire/failure";
import * as ids from "../wire/ids";
import { utf8Length } from "../wire/text";
import { requestRow, type ToolRequest, toolRequest, withBody } from "./request";

/** The most requests in one reply. */
const MOST = 1000;

export const listOpenIds = {
  args: deviceArgs,
  returns: v.array(v.object({ requestId: v.string(), cancelled: v.boolean() })),
  handler: async (ctx: QueryCtx, asked: ObjectType<typeof deviceArgs>) => {
    await requireDevice(ctx, asked.deviceId, asked.token);
    const rows = await openRows(ctx, asked.deviceId).take(MOST);
    return rows.map(({ requestId, cancelled }) => ({ requestId, cancelled }));
  },
};

const args = {
  ...deviceArgs,
  // Only these, as far as they are open; all of them where it is absent.
  requestIds: v.optional(v.array(v.string())),
};

export const listOpen = {
  args,
  returns: v.array(toolRequest),
  handler: async (ctx: QueryCtx, asked: ObjectType<typeof args>) => {
    await requireDevice(ctx, asked.deviceId, asked.token);
    const { deviceId, requestIds } = asked;
    const rows = requestIds === undefined ? openRows(ctx, deviceId) : named(ctx, deviceId, requestIds);
    const open: ToolRequest[] = [];
    let bytes = 0;
    for await (const row of rows) {
      if (open.length === MOST) break;
      const request = await withBody(ctx, row);
      if (request === null) continue;
      bytes += utf8Length(JSON.stringify(request));
      if (bytes > PAGE_BYTES && open.length > 0) break;
      open.push(request);
    }
    return open;
  },
};

function openRows(ctx: QueryCtx, deviceId: string) {
  return ctx.db
    .query("requests")
    .withIndex("by_device", (q) => q.eq("deviceId", deviceId).eq("state", "open"));
}

/** The open requests of a device among these, in their order. */
async function* named(ctx: QueryCtx, deviceId: string, requestIds: string[]): AsyncGenerator<Doc<"requests">> {
  if (requestIds.length > MOST) throw invalid(`requestIds must be at most ${MOST}`);
  requestIds.forEach(ids.requestId);
  for (const requestId of requestIds) {
    const row = await requestRow(ctx, requestId);
    if (row?.deviceId === deviceId && row.state === "open") yield row;
  }
}
