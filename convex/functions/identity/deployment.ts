// Which deployment this is, whatever its address: devices keep what belongs to one apart from what belongs to another.

import type { Doc } from "../_generated/dataModel";
import type { MutationCtx } from "../_generated/server";

/** The row of this deployment, made when it is first asked for. */
export async function deploymentRow(ctx: MutationCtx): Promise<Doc<"deployment">> {
  const known = await ctx.db.query("deployment").first();
  if (known !== null) return known;
  const made = await ctx.db.insert("deployment", { backendId: crypto.randomUUID() });
  return (await ctx.db.get(made)) as Doc<"deployment">;
}
