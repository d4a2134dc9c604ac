// permissions:ask: a device asks whether it may do what a request wants. A question that is asked again may get more
// time, not less.

import { type ObjectType, v } from "convex/values";

import type { MutationCtx } from "../_generated/server";
import { requestOfDevice } from "../events/request";
import { deviceArgs, requireDevice } from "../identity/device";
import { bounded, finite, numeric, payload } from "../wire/arguments";
import { failure, invalid } from "../wire/failure";
import * as ids from "../wire/ids";
import { fieldsHash } from "../wire/text";
import { questionRow } from "./question";
import { answer, option } from "./shape";

/** The most bytes of a title: a command may be long. */
const TITLE_LIMIT = 4 * 1024;
/** The most options of one question. */
const MOST_OPTIONS = 8;
/** The most bytes of an option's id and of its name. */
const OPTION_LIMIT = 256;
/** The most bytes of a host with its port. */
const HOST_LIMIT = 300;

const args = {
  ...deviceArgs,
  permissionId: v.string(),
  requestId: v.string(),
  title: v.string(),
  host: v.optional(v.string()),
  options: v.array(option),
  expiresAtMs: numeric,
};
type Asked = ObjectType<typeof args>;

export const ask = {
  args,
  returns: v.object({ created: v.boolean(), answer: v.optional(answer) }),
  handler: async (ctx: MutationCtx, asked: Asked) => {
    await requireDevice(ctx, asked.deviceId, asked.token);
    ids.permissionId(asked.permissionId);
    ids.requestId(asked.requestId);
    check(asked);
    const { token, ...question } = { ...asked, expiresAtMs: finite("expiresAtMs", asked.expiresAtMs) };
    const bodyHash = await fieldsHash([
      question.deviceId,
      question.requestId,
      question.title,
      ...(question.host === undefined ? [] : [question.host]),
      ...question.options.flatMap(({ optionId, name, kind }) => [optionId, name, kind]),
    ]);
    const stored = await questionRow(ctx, question.permissionId);
    if (stored !== null) {
      if (stored.bodyHash === bodyHash && stored.expiresAtMs <= question.expiresAtMs) {
        if (stored.answer !== undefined) return { created: false, answer: stored.answer };
        await ctx.db.patch(stored._id, { expiresAtMs: question.expiresAtMs });
        return { created: false };
      }
      throw failure("REQUEST_ID_REUSED", "a permission of this id with another body is stored already; make a new id");
    }
    const request = await requestOfDevice(ctx, question.requestId, question.deviceId);
    if (request.state === "finished") throw failure("REQUEST_UNKNOWN", "this request has its result already");
    await ctx.db.insert("permissions", { ...question, bodyHash, state: "asked", askedAtMs: Date.now() });
    return { created: true };
  },
};

function check({ title, host, options }: Asked): void {
  payload("title", title, TITLE_LIMIT);
  if (host !== undefined) bounded("a host", host, HOST_LIMIT);
  if (options.length < 1 || options.length > MOST_OPTIONS) {
    throw invalid(`options must be 1 to ${MOST_OPTIONS}`);
  }
  for (const { optionId, name } of options) {
    if (optionId === "") throw invalid("an option id must not be empty");
    bounded("an option id", optionId, OPTION_LIMIT);
    bounded("an option's name", name, OPTION_LIMIT);
  }
  if (new Set(options.map(({ optionId }) => optionId)).size !== options.length) {
    throw invalid("option ids must differ");
  }
}
