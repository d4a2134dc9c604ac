// A stand-in for the APIs of Anthropic (Messages) and OpenAI (Responses), for the examples without an account: the model
// is a script that runs `ls` by the tool Bash and says what it found. `node model.mjs` prints the variables to set.

import { once } from "node:events";
import http from "node:http";

const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };

/** The texts of tools' results in a message of either API. */
function resultText(content) {
  return typeof content === "string" ? content : content.map(({ text }) => text).join("");
}

function anthropicReply({ tools, messages }) {
  const result = messages.at(-1).content.find?.(({ type }) => type === "tool_result");
  const bash = tools.find(({ name }) => name === "Bash");
  const call = { type: "tool_use", id: "toolu_1", name: bash.name, input: { command: "ls" } };
  const content = result ? [{ type: "text", text: `I found ${resultText(result.content)}` }] : [call];
  const stop_reason = result ? "end_turn" : "tool_use";
  return { id: "msg_1", type: "message", role: "assistant", model: "script", content, stop_reason, stop_sequence: null, usage };
}

function openaiReply({ tools, input }) {
  const result = input.find(({ type }) => type === "function_call_output");
  const bash = tools.find(({ name }) => name === "Bash");
  const call = { type: "function_call", id: "fc_1", call_id: "call_1", name: bash.name, arguments: '{"command":"ls"}', status: "completed" };
  const text = { type: "output_text", text: `I found ${resultText(result?.output ?? "")}`, annotations: [] };
  const message = { type: "message", id: "msg_1", role: "assistant", status: "completed", content: [text] };
  return { id: "resp_1", object: "response", status: "completed", model: "script", output: [result ? message : call], usage };
}

/** Starts it on any free port; returns the variables that lead the vendors' libraries to it. */
export async function startModel() {
  const server = http.createServer(async (request, response) => {
    let body = "";
    for await (const bytes of request) body += bytes;
    const reply = request.url.endsWith("/responses") ? openaiReply : anthropicReply;
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(reply(JSON.parse(body))));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const url = `http://127.0.0.1:${server.address().port}`;
  const keys = { ANTHROPIC_API_KEY: "none", OPENAI_API_KEY: "none", MODEL: "script" };
  return { ANTHROPIC_BASE_URL: url, OPENAI_BASE_URL: `${url}/v1`, ...keys };
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  for (const [name, value] of Object.entries(await startModel())) console.log(`export ${name}=${value}`);
}
