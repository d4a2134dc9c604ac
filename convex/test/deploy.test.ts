// What a deploy would send, as far as that can be known without a deployment: the real CLI deploys to a listener that
// takes it down, and its code generator says whether _generated is up to date.

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdtemp, readdir, readFile, rm, symlink } from "node:fs/promises";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { brotliDecompressSync } from "node:zlib";

import { expect, test } from "vitest";

import { deployedModules } from "./deployed.mjs";
import { modules } from "./stage";

const root = path.join(import.meta.dirname, "..");
const functions = path.join(root, "functions");
const cli = path.join(root, "node_modules", "convex", "bin", "main.js");

test("_generated is what the code generator makes of the functions", { timeout: 30_000 }, async () => {
  const copy = await mkdtemp(path.join(tmpdir(), "punie-codegen-"));
  try {
    for (const part of ["functions", "convex.json", "package.json", "tsconfig.json"]) {
      await cp(path.join(root, part), path.join(copy, part), { recursive: true });
    }
    await rm(path.join(copy, "functions", "_generated"), { recursive: true });
    await symlink(path.join(root, "node_modules"), path.join(copy, "node_modules"));
    const told = ["codegen", "--system-udfs", "--typecheck", "disable"];
    await promisify(execFile)(process.execPath, [cli, ...told], { cwd: copy });
    const read = async (folder: string) => {
      const generated = path.join(folder, "functions", "_generated");
      const files = (await readdir(generated)).sort();
      return await Promise.all(files.map(async (file) => [file, await readFile(path.join(generated, file), "utf8")]));
    };
    expect(await read(root), "run `npm run codegen` and commit what it writes").toEqual(await read(copy));
  } finally {
    await rm(copy, { recursive: true, force: true });
  }
});

type Push = { appDefinition: { changedModules: Module[]; schema: Module | null } };
type Module = { path: string; source: string; environment: string };

/** What `npx convex deploy` sends to its deployment, which here takes it down and answers nothing. */
async function pushed(): Promise<Push> {
  let keep: (push: Push) => void = () => {};
  const push = new Promise<Push>((resolve) => {
    keep = resolve;
  });
  const deployment = http.createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    const text = request.headers["content-encoding"] === "br" ? brotliDecompressSync(body) : body;
    if (request.url === "/api/deploy2/evaluate_push") return keep(JSON.parse(text.toString()));
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ config: { functions: "functions/" }, moduleHashes: [], nodeVersion: null }));
  });
  deployment.listen(0, "127.0.0.1");
  await once(deployment, "listening");
  const { port } = deployment.address() as AddressInfo;
  // CI: it asks nothing and reports nothing to its makers.
  const env = {
    ...process.env,
    CI: "1",
    CONVEX_SELF_HOSTED_URL: `http://127.0.0.1:${port}`,
    CONVEX_SELF_HOSTED_ADMIN_KEY: "name|key",
  };
  const told = ["deploy", "--codegen", "disable", "--typecheck", "disable"];
  const deploy = spawn(process.execPath, [cli, ...told], { cwd: root, env, stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  deploy.stderr.on("data", (chunk) => (said += chunk));
  const gaveUp = once(deploy, "exit").then(() => Promise.reject(new Error(`the deploy ended: ${said}`)));
  try {
    return await Promise.race([push, gaveUp]);
  } finally {
    gaveUp.catch(() => {});
    deploy.kill();
    deployment.closeAllConnections();
    deployment.close();
  }
}

test("a deploy from this folder sends the functions, and nothing of the tests", { timeout: 30_000 }, async () => {
  const { changedModules, schema } = (await pushed()).appDefinition;
  expect(schema?.path).toBe("schema.js");
  const sent = changedModules.map(({ path }) => path).filter((path) => !path.startsWith("_deps/"));
  expect(sent.sort()).toEqual((await deployedModules(functions)).map((file: string) => file.replace(/\.ts$/, ".js")));
  expect(sent).toContain("crons.js");
  for (const { path, source, environment } of changedModules) {
    expect(environment, `${path} needs nothing of Node`).toBe("isolate");
    expect(source, path).not.toMatch(/vitest|convex-test|node:/);
  }
});

test("public functions are those of the contract, and each says what it takes and returns", async () => {
  const found: string[] = [];
  for (const [file, load] of Object.entries(modules)) {
    const module = file.replace("../functions/", "").replace(/\.\w+$/, "");
    if (module.startsWith("_generated")) continue;
    for (const [name, made] of Object.entries((await load()) as Record<string, unknown>)) {
      const { isPublic, exportArgs, exportReturns, declaredArgs } = Object(made);
      if (exportArgs === undefined) continue;
      // What Convex checks it prints where it refuses: a public function's arguments may have a caller's token.
      if (isPublic) expect(JSON.parse(exportArgs()).type, `${module}:${name}`).toBe("any");
      expect(JSON.parse((declaredArgs ?? exportArgs)()).type, `${module}:${name}`).toBe("object");
      expect(JSON.parse(exportReturns()), `${module}:${name}`).not.toBeNull();
      if (isPublic) found.push(`${module}:${name}`);
    }
  }
  expect(found.sort()).toEqual([
    "catalog:list",
    "catalog:upsertMany",
    "devices:heartbeat",
    "devices:list",
    "devices:openSession",
    "devices:presence",
    "events:appendProgress",
    "events:appendRequest",
    "events:appendResult",
    "events:cancel",
    "events:claim",
    "events:getResult",
    "events:head",
    "events:listForDevice",
    "events:listOpen",
    "events:listOpenIds",
    "events:listProgress",
    "events:watchProgress",
    "permissions:answer",
    "permissions:ask",
    "permissions:pending",
  ]);
});

test("no query looks at the clock", async () => {
  const queries = ["events/head", "events/open", "events/poll", "devices/presence", "catalog/list", "permissions/pending"];
  const shared = ["identity/caller", "identity/device", "events/request", "wire/arguments", "wire/text"];
  for (const file of [...queries, ...shared]) {
    expect(await readFile(path.join(functions, `${file}.ts`), "utf8"), file).not.toMatch(/Date\.now|new Date|random/i);
  }
});
