// The tables. Bodies lie in requestBodies, results and catalog only; whatever a poll or a claim reads is small.

import { defineSchema, defineTable } from "convex/server";
import { v } from "convex/values";

import { processes } from "./devices/processes";
import { may } from "./identity/caller";
import { answer, option } from "./permissions/shape";
import { session } from "./wire/session";

export const outcome = v.union(v.literal("ok"), v.literal("error"), v.literal("cancelled"));
export const kind = v.union(v.literal("tool"), v.literal("skill"), v.literal("agent"), v.literal("plugin"));

export default defineSchema({
  // Who may ask: by a minted token (its hash alone is kept) or by an identity of a configured provider.
  callers: defineTable({
    name: v.string(),
    tokenHash: v.optional(v.string()),
    tokenIdentifier: v.optional(v.string()),
    // Without it the caller may ask and approve.
    may: v.optional(may),
    mintedAtMs: v.number(),
  })
    .index("by_token", ["tokenHash"])
    .index("by_identity", ["tokenIdentifier"])
    .index("by_name", ["name"]),

  // The code that a new device must show once: one row at most, its hash alone. One without an end is good no more.
  pairing: defineTable({
    codeHash: v.string(),
    setAtMs: v.number(),
    expiresAtMs: v.optional(v.number()),
    usesLeft: v.optional(v.number()),
  }),

  // Which deployment this is: one row, made when a device first asks.
  deployment: defineTable({
    backendId: v.string(),
    /** The largest time of ids up to which requests were ever deleted. */
    sweptMs: v.optional(v.number()),
  }),

  devices: defineTable({
    deviceId: v.string(),
    publicKey: v.string(),
    tokenHash: v.string(),
    name: v.string(),
    platform: v.string(),
    registeredAtMs: v.number(),
    revoked: v.boolean(),
  }).index("by_device", ["deviceId"]),

  // Apart from devices: a heartbeat must not touch what every poll reads.
  presence: defineTable({
    deviceId: v.string(),
    signedAtMs: v.number(),
    seenAtMs: v.number(),
    /** How long after a beat the next one comes. */
    beatMs: v.optional(v.number()),
    online: v.boolean(),
    health: v.optional(v.string()),
    processes: v.optional(processes),
  }).index("by_device", ["deviceId"]),

  // Append-only and tiny. Rows of one transaction share seq; their creation orders them within it.
  inbox: defineTable({
    deviceId: v.string(),
    seq: v.commitTs(),
    type: v.union(v.literal("tool_request"), v.literal("tool_cancel")),
    requestId: v.string(),
  }).index("by_device", ["deviceId", "seq"]),

  // What changes during a request's life. The row outlives its body, until the time in its id has it refused: no id ever
  // runs twice.
  requests: defineTable({
    requestId: v.string(),
    deviceId: v.string(),
    seq: v.commitTs(),
    state: v.union(v.literal("open"), v.literal("finished")),
    cancelled: v.boolean(),
    attempt: v.number(),
    leaseId: v.optional(v.string()),
    leaseExpiresAtMs: v.optional(v.number()),
    /** Until when a caller listens for progress, as it last said. */
    watchedUntilMs: v.optional(v.number()),
    toolName: v.string(),
    bodyHash: v.string(),
    bodyId: v.id("requestBodies"),
    /** When nobody may be expected to answer it any more. */
    closeAtMs: v.number(),
  })
    .index("by_request", ["requestId"])
    .index("by_device", ["deviceId", "state", "seq"])
    .index("by_close", ["state", "closeAtMs"]),

  requestBodies: defineTable({
    args: v.string(),
    conversationId: v.optional(v.string()),
    agentType: v.optional(v.string()),
    createdAtMs: v.number(),
    deadlineMs: v.optional(v.number()),
    issuedAtMs: v.optional(v.number()),
    signature: v.optional(v.string()),
    callerName: v.optional(v.string()),
    session: v.optional(session),
  }),

  progress: defineTable({
    requestId: v.string(),
    n: v.number(),
    data: v.string(),
  }).index("by_request", ["requestId", "n"]),

  results: defineTable({
    requestId: v.string(),
    bodyHash: v.string(),
    outcome,
    truncated: v.optional(v.boolean()),
    storedAtMs: v.number(),
    payload: v.string(),
  })
    .index("by_request", ["requestId"])
    .index("by_time", ["storedAtMs"]),

  // A question of a device's own policy. It is closed when its request has a result.
  permissions: defineTable({
    permissionId: v.string(),
    requestId: v.string(),
    deviceId: v.string(),
    bodyHash: v.string(),
    title: v.string(),
    // The host and port that it is about; a question about a call has none.
    host: v.optional(v.string()),
    options: v.array(option),
    state: v.union(v.literal("asked"), v.literal("answered"), v.literal("closed")),
    askedAtMs: v.number(),
    expiresAtMs: v.number(),
    answer: v.optional(answer),
  })
    .index("by_permission", ["permissionId"])
    .index("by_request", ["requestId"])
    .index("by_device", ["deviceId", "state", "expiresAtMs"])
    .index("by_state", ["state", "expiresAtMs"]),

  catalog: defineTable({
    deviceId: v.string(),
    kind,
    key: v.string(),
    hash: v.string(),
    body: v.string(),
  }).index("by_key", ["deviceId", "kind", "key"]),

  // The highest revision seen, also of a kind that has no items left.
  catalogRevisions: defineTable({
    deviceId: v.string(),
    kind,
    revision: v.number(),
  }).index("by_kind", ["deviceId", "kind"]),
});
