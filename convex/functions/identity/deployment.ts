// Which deployment this is, whatever its address: devices keep what belongs to one apart from what belongs to another.

import type { MutationCtx } from "../_generated/server";

/** The id of this deployment, made when it is first asked for. */
export async function backendId(ctx: MutationCtx): Promise<string> {
  const known = await ctx.db.query("deployment").first();
  if (known !== null) return known.backendId;
  const made = crypto.randomUUID();
  await ctx.db.insert("deployment", { backendId: made });
  return made;
}
