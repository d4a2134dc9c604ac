// Which files a deploy sends, by the rule of Convex's own bundler (entryPoints in convex/src/bundler): every script
// below functions/ but generated ones, the schema, and names with a second dot. A test holds it against
// what the CLI sends.

import { readdir } from "node:fs/promises";
import path from "node:path";

/**
 * Paths below the folder, with slashes.
 *
 * @param {string} folder
 * @returns {Promise<string[]>}
 */
export async function deployedModules(folder) {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile() && /^[^.#][^.]*\.[cm]?[jt]sx?$/.test(entry.name))
    .map((entry) => path.relative(folder, path.join(entry.parentPath, entry.name)).split(path.sep).join("/"))
    .filter((file) => !file.startsWith("_generated/") && file !== "schema.ts")
    .sort();
}
