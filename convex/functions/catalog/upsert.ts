// catalog:upsertMany: a device says what it has. Bodies are JSON text that nobody here reads.

import { type ObjectType, v } from "convex/values";

import type { MutationCtx } from "../_generated/server";
import { deviceArgs, requireDevice } from "../identity/device";
import { kind } from "../schema";
import { bounded, numeric, PAYLOAD_LIMIT, payload, whole } from "../wire/arguments";
import { invalid, tooLarge } from "../wire/failure";
import { utf8Length } from "../wire/text";
import { item } from "./list";

/** The most items in one call. */
const MOST_ITEMS = 1000;
/** The most bytes of one kind's bodies: `list` returns them in one reply. */
const KIND_LIMIT = 6 * 1024 * 1024;

const args = {
  ...deviceArgs,
  kind,
  revision: numeric,
  // Whether these items are all there are: what is not among them is deleted.
  complete: v.boolean(),
  items: v.array(item),
};
type Asked = ObjectType<typeof args>;

const upserted = v.object({
  inserted: v.number(),
  updated: v.number(),
  removed: v.number(),
  unchanged: v.number(),
});

export const upsertMany = {
  args,
  returns: upserted,
  handler: async (ctx: MutationCtx, asked: Asked): Promise<typeof upserted.type> => {
    await requireDevice(ctx, asked.deviceId, asked.token);
    check(asked);
    if (!(await advances(ctx, asked))) {
      return { inserted: 0, updated: 0, removed: 0, unchanged: asked.items.length };
    }
    return await apply(ctx, asked);
  },
};

function check({ items }: Asked): void {
  if (items.length > MOST_ITEMS) throw invalid(`items must be at most ${MOST_ITEMS} in one call`);
  const keys = new Set<string>();
  for (const { key, hash, body } of items) {
    bounded("key", key, 256);
    bounded("hash", hash, 128);
    payload("body", body, PAYLOAD_LIMIT);
    if (keys.has(key)) throw invalid(`the key ${JSON.stringify(key)} is twice among items`);
    keys.add(key);
  }
}

/** Notes the revision. False: a higher one was seen, and this call comes too late to count. */
async function advances(ctx: MutationCtx, asked: Asked): Promise<boolean> {
  const { deviceId, kind } = asked;
  const revision = whole("revision", asked.revision);
  const noted = await ctx.db
    .query("catalogRevisions")
    .withIndex("by_kind", (q) => q.eq("deviceId", deviceId).eq("kind", kind))
    .unique();
  if (noted === null) await ctx.db.insert("catalogRevisions", { deviceId, kind, revision });
  else if (noted.revision > revision) return false;
  else if (noted.revision < revision) await ctx.db.patch(noted._id, { revision });
  return true;
}

/** Writes what differs, and deletes what a complete set does not hold. */
async function apply(ctx: MutationCtx, asked: Asked): Promise<typeof upserted.type> {
  const { deviceId, kind, items, complete } = asked;
  const tally = { inserted: 0, updated: 0, removed: 0, unchanged: 0 };
  const rows = await ctx.db
    .query("catalog")
    .withIndex("by_key", (q) => q.eq("deviceId", deviceId).eq("kind", kind))
    .collect();
  const stored = new Map(rows.map((row) => [row.key, row]));
  let bytes = 0;
  for (const item of items) {
    const row = stored.get(item.key);
    stored.delete(item.key);
    bytes += utf8Length(row?.hash === item.hash ? row.body : item.body);
    if (row === undefined) {
      await ctx.db.insert("catalog", { deviceId, kind, ...item });
      tally.inserted += 1;
    } else if (row.hash === item.hash) {
      tally.unchanged += 1;
    } else {
      await ctx.db.patch(row._id, { hash: item.hash, body: item.body });
      tally.updated += 1;
    }
  }
  for (const row of stored.values()) {
    if (complete) {
      await ctx.db.delete(row._id);
      tally.removed += 1;
    } else {
      bytes += utf8Length(row.body);
    }
  }
  if (bytes > KIND_LIMIT) throw tooLarge("the catalog of one kind", KIND_LIMIT);
  return tally;
}
