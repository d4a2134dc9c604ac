// permissions:answer: a caller, or somebody at the device, answers a question. The first answer stands.

import { type ObjectType, v } from "convex/values";

import type { MutationCtx } from "../_generated/server";
import { callerArgs, requireCaller } from "../identity/caller";
import { requireDevice } from "../identity/device";
import { payload } from "../wire/arguments";
import { failure, invalid } from "../wire/failure";
import * as ids from "../wire/ids";
import { questionRow } from "./question";
import { answer as shape } from "./shape";

/** The most bytes of an answer in words. */
const TEXT_LIMIT = 4 * 1024;

/** The option that wants an answer in words. */
const TEXT_OPTION = "text";

const args = {
  ...callerArgs,
  deviceId: v.optional(v.string()),
  token: v.optional(v.string()),
  permissionId: v.string(),
  optionId: v.string(),
  text: v.optional(v.string()),
};
type Asked = ObjectType<typeof args>;
type Side = typeof shape.type.by;

const answered = v.object({ accepted: v.boolean(), answer: v.optional(shape) });

export const answer = {
  args,
  returns: answered,
  handler: async (ctx: MutationCtx, asked: Asked): Promise<typeof answered.type> => {
    const by = await side(ctx, asked);
    const { permissionId, optionId, text } = asked;
    ids.permissionId(permissionId);
    if (text !== undefined) payload("text", text, TEXT_LIMIT);
    const question = await questionRow(ctx, permissionId);
    if (question === null || (by === "device" && question.deviceId !== asked.deviceId)) {
      throw failure("REQUEST_UNKNOWN", "there is no permission of this id to answer");
    }
    if (question.options.every((option) => option.optionId !== optionId)) {
      throw invalid(`${JSON.stringify(optionId.slice(0, 40))} is not among the options of this permission`);
    }
    if (optionId === TEXT_OPTION && (text === undefined || text.trim() === "")) {
      throw invalid('the option "text" wants a text that is not blank');
    }
    const standing = question.answer;
    if (standing !== undefined) {
      const same = standing.optionId === optionId && standing.text === text;
      return { accepted: same && standing.by === by, answer: standing };
    }
    const now = Date.now();
    if (question.state === "closed" || now > question.expiresAtMs) return { accepted: false };
    const given = { optionId, by, answeredAtMs: now, ...(text !== undefined && { text }) };
    await ctx.db.patch(question._id, { state: "answered", answer: given });
    return { accepted: true, answer: given };
  },
};

/** Who answers: the device where it shows its session, else a caller. */
async function side(ctx: MutationCtx, { callerToken, deviceId, token }: Asked): Promise<Side> {
  if (deviceId !== undefined && token !== undefined) {
    await requireDevice(ctx, deviceId, token);
    return "device";
  }
  await requireCaller(ctx, callerToken, "approve");
  return "caller";
}
