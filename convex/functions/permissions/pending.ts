// permissions:pending: the questions that wait. It compares no times: the reader judges by expiresAtMs.
// Callers see what has no answer yet; a device sees its answers too, until the request has its result.

import { type ObjectType, v } from "convex/values";

import type { Doc } from "../_generated/dataModel";
import type { QueryCtx } from "../_generated/server";
import { callerArgs, requireCaller } from "../identity/caller";
import { requireDevice } from "../identity/device";
import { numeric, wait } from "../wire/arguments";
import * as ids from "../wire/ids";
import { answer, option } from "./shape";

/** The most questions in one reply, by 4 KiB of title each. Of more, those that expire last: expired ones hide none. */
const MOST = 500;

const args = {
  ...callerArgs,
  token: v.optional(v.string()),
  deviceId: v.optional(v.string()),
  waitMs: v.optional(numeric),
};

const question = v.object({
  permissionId: v.string(),
  requestId: v.string(),
  deviceId: v.string(),
  title: v.string(),
  // The host and port that it is about.
  host: v.optional(v.string()),
  options: v.array(option),
  askedAtMs: v.number(),
  expiresAtMs: v.number(),
  answer: v.optional(answer),
});

export const pending = {
  args,
  returns: v.array(question),
  handler: async (ctx: QueryCtx, asked: ObjectType<typeof args>) => {
    const { callerToken, deviceId, token } = asked;
    if (token !== undefined && deviceId !== undefined) {
      await requireDevice(ctx, deviceId, token);
      wait(asked.waitMs);
      const both = [...(await ofDevice(ctx, deviceId, "asked")), ...(await ofDevice(ctx, deviceId, "answered"))];
      return both.sort(byAge).map(travelling);
    }
    await requireCaller(ctx, callerToken, "approve");
    wait(asked.waitMs);
    if (deviceId === undefined) {
      const rows = ctx.db.query("permissions").withIndex("by_state", (q) => q.eq("state", "asked"));
      return (await rows.order("desc").take(MOST)).sort(byAge).map(travelling);
    }
    ids.deviceId(deviceId);
    return (await ofDevice(ctx, deviceId, "asked")).sort(byAge).map(travelling);
  },
};

type Row = Doc<"permissions">;

async function ofDevice(ctx: QueryCtx, deviceId: string, state: "asked" | "answered"): Promise<Row[]> {
  const rows = ctx.db
    .query("permissions")
    .withIndex("by_device", (q) => q.eq("deviceId", deviceId).eq("state", state));
  return await rows.order("desc").take(MOST);
}

const byAge = (left: Row, right: Row): number => left._creationTime - right._creationTime;

function travelling({ _id, _creationTime, bodyHash, state, ...told }: Row): typeof question.type {
  return told;
}
