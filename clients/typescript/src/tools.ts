// The device's tools in the forms that models and agents want.

import { type Format, unknownFormat } from "./result.js";

/** A tool as the device describes it. */
export interface Tool {
  name: string;
  description: string;
  /** JSON Schema of the arguments, an object. */
  schema: Record<string, unknown>;
  effect: "reads" | "writes" | "executes" | (string & {});
  requires_permission?: boolean;
  /** It is there for agents that know its name from elsewhere; another tool does the same. */
  compat?: boolean;
  [fact: string]: unknown;
}

/** The names of tools for models, which take no dots, and the tools' own. */
export class ToolNames {
  private readonly byAlias = new Map<string, string>();

  constructor(tools: readonly Tool[] = []) {
    const own = new Set(tools.map(({ name }) => name));
    for (const { name } of tools) {
      let alias = name.replaceAll(/[^A-Za-z0-9_-]/g, "_").slice(0, 64);
      for (let n = 2; alias !== name && (own.has(alias) || this.byAlias.has(alias)); n += 1) {
        alias = `${alias.slice(0, 60)}_${n}`;
      }
      this.byAlias.set(alias, name);
    }
  }

  ownName(alias: string): string {
    return this.byAlias.get(alias) ?? alias;
  }

  *entries(): Iterable<[alias: string, name: string]> {
    yield* this.byAlias;
  }
}

/** A tool in this format. */
export function formatTool(format: Format, name: string, tool: Tool): unknown {
  const { description, schema } = tool;
  switch (format) {
    case "anthropic": {
      return { name, description, input_schema: schema };
    }
    case "openai": {
      return { type: "function", name, description, parameters: schema, strict: false };
    }
    case "openai-chat": {
      return { type: "function", function: { name, description, parameters: schema } };
    }
    case "gemini": {
      return { name, description, parametersJsonSchema: schema };
    }
    case "mcp": {
      const readOnlyHint = tool.effect === "reads" || tool.effect === "asks_user";
      return { name: tool.name, description, inputSchema: schema, annotations: { readOnlyHint } };
    }
    default: {
      throw unknownFormat(format);
    }
  }
}
