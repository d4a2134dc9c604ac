// The caller's side of the cases in tests/contract, on both backends.

import assert from "node:assert/strict";
import { test } from "node:test";

import { playCases } from "../../cases.mjs";
import { Backend } from "../dist/backend.js";
import { KINDS } from "../dist/contract.js";

const { backends } = JSON.parse(process.env.STAGE);

const library = {
  kinds: KINDS,
  call: async (url, token, path, args) => {
    try {
      return { value: await new Backend({ url, token, subscribe: false, fetch }).call(path, args) };
    } catch (error) {
      return { error: { ...error.data, code: error.code } };
    }
  },
};

const places = { "the embedded backend": backends.embedded, "the functions of convex/": undefined };
for (const [name, backend] of Object.entries(places)) {
  test(`the library passes the cases on ${name}`, async (context) => {
    const { passed, leftOut, failures } = await playCases(backend, library);
    context.diagnostic(`${passed} cases passed, ${leftOut} left out`);
    assert.deepEqual(failures, []);
    assert.ok(passed > 50, `only ${passed} cases were run`);
  });
}
