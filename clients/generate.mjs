// Writes the parts of the client libraries that follow from the backend's functions: their paths, kinds and types.
// With --check it writes nothing, and fails where a file is not current. Needs `npm ci` in convex/.

import { readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";

const here = new URL(".", import.meta.url);
const { build } = createRequire(new URL("../convex/package.json", here))("esbuild");

/** The modules that have functions for callers. */
const MODULES = ["catalog", "devices", "events", "permissions"];
/** Arguments that the library adds, or that only a device gives. */
const LEFT_OUT = ["callerToken", "token", "waitMs"];
const HEADER = "Written by clients/generate.mjs from the functions in convex/. Run that again instead of editing this.";

/** Loads the functions as a deployment has them. */
async function loadModules() {
  const contents = MODULES.map((name) => `export * as ${name} from "./${name}";`).join("\n");
  const resolveDir = new URL("../convex/functions", here).pathname;
  const options = { bundle: true, format: "esm", platform: "node", write: false, logLevel: "warning" };
  const bundled = await build({ ...options, stdin: { contents, resolveDir } });
  return import(`data:text/javascript;base64,${Buffer.from(bundled.outputFiles[0].text).toString("base64")}`);
}

/** A validator's JSON as a TypeScript type. */
function typeText(validator) {
  const { type, value } = validator;
  switch (type) {
    case "object": {
      const fields = Object.entries(value).filter(([name]) => !LEFT_OUT.includes(name));
      const members = fields.map(([name, field]) => `${name}${field.optional ? "?" : ""}: ${typeText(field.fieldType)}`);
      return members.length === 0 ? "{}" : `{ ${members.join("; ")} }`;
    }
    case "array": {
      return `Array<${typeText(value)}>`;
    }
    case "union": {
      // A client sends numbers only: the other kind of integer is for clients that have no choice.
      return value.filter((one) => one.type !== "bigint").map(typeText).join(" | ");
    }
    case "literal": {
      return JSON.stringify(value);
    }
    case "string":
    case "number":
    case "boolean":
    case "null": {
      return type;
    }
    default: {
      throw new Error(`there is no type for the validator ${JSON.stringify(validator)}`);
    }
  }
}

/** The public functions that a caller may call, by path. */
async function callerFunctions() {
  const found = [];
  for (const [module, functions] of Object.entries(await loadModules())) {
    for (const [name, one] of Object.entries(functions)) {
      const args = one.isPublic ? JSON.parse(one.declaredArgs()) : { value: {} };
      if (!("callerToken" in args.value)) continue;
      const kind = one.isQuery ? "query" : "mutation";
      found.push({ path: `${module}:${name}`, kind, args: typeText(args), returns: typeText(JSON.parse(one.exportReturns())) });
    }
  }
  return found.sort((one, other) => (one.path < other.path ? -1 : 1));
}

function typescript(functions) {
  const types = functions.map(({ path, kind, args, returns }) => {
    return `  "${path}": {\n    kind: "${kind}";\n    args: ${args};\n    returns: ${returns};\n  };`;
  });
  const kinds = functions.map(({ path, kind }) => `  "${path}": "${kind}",`);
  return [
    `// ${HEADER}`,
    "",
    "/** The functions for callers, without the arguments that every call has. */",
    "export interface Functions {",
    ...types,
    "}",
    "",
    "export type Path = keyof Functions;",
    "",
    'export const KINDS: { [P in Path]: Functions[P]["kind"] } = {',
    ...kinds,
    "};",
    "",
  ].join("\n");
}

function python(functions) {
  const kinds = functions.map(({ path, kind }) => `    "${path}": "${kind}",`);
  return [`"""The functions for callers. ${HEADER}"""`, "", "KINDS = {", ...kinds, "}", ""].join("\n");
}

const functions = await callerFunctions();
const files = {
  "typescript/src/contract.ts": typescript(functions),
  "python/punie_client/contract.py": python(functions),
};
for (const [file, text] of Object.entries(files)) {
  const url = new URL(file, here);
  if (!process.argv.includes("--check")) {
    await writeFile(url, text);
  } else if ((await readFile(url, "utf8")) !== text) {
    console.error(`clients/${file} is not current: node clients/generate.mjs`);
    process.exitCode = 1;
  }
}
