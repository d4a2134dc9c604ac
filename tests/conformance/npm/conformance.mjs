// The npm clients of Convex against a backend: ConvexHttpClient, ConvexClient and `convex run`.
// Whoever starts this gives the backend in the environment, and does what lines beginning with @ ask for.

import { strict as assert } from "node:assert";
import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { ConvexClient, ConvexHttpClient } from "convex/browser";
import { anyApi as api } from "convex/server";
import { ConvexError } from "convex/values";

const url = process.env.CONFORMANCE_URL;
let { callerToken, deviceId, deviceToken, adminKey } = JSON.parse(process.env.CONFORMANCE_WHO);
const device = () => ({ deviceId, token: deviceToken });

const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const ask = async (line) => {
  console.log(`@${line}`);
  return JSON.parse((await answers.next()).value);
};
let passed = 0;
const check = async (name, body) => {
  await body();
  passed += 1;
  console.log(`ok ${name}`);
};

const append = (requestId) => ({ callerToken, requestId, deviceId, toolName: "Read", args: "{}" });
const code = (expected) => (error) => error instanceof ConvexError && error.data.code === expected;

/** A subscription whose values can be waited for. */
const subscribe = (client, query, args) => {
  const seen = [];
  let wake = () => {};
  const tell = (value) => {
    seen.push(value);
    wake();
  };
  const stop = client.onUpdate(query, args, tell, tell);
  const until = async (holds) => {
    while (!seen.some(holds)) await new Promise((resolve) => (wake = resolve));
    return seen.find(holds);
  };
  return { seen, stop, until };
};

const finish = async (client, requestId) => {
  await client.mutation(api.events.claim, { ...device(), requestId, leaseId: "lease" });
  await client.mutation(api.events.appendProgress, { ...device(), requestId, leaseId: "lease", n: 0, data: "half" });
  return client.mutation(api.events.appendResult, {
    ...device(), requestId, leaseId: "lease", outcome: "ok", payload: '{"result":"é"}',
  });
};

const http = new ConvexHttpClient(url, { logger: false });

await check("http: query, mutation, data of errors", async () => {
  const [listed] = await http.query(api.devices.list, { callerToken });
  assert.equal(listed.deviceId, deviceId);
  const requestId = randomUUID();
  assert.deepEqual(await http.mutation(api.events.appendRequest, append(requestId)), { requestId, created: true });
  assert.deepEqual(await http.mutation(api.events.appendRequest, append(requestId)), { requestId, created: false });
  await assert.rejects(http.query(api.events.getResult, { callerToken: "x", requestId }), code("CALLER_UNAUTHORIZED"));
  await assert.rejects(http.query(api.events.nothing, {}), /Could not find public function/);
  await assert.rejects(http.action(api.events.nothing, {}), /Could not find public function/);
});

await check("http: consistent queries see one snapshot", async () => {
  const consistent = new ConvexHttpClient(url);
  const before = await consistent.consistentQuery(api.events.head, device());
  await http.mutation(api.events.appendRequest, append(randomUUID()));
  assert.equal(await consistent.consistentQuery(api.events.head, device()), before);
  assert.notEqual(await http.query(api.events.head, device()), before);
});

await check("http: a token that nobody has issued is refused", async () => {
  const stranger = new ConvexHttpClient(url);
  stranger.setAuth("opaque");
  await assert.rejects(stranger.query(api.devices.list, { callerToken }), /InvalidAuthHeader/);
  stranger.setAuth("e30.e30.e30");
  await assert.rejects(stranger.query(api.devices.list, { callerToken }), /NoAuthProvider/);
  stranger.setAdminAuth("punie-dev|0");
  await assert.rejects(stranger.query(api.devices.list, { callerToken }), /BadAdminKey/);
  stranger.setAdminAuth(adminKey);
  assert.equal((await stranger.function(api.devices.list, undefined, { callerToken })).length, 1);
});

const client = new ConvexClient(url, { logger: false });

await check("socket: query, mutation, data of errors", async () => {
  assert.equal((await client.query(api.devices.list, { callerToken }))[0].deviceId, deviceId);
  const requestId = randomUUID();
  assert.deepEqual(await client.mutation(api.events.appendRequest, append(requestId)), { requestId, created: true });
  await assert.rejects(client.mutation(api.events.cancel, { callerToken: "x", requestId }), code("CALLER_UNAUTHORIZED"));
  await assert.rejects(client.query(api.events.getResult, { callerToken: "x", requestId }), code("CALLER_UNAUTHORIZED"));
  await assert.rejects(client.action(api.events.nothing, {}), /Could not find public function/);
});

