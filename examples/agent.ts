// npm install openai tsx ./clients/typescript && npx tsx agent.ts
// export OPENAI_API_KEY=... MODEL=...
import OpenAI from "openai";
import { connect } from "punie-client";

const [model, punie] = [new OpenAI(), await connect()];
const tools = await punie.tools("openai");
const input: OpenAI.Responses.ResponseInput = [{ role: "user", content: "Which files are here, and what is this project?" }];
for (;;) {
  const reply = await model.responses.create({ model: process.env.MODEL!, tools, input });
  const calls = reply.output.filter((item) => item.type === "function_call");
  if (calls.length === 0) {
    console.log(reply.output_text);
    break;
  }
  input.push(...(reply.output as OpenAI.Responses.ResponseInput));
  for (const { name, arguments: args, call_id } of calls) {
    const result = await punie.call(name, args);
    input.push({ type: "function_call_output", call_id, output: result.content("openai") });
  }
}
await punie.close();
