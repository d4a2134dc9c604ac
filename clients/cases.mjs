// The cases of tests/contract for a client library: the caller's calls go through the library, all others over HTTP.
// tests/contract/README.md says what the steps mean. As a program it is for libraries in other languages: it prints each
// call of the caller as a line of JSON, reads the answers as lines, and prints what came of the cases as the last line.

import { createHash, generateKeyPairSync, randomBytes, randomUUID, sign } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";

import { post, startFunctions, stopAll } from "./processes.mjs";

const folder = new URL("../tests/contract/", import.meta.url);
const prelude = readFileSync(new URL("prelude.json", folder), "utf8");
/** The greatest difference between an expected time and one of a backend whose clock cannot be moved. */
const LEEWAY_MS = 60_000;

/** The answer to a call that is not the library's. */
async function callDirectly({ url, adminKey }, kind, path, args) {
  const [route, headers] = kind === "operator" ? ["function", { authorization: `Convex ${adminKey}` }] : [kind, {}];
  const { status, value, errorData } = await post(url, `/api/${route}`, { path, args, format: "json" }, headers);
  return status === "success" ? { value } : { error: errorData ?? { code: "REFUSED" } };
}

/** A backend for one case, with what its operator hands out. */
async function openStage({ url, adminKey, isMovable }) {
  if (isMovable) return { url, isMovable, kept: await post(url, "/shim/reset", {}) };
  const operate = async (path, args) => (await callDirectly({ url, adminKey }, "operator", path, args)).value;
  const [minted, renewed] = [await operate("callers:mint", { name: "test", may: "both" }), await operate("pairing:renew", { uses: 100, minutes: 600 })];
  return { url, adminKey, isMovable, kept: { ...minted, ...renewed } };
}

class Run {
  signers = new Map();

  constructor(stage, library) {
    this.stage = { ...stage, adminKey: stage.adminKey ?? stage.kept.adminKey };
    this.library = library;
    this.kept = new Map(Object.entries(stage.kept));
    this.prelude = JSON.parse(stage.rename(prelude));
  }

  async steps(steps) {
    for (const step of steps) await this.step(step);
  }

  async step(step) {
    if (step.parallel !== undefined) return await this.parallel(step);
    if (step.call !== undefined) return await this.call(step);
    if (step.use !== undefined) return await this.steps(this.prelude[step.use]);
    if (step.repeat !== undefined) {
      for (let i = 0; i < step.repeat; i += 1) {
        this.kept.set("i", i);
        await this.steps(step.steps);
      }
    } else if (step.advanceMs !== undefined) {
      await this.moveClock(step.advanceMs);
    } else if (step.sweep !== undefined) {
      await callDirectly(this.stage, "operator", "retention:sweep", {});
    } else if (step.now !== undefined) {
      this.kept.set(step.now, Math.trunc((await this.moveClock(0)) + (step.plusMs ?? 0)));
    } else if (step.uuid7 !== undefined) {
      const time = Math.trunc((await this.moveClock(0)) + (step.plusMs ?? 0)).toString(16).padStart(12, "0");
      this.kept.set(step.uuid7, `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`);
    } else if (step.device !== undefined) {
      this.makeDevice(step.device);
    } else if (step.sign !== undefined) {
      this.kept.set(step.save, sign(null, Buffer.from(this.fill(step.sign)), this.signers.get(step.by)).toString("base64"));
    } else if (step.text !== undefined) {
      const { text, bytes, of = "x" } = step;
      const length = Buffer.byteLength(of);
      this.kept.set(text, of.repeat(Math.trunc(bytes / length)) + "x".repeat(bytes % length));
    } else if (step.set !== undefined) {
      for (const [name, value] of Object.entries(step.set)) this.kept.set(name, this.fill(value));
    } else {
      throw new Error(`no such step: ${JSON.stringify(step)}`);
    }
  }

  makeDevice(name) {
    const { publicKey, privateKey } = generateKeyPairSync("ed25519");
    const token = randomBytes(16).toString("hex");
    this.signers.set(name, privateKey);
    this.kept.set(`${name}.publicKey`, publicKey.export({ type: "spki", format: "der" }).subarray(-32).toString("base64"));
    this.kept.set(`${name}.token`, token);
    this.kept.set(`${name}.tokenHash`, createHash("sha256").update(token).digest("hex"));
  }

  async moveClock(advanceMs) {
    if (!this.stage.isMovable) return Date.now();
    return (await post(this.stage.url, "/shim/clock", { advanceMs })).nowMs;
  }

  async answer(step, args) {
    const { callerToken, ...rest } = args;
    const isCaller = isCallersStep(step, this.library.kinds);
    return isCaller ? await this.library.call(this.stage.url, callerToken, step.call, rest) : await callDirectly(this.stage, step.kind, step.call, args);
  }

  async call(step) {
    const answer = await this.answer(step, this.fill(step.args));
    this.judge(step, step, answer);
    for (const [name, pointer] of Object.entries(step.save ?? {})) {
      const parts = pointer.split("/").slice(1);
      this.kept.set(name, parts.reduce((value, part) => value[part], answer.value ?? answer.error));
    }
  }

  async parallel(step) {
    const answers = Array.from({ length: step.parallel }, (_, i) => {
      this.kept.set("i", i);
      return this.answer(step, this.fill(step.args));
    });
    const failures = [];
    for (const answer of await Promise.all(answers)) {
      try {
        this.judge(step, step.others, answer);
      } catch (failure) {
        if (step.once === undefined) throw failure;
        failures.push(answer);
      }
    }
    if (step.once === undefined) return;
    if (failures.length !== 1) throw new Error(`${step.call}: ${failures.length} answers differ, and not one`);
    this.judge(step, step.once, failures[0]);
  }

