// events:appendRequest: a caller asks a device for one tool call.

import { type ObjectType, v } from "convex/values";

import type { MutationCtx } from "../_generated/server";
import { callerArgs, requireCaller } from "../identity/caller";
import { requireAddressee } from "../identity/device";
import { isRefused, retentionMs } from "../retention/period";
import { bounded, finite, numeric, PAYLOAD_LIMIT, payload } from "../wire/arguments";
import { failure, invalid } from "../wire/failure";
import * as ids from "../wire/ids";
import { checkSession, session } from "../wire/session";
import { fieldsHash } from "../wire/text";
import { notify, requestRow, WATCH_MS } from "./request";

/** How long a device that is there has to answer a late request itself. */
const GRACE_MS = 60_000;

const args = {
  ...callerArgs,
  requestId: v.string(),
  deviceId: v.string(),
  toolName: v.string(),
  args: v.string(),
  conversationId: v.optional(v.string()),
  agentType: v.optional(v.string()),
  deadlineMs: v.optional(numeric),
  issuedAtMs: v.optional(numeric),
  signature: v.optional(v.string()),
  session: v.optional(session),
  // The caller listens for progress, as if it had called watchProgress at once. Not part of what was asked.
  progress: v.optional(v.boolean()),
};
type Asked = ObjectType<typeof args>;

export const appendRequest = {
  args,
  returns: v.object({ requestId: v.string(), created: v.boolean() }),
  handler: async (ctx: MutationCtx, asked: Asked) => {
    const callerName = await requireCaller(ctx, asked.callerToken, "ask");
    const { requestId } = asked;
    ids.requestId(requestId);
    const times = check(asked);
    const bodyHash = await hashOf(asked, times);
    const stored = await requestRow(ctx, requestId);
    if (stored !== null) {
      if (stored.bodyHash === bodyHash) return { requestId, created: false };
      throw failure(
        "REQUEST_ID_REUSED",
        "a request of this id with another body is stored already; make a new id",
      );
    }
    if (await isRefused(ctx, requestId, Date.now())) {
      throw invalid(
        "the time in this request id lies before all that is kept here; make a new id, and look at your clock",
      );
    }
    await requireAddressee(ctx, asked.deviceId);
    await insert(ctx, { ...asked, callerName }, times, bodyHash);
    return { requestId, created: true };
  },
};

type Times = { deadlineMs?: number; issuedAtMs?: number };

/** Refuses what cannot be stored, with a code the caller can act on. */
function check(asked: Asked): Times {
  payload("args", asked.args, PAYLOAD_LIMIT);
  ids.toolName(asked.toolName);
  if (asked.conversationId !== undefined) ids.conversationId(asked.conversationId);
  bounded("agentType", asked.agentType, 128);
  bounded("signature", asked.signature, 1024);
  if (asked.session !== undefined) checkSession(asked.session);
  return {
    ...(asked.deadlineMs !== undefined && { deadlineMs: finite("deadlineMs", asked.deadlineMs) }),
    ...(asked.issuedAtMs !== undefined && { issuedAtMs: finite("issuedAtMs", asked.issuedAtMs) }),
  };
}

/** The hash of all that was asked: the same id with any other hash is another request. */
async function hashOf(asked: Asked, times: Times): Promise<string> {
  return await fieldsHash([
    asked.deviceId,
    asked.toolName,
    asked.args,
    asked.conversationId,
    asked.agentType,
    times.deadlineMs,
    times.issuedAtMs,
    asked.signature,
    // Added only where it is given: a request that was stored before this field keeps its hash.
    ...(asked.session === undefined ? [] : [asked.session.client, ...asked.session.folders]),
  ]);
}

async function insert(
  ctx: MutationCtx,
  asked: Asked & { callerName: string },
  times: Times,
  bodyHash: string,
): Promise<void> {
  const { callerToken, requestId, deviceId, toolName, deadlineMs, issuedAtMs, progress, ...body } = asked;
  const createdAtMs = Date.now();
  const bodyId = await ctx.db.insert("requestBodies", { ...body, ...times, createdAtMs });
  const forgottenAtMs = createdAtMs + retentionMs();
  const { deadlineMs: said } = times;
  await ctx.db.insert("requests", {
    requestId,
    deviceId,
    seq: ctx.db.vars.commitTs,
    state: "open",
    cancelled: false,
    attempt: 0,
    toolName,
    bodyHash,
    bodyId,
    ...(progress === true && { watchedUntilMs: createdAtMs + WATCH_MS }),
    closeAtMs: Math.min(said === undefined ? forgottenAtMs : said + GRACE_MS, forgottenAtMs),
  });
  await notify(ctx, deviceId, "tool_request", requestId);
}
