// The tests run twice: in Node, and in the runtime that is closest to Convex's own, which has no Node in it.

import { defineConfig } from "vitest/config";

const project = (environment: string, exclude: string[] = []) => ({
  test: {
    name: environment,
    environment,
    include: ["test/*.test.ts"],
    exclude,
    server: { deps: { inline: ["convex-test"] } },
  },
});

export default defineConfig({
  test: {
    // What reads files and starts programs belongs to Node alone.
    projects: [project("node"), project("edge-runtime", ["test/deploy.test.ts", "test/costs.test.ts"])],
  },
});
