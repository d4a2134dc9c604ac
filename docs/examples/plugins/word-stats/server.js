// A server of the Model Context Protocol: one JSON message a line on standard input, one answer a line on standard
// output. Messages for people go to standard error.
"use strict";

const tools = [
  {
    name: "word_stats",
    description: "Counts the words of a text, and names the most frequent ones.",
    inputSchema: {
      type: "object",
      required: ["text"],
      additionalProperties: false,
      properties: {
        text: { type: "string", description: "The text." },
        top: { type: "integer", minimum: 1, maximum: 100, description: "How many words to name; 3 by default." },
      },
    },
  },
];

function wordStats({ text, top = 3 }) {
  const words = text.toLowerCase().match(/[\p{L}\p{N}']+/gu) ?? [];
  const counts = new Map();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  const ranked = [...counts].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]));
  const lines = ranked.slice(0, top).map(([word, count]) => `${word}: ${count}`);
  return [`${words.length} words, ${counts.size} different`, ...lines].join("\n");
}

const methods = {
  initialize: () => ({
    protocolVersion: "2025-06-18",
    capabilities: { tools: {} },
    serverInfo: { name: "word-stats", version: "1.0.0" },
  }),
  ping: () => ({}),
  "tools/list": () => ({ tools }),
  "tools/call": ({ name, arguments: given }) => {
    if (name !== "word_stats") throw new Error(`there is no tool ${name}`);
    return { content: [{ type: "text", text: wordStats(given) }] };
  },
};

const lines = require("node:readline").createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  // A message without an id is a notification, which is not answered.
  if (id === undefined) return;
  let answer;
  try {
    const run = methods[method];
    answer = run ? { result: run(params ?? {}) } : { error: { code: -32601, message: "unknown method" } };
  } catch (error) {
    answer = { error: { code: -32603, message: String(error.message) } };
  }
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, ...answer })}\n`);
});