await check("socket: subscriptions live", async () => {
  const requestId = randomUUID();
  const result = subscribe(client, api.events.getResult, { callerToken, requestId });
  const progress = subscribe(client, api.events.listProgress, { callerToken, requestId });
  const head = subscribe(client, api.events.head, device());
  await result.until((value) => value === null);
  await head.until(() => true);
  const first = head.seen.at(-1);
  await client.mutation(api.events.appendRequest, append(requestId));
  await head.until((value) => BigInt(value) > BigInt(first));
  assert.deepEqual(await finish(client, requestId), { stored: true, duplicate: false });
  assert.equal((await result.until((value) => value !== null)).payload, '{"result":"é"}');
  assert.deepEqual(await progress.until((value) => value.length === 1), [{ n: 0, data: "half" }]);
  for (const one of [result, progress, head]) one.stop();
});

await check("socket: a mutation whose answer is lost runs once", async () => {
  const requestId = randomUUID();
  const calls = await ask("calls events:appendRequest");
  await ask("drop events:appendRequest");
  const appended = await client.mutation(api.events.appendRequest, append(requestId));
  // The client keeps its session: it gets the answer of the one time that it ran.
  assert.deepEqual(appended, { requestId, created: true });
  assert.equal(await ask("calls events:appendRequest"), calls + 2);
  const open = await client.query(api.events.listOpen, device());
  assert.equal(open.filter((request) => request.requestId === requestId).length, 1);
});

await check("socket: the server restarts", async () => {
  const requestId = randomUUID();
  const result = subscribe(client, api.events.getResult, { callerToken, requestId });
  await result.until((value) => value === null);
  await ask("restart");
  await client.mutation(api.events.appendRequest, append(requestId));
  await finish(client, requestId);
  await result.until((value) => value?.outcome === "ok");
  result.stop();
});

await check("socket: a long result", async () => {
  const body = 'é"'.repeat(150_000);
  for (let page = 0; page < 4; page += 1) {
    const items = [0, 1, 2].map((n) => ({ key: `${page}-${n}`, hash: "h", body }));
    await http.mutation(api.catalog.upsertMany, { ...device(), kind: "tool", revision: page, complete: false, items });
  }
  const list = { callerToken, deviceId, kind: "tool" };
  const [long, same] = await Promise.all([client.query(api.catalog.list, list), http.query(api.catalog.list, list)]);
  assert.equal(long.length, 12);
  assert.deepEqual(long, same);
});

await check("socket: a user token that nobody has issued", async () => {
  const stranger = new ConvexClient(url, { logger: false });
  const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const now = Math.floor(Date.now() / 1000);
  const token = `${part({ alg: "none" })}.${part({ iat: now, exp: now + 3600 })}.c2ln`;
  const said = await new Promise((resolve) => stranger.setAuth(async () => token, resolve));
  assert.equal(said, false);
  assert.equal((await stranger.query(api.devices.list, { callerToken })).length, 1);
  await stranger.close();
});

await check("run: what the command line calls", async () => {
  const run = async (name, args) => {
    const command = ["node_modules/convex/bin/main.js", "run", name, JSON.stringify(args)];
    const env = {
      ...process.env, CONVEX_SELF_HOSTED_URL: url, CONVEX_SELF_HOSTED_ADMIN_KEY: adminKey, CI: "1", NO_COLOR: "1",
    };
    return promisify(execFile)(process.execPath, command, { env });
  };
  const [listed] = JSON.parse((await run("devices:list", { callerToken })).stdout);
  assert.equal(listed.deviceId, deviceId);
  const requestId = randomUUID();
  const appended = JSON.parse((await run("events:appendRequest", append(requestId))).stdout);
  assert.deepEqual(appended, { requestId, created: true });
  await assert.rejects(run("events:cancel", { callerToken: "x", requestId }), /the caller token is not/);
});

await check("socket: the database is gone", async () => {
  const old = subscribe(client, api.devices.list, { callerToken });
  await old.until((value) => Array.isArray(value));
  ({ callerToken, deviceId, deviceToken, adminKey } = await ask("wipe"));
  await old.until(code("CALLER_UNAUTHORIZED"));
  old.stop();
  const requestId = randomUUID();
  assert.equal((await client.mutation(api.events.appendRequest, append(requestId))).created, true);
  const result = subscribe(client, api.events.getResult, { callerToken, requestId });
  await finish(client, requestId);
  await result.until((value) => value?.outcome === "ok");
});

await client.close();
console.log(`@passed ${passed}`);
process.exit(0);
