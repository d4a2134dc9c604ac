// events:listOpen: a device's requests without a result, oldest first, whatever its cursor says.
// Bounded like a page: what does not fit shows once the older ones are answered.

import { type ObjectType, v } from "convex/values";

import type { QueryCtx } from "../_generated/server";
import { deviceArgs, requireDevice } from "../identity/device";
import { PAGE_BYTES } from "../wire/arguments";
import { utf8Length } from "../wire/text";
import { type ToolRequest, toolRequest, withBody } from "./request";

/** The most requests in one reply. */
const MOST = 1000;

export const listOpen = {
  args: deviceArgs,
  returns: v.array(toolRequest),
  handler: async (ctx: QueryCtx, asked: ObjectType<typeof deviceArgs>) => {
    await requireDevice(ctx, asked.deviceId, asked.token);
    const rows = ctx.db
      .query("requests")
      .withIndex("by_device", (q) => q.eq("deviceId", asked.deviceId).eq("state", "open"));
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
