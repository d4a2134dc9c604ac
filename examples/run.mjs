// Runs every example with the scripted model and the device of clients/stage.mjs, and fails unless each says what its
// tool found. The first lines of docs/agents.md are one of them.

import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";

import { startModel } from "./model.mjs";

const python = process.env.PYTHON ?? "python3";
const tsx = ["node_modules/tsx/dist/cli.mjs"];
const [, firstLines] = /```python\n([^]*?)```/.exec(await readFile(new URL("../docs/agents.md", import.meta.url), "utf8"));
const EXAMPLES = {
  "docs/agents.md": [python, ["-c", firstLines]],
  "agent.py": [python, ["agent.py"]],
  "langchain_agent.py": [python, ["langchain_agent.py"]],
  "agent.ts": ["node", [...tsx, "agent.ts"]],
  "vercel-ai.ts": ["node", [...tsx, "vercel-ai.ts"]],
};

const { url, token } = JSON.parse(process.env.STAGE).backends.embedded;
const env = { ...process.env, ...(await startModel()), PUNIE_BACKEND_URL: url, PUNIE_CALLER_TOKEN: token };
const options = { cwd: new URL(".", import.meta.url), env, timeout: 60_000 };
const runs = Object.entries(EXAMPLES).map(async ([name, [command, args]]) => {
  const { stdout } = await promisify(execFile)(command, args, options);
  if (!/dot\.png/.test(stdout)) throw new Error(`${name} says: ${stdout}`);
  console.log(`${name} passed`);
});
await Promise.all(runs);
process.exit();
