// Who is asking: a caller by a minted token, or by an identity that a configured provider vouches for and that the
// operator has allowed by name. A provider's word alone is not enough: it may vouch for strangers too.

import { v } from "convex/values";

import type { Doc } from "../_generated/dataModel";
import type { QueryCtx } from "../_generated/server";
import { failure } from "../wire/failure";
import { sha256 } from "../wire/text";

/** The argument by which a caller is known. Who comes with an identity leaves it out. */
export const callerArgs = { callerToken: v.optional(v.string()) };

/** What a caller may do, where the operator has limited it. */
export const may = v.union(v.literal("ask"), v.literal("approve"));
/**
 * What a caller wants: to ask a device for a tool and see what comes of it; to see and answer what devices ask about; or
 * to look which devices there are, which every caller may.
 */
export type CallerAction = typeof may.type | "look";

/** Refuses whoever is no caller of this backend, or may not do this. Returns the caller's name. */
export async function requireCaller(
  ctx: QueryCtx,
  callerToken: string | undefined,
  action: CallerAction,
): Promise<string> {
  const caller = callerToken === undefined ? await byIdentity(ctx) : await byToken(ctx, callerToken);
  if (caller !== null) {
    if (action === "look" || caller.may === undefined || caller.may === action) return caller.name;
    throw failure("CALLER_UNAUTHORIZED", `this caller may ${caller.may}, and not ${action}`);
  }
  throw failure(
    "CALLER_UNAUTHORIZED",
    callerToken === undefined
      ? "callerToken must be given, or the identity of an allowed caller"
      : "the caller token is not one of this backend's",
  );
}

async function byToken(ctx: QueryCtx, token: string): Promise<Doc<"callers"> | null> {
  const tokenHash = await sha256(token);
  return await ctx.db
    .query("callers")
    .withIndex("by_token", (q) => q.eq("tokenHash", tokenHash))
    .first();
}

async function byIdentity(ctx: QueryCtx): Promise<Doc<"callers"> | null> {
  const identity = await ctx.auth.getUserIdentity();
  if (identity === null) return null;
  return await ctx.db
    .query("callers")
    .withIndex("by_identity", (q) => q.eq("tokenIdentifier", identity.tokenIdentifier))
    .first();
}
