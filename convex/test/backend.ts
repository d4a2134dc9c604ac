// The deployable functions behind HTTP, on convex-test's database. For tests alone: nothing is kept, and two more
// routes do what a test needs. POST /shim/reset answers {callerToken, pairingCode, adminKey} of a new, empty database;
// POST /shim/clock {advanceMs} moves the clock, which stands still otherwise, and answers {nowMs}.

import http from "node:http";
import type { AddressInfo } from "node:net";

import { convexTest } from "convex-test";
import { makeFunctionReference } from "convex/server";
import type { Value } from "convex/values";
import modules from "deployed";

import schema from "../functions/schema";
import * as clock from "./clock";
import { decode, error, type Kind, readCall, Refusal, success } from "./wire";

const BODY_LIMIT = 16 * 1024 * 1024 + 2000;
const KINDS = ["query", "mutation", "action"] as const;
/** With it, POST /api/function calls internal functions, too, as `npx convex run` does. */
const ADMIN_KEY = "node-test|0000";

/** Functions by their path, whoever may call them. */
type Database = Record<Kind, (reference: unknown, args: Record<string, Value>) => Promise<Value>>;

/** What a test's pairing code is good for: more than it has devices, and longer than it lasts. */
const MANY_DEVICES = { uses: 10_000, minutes: 10_080 };

let database = open();

function open(): Database {
  return convexTest({ schema, modules, transactionLimits: true }) as unknown as Database;
}

/** Serves on this port of the loopback, or on any free one for 0. Answers the address. */
export async function serve(port: number): Promise<string> {
  clock.install();
  const server = http.createServer((request, response) => {
    const reply = (status: number, text: string): void => {
      response.writeHead(status, { "content-type": "application/json" }).end(text);
    };
    answer(request).then(
      (text) => reply(200, text),
      (failed: unknown) => {
        const { code, message, status } = failed instanceof Refusal ? failed : new Refusal("InternalServerError", String(failed), 500);
        reply(status, JSON.stringify({ code, message }));
      },
    );
  });
  server.listen(port, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function answer(request: http.IncomingMessage): Promise<string> {
  const route = request.url ?? "/";
  const body = await bodyOf(request);
  if (route === "/shim/reset") return await reset();
  if (route === "/shim/clock") return JSON.stringify({ nowMs: clock.advance(Number(JSON.parse(body).advanceMs)) });
  if (!/^application\/([^;]*\+)?json\s*(;|$)/i.test(request.headers["content-type"] ?? "")) {
    throw new Refusal("BadJsonBody", "Content-Type must be application/json");
  }
  const kind = KINDS.find((kind) => route === `/api/${kind}`);
  if (kind !== undefined) return await call(kind, body);
  if (route === "/api/function") {
    if (request.headers.authorization !== `Convex ${ADMIN_KEY}`) throw new Refusal("BadAdminKey", "not the admin key", 401);
    return await call(undefined, body, undefined, "operator");
  }
  const named = /^\/api\/run\/(.+)\/([^/]+)$/.exec(route);
  if (named !== null) return await call(undefined, body, `${named[1]}:${named[2]}`);
  if (route.startsWith("/api/run/")) throw new Refusal("BadConvexFunctionIdentifier", "a module and a function are needed");
  throw new Refusal("NotFound", "there is no such route", 404);
}

async function bodyOf(request: http.IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request) {
    bytes += chunk.length;
    if (bytes > BODY_LIMIT) throw new Refusal("BadJsonBody", `the body is larger than ${BODY_LIMIT} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

/** Runs a function of this kind, or of whatever kind it is; internal ones are the operator's alone. */
async function call(
  kind: Kind | undefined,
  body: string,
  addressed?: string,
  scope: "public" | "operator" = "public",
): Promise<string> {
  const { path, args } = readCall(body, addressed);
  try {
    const is = await kindOf(path, scope);
    if (kind !== undefined && kind !== is) throw new Error(`Trying to execute ${path} as ${kind}, but it is a ${is}.`);
    return success(await database[is](makeFunctionReference(path), decode(args)));
  } catch (thrown) {
    // Where Convex itself checks arguments, its refusal prints all of them.
    const refusal = thrown instanceof Error && thrown.message.startsWith("Validator error") ? thrown.message : undefined;
    return error(refusal === undefined ? thrown : new Error(`${refusal}\n\nObject: ${JSON.stringify(args)}`));
  }
}

/** What kind of function is at this path. Internal ones cannot be called from outside: convex-test would let them. */
async function kindOf(path: string, scope: "public" | "operator"): Promise<Kind> {
  const [module, name] = path.split(":") as [string, string];
  const load = modules[`./functions/${module}.ts`];
  const found = load && ((await load()) as Record<string, Partial<Record<string, boolean>> | undefined>)[name];
  if (found === undefined || !(found.isPublic || (scope === "operator" && found.isInternal))) throw new Error(`Could not find public function for '${path}'.`);
  return found.isQuery ? "query" : found.isMutation ? "mutation" : "action";
}

async function reset(): Promise<string> {
  clock.reset();
  database = open();
  const minted = await database.action(makeFunctionReference("callers:mint"), { name: "test", may: "both" });
  const renewed = await database.action(makeFunctionReference("pairing:renew"), MANY_DEVICES);
  return JSON.stringify({ ...(minted as object), ...(renewed as object), adminKey: ADMIN_KEY });
}
