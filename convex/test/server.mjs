// Starts the functions of functions/ behind Convex's HTTP API, for whoever runs the cases of tests/contract.
// Prints {"url": ...} as its only line of output and ends when its input ends, so that it never outlives its owner.
// The work is in backend.ts; here it is bundled with the functions and begun.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import esbuild from "esbuild";

import { deployedModules } from "./deployed.mjs";

const here = path.dirname(fileURLToPath(import.meta.url));
const functions = path.join(here, "..", "functions");

/** The module "deployed": every file that a deploy would send, by its path, as convex-test wants them. */
const deployed = {
  name: "deployed",
  setup(build) {
    build.onResolve({ filter: /^deployed$/ }, () => ({ path: "deployed", namespace: "deployed" }));
    build.onLoad({ filter: /.*/, namespace: "deployed" }, async () => {
      const files = [...(await deployedModules(functions)), "_generated/api.js"];
      const lines = files.map((file) => `  ${JSON.stringify(`./functions/${file}`)}: () => import(${JSON.stringify(`./${file}`)}),`);
      return { contents: `export default {\n${lines.join("\n")}\n};\n`, resolveDir: functions };
    });
  },
};

const folder = await mkdtemp(path.join(tmpdir(), "punie-contract-"));
try {
  const outfile = path.join(folder, "backend.mjs");
  await esbuild.build({
    entryPoints: [path.join(here, "backend.ts")],
    outfile,
    bundle: true,
    format: "esm",
    platform: "node",
    target: "node20",
    sourcemap: "inline",
    logLevel: "warning",
    plugins: [deployed],
  });
  const { serve } = await import(pathToFileURL(outfile).href);
  const url = await serve(Number(process.env.PORT ?? 0));
  console.log(JSON.stringify({ url }));
} finally {
  await rm(folder, { recursive: true, force: true });
}

process.stdin.on("end", () => process.exit(0)).resume();
