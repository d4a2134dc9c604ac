// What each call of a device reads and writes in the database, in bytes of documents, held against docs/hosted.md.

import { readFile } from "node:fs/promises";
import path from "node:path";
import { getDocumentSize, type Value } from "convex/values";
import { expect, test } from "vitest";

import { appendRequest } from "../functions/events/append";
import { claim } from "../functions/events/claim";
import { head } from "../functions/events/head";
import { listOpenIds } from "../functions/events/open";
import { listForDevice } from "../functions/events/poll";
import { appendResult, getResult } from "../functions/events/results";
import { heartbeat } from "../functions/devices/heartbeat";
import { pair, stage } from "./stage";

type Tally = { read: number; written: number };
type Document = Record<string, Value>;
type Any = any;

function size(document: Document): number {
  return getDocumentSize(document);
}

/** A database that counts the documents that are read and written through it. */
function counting(db: Any, tally: Tally): Any {
  const read = (found: Any): Any => {
    for (const one of Array.isArray(found) ? found : [found]) if (one !== null) tally.read += size(one);
    return found;
  };
  const ends = new Set(["unique", "first", "take", "collect"]);
  const query = (inner: Any): Any =>
    new Proxy(inner, {
      get(target, name) {
        if (name === Symbol.asyncIterator) {
          return async function* () {
            for await (const one of target) yield read(one);
          };
        }
        if (ends.has(String(name))) return async (...args: Any[]) => read(await target[name](...args));
        const value = target[name];
        return typeof value === "function" ? (...args: Any[]) => query(value.apply(target, args)) : value;
      },
    });
  return {
    vars: db.vars,
    get: async (id: Any) => read(await db.get(id)),
    query: (table: string) => query(db.query(table)),
    insert: async (table: string, document: Document) => {
      const id = await db.insert(table, document);
      tally.written += size(await db.get(id));
      return id;
    },
    replace: async (id: Any, document: Document) => {
      await db.replace(id, document);
      tally.written += size(await db.get(id));
    },
    // A patch reads the document that it changes.
    patch: async (id: Any, change: Document) => {
      tally.read += size(await db.get(id));
      await db.patch(id, change);
      tally.written += size(await db.get(id));
    },
  };
}

/** The rows of a table of the page: its name in backticks, then its cells. */
async function table(heading: string): Promise<Map<string, string[]>> {
  const page = await readFile(path.join(import.meta.dirname, "../../docs/hosted.md"), "utf8");
  const lines = page.slice(page.indexOf(heading)).split("\n");
  const first = lines.findIndex((line) => line.startsWith("|"));
  const rows = lines.slice(first, first + lines.slice(first).findIndex((line) => !line.startsWith("|")));
  return new Map(
    rows.flatMap((row) => {
      const [name = "", ...cells] = row.slice(1, -1).split("|");
      const path = /`([^`]+)`/.exec(name)?.[1];
      return path === undefined ? [] : [[path, cells.map((cell) => cell.trim().replaceAll(",", ""))]];
    }),
  );
}

test("the page says what a call reads and writes", async () => {
  const s = await stage();
  const device = await pair(s);
  const health = JSON.stringify({
    version: "0.1.0",
    confinement: "full (Landlock 6, seccomp, namespaces)",
    degraded: [],
    audit: `12345:${"0".repeat(64)}`,
    requestAuth: "transport",
    epoch: 12,
    waiting: 0,
    inFlight: 0,
    undelivered: 0,
    oldestUndeliveredMs: null,
  });
  const beat = async () => {
    const signedAtMs = Date.now() + beats++;
    const signature = await device.sign(`dev-1:${signedAtMs}`);
    return { deviceId: "dev-1", signedAtMs, signature, beatMs: 300_000, health };
  };
  let beats = 0;
  const C = { callerToken: s.callerToken, requestId: "req-1" };
  const lease = { ...device.D, requestId: "req-1", leaseId: "lease" };
  const call = async (handler: Any, args: Any): Promise<number[]> => {
    const tally = { read: 0, written: 0 };
    await s.t.run(async (ctx) => handler({ ...ctx, db: counting(ctx.db, tally) }, args));
    return [tally.read, tally.written];
  };
  // The first beat makes the row that the others replace.
  await call(heartbeat.handler, await beat());
  const counted: Record<string, Record<string, number[]>> = {
    "An idle device": {
      "devices:heartbeat": await call(heartbeat.handler, await beat()),
      "events:listForDevice": await call(listForDevice.handler, { ...device.D, cursor: null }),
      "events:listOpenIds": await call(listOpenIds.handler, device.D),
    },
    "A short request": {
      "events:appendRequest": await call(appendRequest.handler, {
        ...C,
        deviceId: "dev-1",
        toolName: "Read",
        args: "{}",
      }),
      "events:head": await call(head.handler, device.D),
      "events:listForDevice": await call(listForDevice.handler, { ...device.D, cursor: null }),
      "events:claim": await call(claim.handler, lease),
      "events:appendResult": await call(appendResult.handler, { ...lease, outcome: "ok", payload: "{}" }),
      "events:getResult": await call(getResult.handler, C),
    },
  };
  for (const [heading, functions] of Object.entries(counted)) {
    const said = await table(heading);
    for (const [name, bytes] of Object.entries(functions)) {
      const row = said.get(name)?.slice(-2).map(Number) ?? [];
      const near = (count: number, at: number) => Math.abs(count - (row[at] ?? Number.NaN)) <= 0.2 * count;
      expect(bytes.map(near), `${heading}: ${name} ${bytes}, the page says ${row}`).toEqual([true, true]);
    }
  }
});
