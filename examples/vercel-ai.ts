// npm install ai @ai-sdk/anthropic tsx ./clients/typescript && npx tsx vercel-ai.ts
// export ANTHROPIC_API_KEY=... MODEL=...
import { anthropic } from "@ai-sdk/anthropic";
import { dynamicTool, generateText, jsonSchema, stepCountIs } from "ai";
import { connect, type ToolResult } from "punie-client";

const punie = await connect();
const tools = (await punie.tools("mcp")).map(({ name, description, inputSchema }) => {
  const execute = (args: unknown, { abortSignal: signal }: { abortSignal?: AbortSignal }) =>
    punie.call(name, args as Record<string, unknown>, signal && { signal });
  const toModelOutput = ({ output }: { output: unknown }) => ({ type: "text" as const, value: (output as ToolResult).text });
  return [name, dynamicTool({ description, inputSchema: jsonSchema(inputSchema), execute, toModelOutput })];
});
const { text } = await generateText({
  model: anthropic(process.env.MODEL!),
  tools: Object.fromEntries(tools),
  stopWhen: stepCountIs(20),
  prompt: "Which files are here, and what is this project?",
});
console.log(text);
await punie.close();
