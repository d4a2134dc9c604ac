// The code that a new device must show once, set by the operator; none of this can be called from outside.
//
//   npx convex run pairing:renew     prints a new code; an older one is good no more
//   npx convex run pairing:close     no new device is let in until the next code

import { v } from "convex/values";

import { internal } from "./_generated/api";
import { internalAction, internalMutation } from "./_generated/server";
import type { MutationCtx } from "./_generated/server";
import { newPairingCode, pairingCodeHash } from "./identity/code";

/** Makes a new code. Its hash alone is kept. */
export const renew = internalAction({
  args: {},
  returns: v.object({ pairingCode: v.string() }),
  handler: async (ctx): Promise<{ pairingCode: string }> => {
    const pairingCode = newPairingCode();
    await ctx.runMutation(internal.pairing.keep, { codeHash: await pairingCodeHash(pairingCode) });
    return { pairingCode };
  },
});

/** Keeps the hash of a new code in the old one's place. */
export const keep = internalMutation({
  args: { codeHash: v.string() },
  returns: v.null(),
  handler: async (ctx, { codeHash }) => {
    await forget(ctx);
    await ctx.db.insert("pairing", { codeHash, setAtMs: Date.now() });
    return null;
  },
});

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
