// Who is asking: a caller by a minted token, or by an identity that a configured provider vouches for and that the
// operator has allowed by name. A provider's word alone is not enough: it may vouch for strangers too.

import { v } from "convex/values";

import type { QueryCtx } from "../_generated/server";
import { failure } from "../wire/failure";
import { sha256 } from "../wire/text";

/** The argument by which a caller is known. Who comes with an identity leaves it out. */
export const callerArgs = { callerToken: v.optional(v.string()) };

/** Refuses whoever is no caller of this backend. */
export async function requireCaller(ctx: QueryCtx, callerToken: string | undefined): Promise<void> {
  const known = callerToken === undefined ? await hasIdentity(ctx) : await hasToken(ctx, callerToken);
  if (known) return;
  throw failure(
    "CALLER_UNAUTHORIZED",
    callerToken === undefined
      ? "callerToken must be given, or the identity of an allowed caller"
      : "the caller token is not one of this backend's",
  );
}

async function hasToken(ctx: QueryCtx, token: string): Promise<boolean> {
  const tokenHash = await sha256(token);
  const caller = await ctx.db
    .query("callers")
    .withIndex("by_token", (q) => q.eq("tokenHash", tokenHash))
    .first();
  return caller !== null;
}

async function hasIdentity(ctx: QueryCtx): Promise<boolean> {
  const identity = await ctx.auth.getUserIdentity();
  if (identity === null) return false;
  const caller = await ctx.db
    .query("callers")
    .withIndex("by_identity", (q) => q.eq("tokenIdentifier", identity.tokenIdentifier))
    .first();
  return caller !== null;
}
