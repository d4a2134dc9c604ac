// Who may ask, set by the operator; none of this can be called from outside.
//
//   npx convex run callers:mint '{"name": "my agent"}'     prints the token: the only time that it is seen
//   npx convex run callers:mint '{"name": "...", "may": "approve"}'    one that answers questions alone ("both": and asks)
//   npx convex run callers:allow '{"name": "...", "tokenIdentifier": "<issuer>|<subject>"}'    takes "may", too
//   npx convex run callers:list
//   npx convex run callers:revoke '{"name": "my agent"}'

import { v } from "convex/values";

import { internal } from "./_generated/api";
import { internalAction, internalMutation, internalQuery } from "./_generated/server";
import { may } from "./identity/caller";
import { newToken } from "./identity/code";
import * as ids from "./wire/ids";
import { sha256 } from "./wire/text";

/** What a caller may do, as the operator says it: ask, unless more is said. */
const said = v.union(may, v.literal("both"));
const minted = v.object({ name: v.string(), callerToken: v.string(), may: v.optional(may) });
const allowed = v.object({ name: v.string(), tokenIdentifier: v.string(), may: v.optional(may) });

/** What is kept of it: nothing for both, as in the rows from before this field. */
function limit(word: typeof said.type | undefined): { may?: typeof may.type } {
  return word === "both" ? {} : { may: word ?? "ask" };
}

/** Makes a token with which a caller may send requests. Its hash alone is kept. */
export const mint = internalAction({
  args: { name: v.string(), may: v.optional(said) },
  returns: minted,
  handler: async (ctx, asked): Promise<typeof minted.type> => {
    const callerToken = newToken();
    const caller = { name: asked.name, may: asked.may ?? "ask" } as const;
    await ctx.runMutation(internal.callers.keep, { ...caller, tokenHash: await sha256(callerToken) });
    return { name: asked.name, callerToken, ...limit(asked.may) };
  },
});

/** Keeps the hash of a token made elsewhere. */
export const keep = internalMutation({
  args: { name: v.string(), tokenHash: v.string(), may: v.optional(said) },
  returns: v.null(),
  handler: async (ctx, { name, tokenHash, ...asked }) => {
    ids.callerName(name);
    if (!/^[0-9a-f]{64}$/.test(tokenHash)) throw new Error("tokenHash must be 64 lower-case hexadecimal digits");
    await ctx.db.insert("callers", { name, tokenHash, ...limit(asked.may), mintedAtMs: Date.now() });
    return null;
  },
});

/**
 * Lets an identity call that a provider of auth.config.ts vouches for, under this name and with these rights, whatever it
 * was allowed before. Answers what stands.
 */
export const allow = internalMutation({
  args: { name: v.string(), tokenIdentifier: v.string(), may: v.optional(said) },
  returns: allowed,
  handler: async (ctx, { name, tokenIdentifier, ...asked }): Promise<typeof allowed.type> => {
    ids.callerName(name);
    const standing = { name, tokenIdentifier, ...limit(asked.may) };
    const known = await ctx.db
      .query("callers")
      .withIndex("by_identity", (q) => q.eq("tokenIdentifier", tokenIdentifier))
      .first();
    if (known === null) await ctx.db.insert("callers", { ...standing, mintedAtMs: Date.now() });
    else await ctx.db.replace(known._id, { ...standing, mintedAtMs: known.mintedAtMs });
    return standing;
  },
});

/** The callers by name, without their hashes. */
export const list = internalQuery({
  args: {},
  returns: v.array(
    v.object({
      name: v.string(),
      mintedAtMs: v.number(),
      may: v.optional(may),
      tokenIdentifier: v.optional(v.string()),
    }),
  ),
  handler: async (ctx) => {
    const callers = await ctx.db.query("callers").withIndex("by_name").collect();
    return callers.map(({ _id, _creationTime, tokenHash, ...caller }) => caller);
  },
});

/** Withdraws every token and identity of this name. */
export const revoke = internalMutation({
  args: { name: v.string() },
  returns: v.object({ revoked: v.number() }),
  handler: async (ctx, { name }) => {
    const callers = await ctx.db
      .query("callers")
      .withIndex("by_name", (q) => q.eq("name", name))
      .collect();
    for (const caller of callers) await ctx.db.delete(caller._id);
    return { revoked: callers.length };
  },
});
