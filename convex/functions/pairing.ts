// The code that a new device must show once, set by the operator; none of this can be called from outside.
//
//   npx convex run pairing:renew     prints a new code, for one device within 15 minutes; an older one is good no more
//   npx convex run pairing:renew '{"uses": 20, "minutes": 60}'     one for 20 devices within an hour
//   npx convex run pairing:close     no new device is let in until the next code

import { v } from "convex/values";

import { internal } from "./_generated/api";
import { internalAction, internalMutation } from "./_generated/server";
import type { MutationCtx } from "./_generated/server";
import { newPairingCode, pairingCodeHash } from "./identity/code";
import { type Numeric, numeric } from "./wire/arguments";
import { invalid } from "./wire/failure";

/** The most that a code may be good for: 10,000 devices within a week. */
const MOST_USES = 10_000;
const MOST_MINUTES = 7 * 24 * 60;

/** For how many devices a code is, and for how many minutes: one and 15, unless more is said. */
const terms = { uses: v.optional(numeric), minutes: v.optional(numeric) };
const kept = v.object({ uses: v.number(), expiresAtMs: v.number() });
const renewed = v.object({ pairingCode: v.string(), uses: v.number(), expiresAtMs: v.number() });

/** Makes a new code. Its hash alone is kept. */
export const renew = internalAction({
  args: terms,
  returns: renewed,
  handler: async (ctx, asked): Promise<typeof renewed.type> => {
    const pairingCode = newPairingCode();
    const codeHash = await pairingCodeHash(pairingCode);
    const said: typeof kept.type = await ctx.runMutation(internal.pairing.keep, { codeHash, ...asked });
    return { pairingCode, ...said };
  },
});

/** Keeps the hash of a new code in the old one's place. */
export const keep = internalMutation({
  args: { codeHash: v.string(), ...terms },
  returns: kept,
  handler: async (ctx, { codeHash, ...asked }) => {
    const uses = within("uses", asked.uses ?? 1, MOST_USES);
    const minutes = within("minutes", asked.minutes ?? 15, MOST_MINUTES);
    await forget(ctx);
    const setAtMs = Date.now();
    const expiresAtMs = setAtMs + minutes * 60_000;
    await ctx.db.insert("pairing", { codeHash, setAtMs, expiresAtMs, usesLeft: uses });
    return { uses, expiresAtMs };
  },
});

function within(field: string, value: Numeric, most: number): number {
  const number = Number(value);
  if (Number.isInteger(number) && number >= 1 && number <= most) return number;
  throw invalid(`${field} must be a whole number from 1 to ${most}`);
}

/** Withdraws the code. Devices that are known stay. */
export const close = internalMutation({
  args: {},
  returns: v.null(),
  handler: async (ctx) => {
    await forget(ctx);
    return null;
  },
});

async function forget(ctx: MutationCtx): Promise<void> {
  for (const row of await ctx.db.query("pairing").collect()) await ctx.db.delete(row._id);
}
