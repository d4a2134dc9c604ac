// What a question and its answer look like, on the wire and in the table.

import { v } from "convex/values";

export const option = v.object({
  optionId: v.string(),
  name: v.string(),
  kind: v.union(
    v.literal("allow_once"),
    v.literal("allow_always"),
    v.literal("reject_once"),
    v.literal("reject_always"),
  ),
});

export const answer = v.object({
  optionId: v.string(),
  by: v.union(v.literal("caller"), v.literal("device")),
  answeredAtMs: v.number(),
  // The answer in words, where the option asks for them.
  text: v.optional(v.string()),
});