  judge(step, wanted, answer) {
    try {
      if (wanted.refused === true) this.match({ code: "REFUSED" }, answer.error, "error");
      else if (wanted.error !== undefined) this.match({ code: wanted.error, ...this.fill(wanted.data) }, answer.error, "error");
      else if (answer.error !== undefined) throw new Error(`failed: ${JSON.stringify(answer.error)}`);
      else if ("expect" in wanted) this.match(this.fill(wanted.expect), answer.value, "value");
    } catch (failure) {
      throw new Error(`${step.call} ${JSON.stringify(step.args).slice(0, 200)}: ${failure.message}`);
    }
  }

  match(wanted, got, at) {
    const differs = () => new Error(`${at}: expected ${JSON.stringify(wanted)}, got ${JSON.stringify(got)?.slice(0, 300)}`);
    if (typeof wanted !== "object" || wanted === null) {
      if (wanted !== got) throw differs();
    } else if ("$some" in wanted) {
      const matches = (one) => {
        try {
          this.match(wanted.$some, one, at);
          return true;
        } catch {
          return false;
        }
      };
      if (!Array.isArray(got) || !got.some(matches)) throw differs();
    } else if ("$any" in wanted) {
      const fits = { string: typeof got === "string", number: typeof got === "number", digits: /^\d+$/.test(got) };
      if (!fits[wanted.$any]) throw differs();
    } else if ("$now" in wanted) {
      if (!(Math.abs(wanted.$now - got) <= (this.stage.isMovable ? 0 : LEEWAY_MS))) throw differs();
    } else if (Array.isArray(wanted)) {
      if (!Array.isArray(got) || got.length !== wanted.length) throw differs();
      wanted.forEach((one, i) => this.match(one, got[i], `${at}[${i}]`));
    } else {
      if (typeof got !== "object" || got === null) throw differs();
      for (const [key, one] of Object.entries(wanted)) {
        if (one?.$absent !== true) this.match(one, got[key], `${at}.${key}`);
        else if (key in got) throw differs();
      }
    }
  }

  /** A value with the kept ones in place of `${name}`. */
  fill(value) {
    if (typeof value === "string") {
      const whole = /^\$\{([^}]+)\}$/.exec(value);
      if (whole !== null) return this.keptValue(whole[1]);
      return value.replaceAll(/\$\{([^}]+)\}/g, (_, name) => this.keptValue(name));
    }
    if (Array.isArray(value)) return value.map((one) => this.fill(one));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, this.fill(one)]));
  }

  keptValue(name) {
    if (!this.kept.has(name)) throw new Error(`nothing is kept as ${name}`);
    return this.kept.get(name);
  }
}

/** True for a step that is a call which a caller makes by its library. */
function isCallersStep({ call, kind, args }, kinds) {
  return args !== undefined && "callerToken" in args && !("token" in args) && kinds[call] === kind;
}

function* allSteps(steps, named) {
  for (const step of steps) {
    yield step;
    yield* allSteps(step.steps ?? named[step.use] ?? [], named);
  }
}

/**
 * Plays the cases that have a call of the caller, on this backend or else on the functions of convex/. `library` is
 * {kinds, call(url, token, path, args)}, which resolves to {value} or {error: {code, ...}}. On a backend whose clock
 * cannot be moved it leaves out the cases that need that.
 */
export async function playCases(given, library) {
  const backend = given ?? { url: await startFunctions(), isMovable: true };
  const tally = { passed: 0, leftOut: 0, failures: [] };
  const named = JSON.parse(prelude);
  const files = readdirSync(folder).filter((file) => file.endsWith(".json") && file !== "prelude.json");
  for (const file of files) {
    const text = readFileSync(new URL(file, folder), "utf8");
    const count = JSON.parse(text).length;
    for (let n = 0; n < count; n += 1) {
      const own = `it${randomBytes(4).toString("hex")}-`;
      const rename = (text) => (backend.isMovable ? text : text.replaceAll(/\b(dev|req|perm)-/g, `${own}$1-`));
      const { name, needs = [], steps } = JSON.parse(rename(text))[n];
      const every = [...allSteps(steps, named)];
      if (!every.some((step) => isCallersStep(step, library.kinds))) continue;
      const needsClock = needs.includes("clock") || needs.includes("empty") || every.some((step) => "advanceMs" in step);
      if (needsClock && !backend.isMovable) {
        tally.leftOut += 1;
        continue;
      }
      try {
        await new Run({ ...(await openStage(backend)), rename }, library).steps(steps);
        tally.passed += 1;
      } catch (failure) {
        tally.failures.push(`${file}: ${name}\n    ${failure.message}`);
      }
    }
  }
  await stopAll();
  return tally;
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const { backend, kinds } = JSON.parse(process.argv[2]);
  const waiting = new Map();
  createInterface({ input: process.stdin }).on("line", (line) => {
    const { id, ...answer } = JSON.parse(line);
    waiting.get(id)(answer);
  });
  const call = (url, token, path, args) => {
    const id = randomUUID();
    console.log(JSON.stringify({ id, url, token, path, args }));
    return new Promise((resolve) => waiting.set(id, resolve));
  };
  console.log(JSON.stringify({ tally: await playCases(backend, { kinds, call }) }));
  process.exit();
}
