// The npm library's client side as the editor that launches `punie-runner acp`: node conformance.mjs BINARY [PART OF A NAME]
// A line for each case, `ok NAME` or `not ok NAME: why`; every frame is held against the published schema. Ends with
// as many failures as exit code.

import { World } from "./world.mjs";
import { conversation } from "./cases/conversation.mjs";
import { files } from "./cases/files.mjs";
import { permission } from "./cases/permission.mjs";
import { story } from "./cases/story.mjs";
import { terminals } from "./cases/terminals.mjs";
import { tools } from "./cases/tools.mjs";
import { trouble } from "./cases/trouble.mjs";

const [binary, only = ""] = process.argv.slice(2);
const world = await World.open(binary);
const watches = [];
let [passed, failed] = [0, 0];

const check = async (name, body) => {
  if (!name.includes(only)) return;
  try {
    await body();
    passed += 1;
    console.log(`ok ${name}`);
  } catch (error) {
    failed += 1;
    const why = process.env.WHERE ? error.stack : error.message;
    console.log(`not ok ${name}: ${why.replaceAll("\n", process.env.WHERE ? "\n" : " ")}`);
  }
};

// Groups share nothing but the backend.
const groups = [conversation, files, permission, story, terminals, tools, trouble];
await Promise.all(
  groups.map(async (group) => {
    try {
      await group({ world, watches, check });
    } catch (error) {
      failed += 1;
      console.log(`not ok ${group.name}: ${error.stack}`);
    }
  }),
);
await world.close();

const frames = watches.reduce((sum, watch) => sum + watch.count, 0);
await check(`${"every frame fits the schema"}`, async () => {
  const problems = watches.flatMap((watch) => watch.problems);
  if (problems.length) throw new Error(`${problems.length} do not: ${problems.join(" | ")}`);
  if (frames < 1) throw new Error("there were none");
});
console.log(`${passed} passed, ${failed} failed, ${frames} frames`);
process.exit(Math.min(failed, 100));
