// The result of a call, and its form in the messages to a model.

import type { Functions } from "./contract.js";

/** The interfaces of models, and the Model Context Protocol. `openai` is the Responses API. */
export type Format = "anthropic" | "openai" | "openai-chat" | "gemini" | "mcp";

export interface Image {
  mimeType: string;
  /** In base64. */
  data: string;
}

/** Facts beside the text. More may be there. */
export interface Meta {
  durationMs?: number;
  code?: string;
  retryable?: boolean;
  exitCode?: number;
  signal?: string;
  timedOut?: boolean;
  truncated?: boolean;
  omittedBytes?: number;
  /** ReadOutput finds the whole text under it. */
  handle?: string;
  files?: Array<{ path: string; before?: string; after?: string }>;
  mayHaveRun?: boolean;
  warnings?: string[];
  [fact: string]: unknown;
}

type Row = NonNullable<Functions["events:getResult"]["returns"]>;

export class ToolResult {
  readonly requestId: string;
  readonly outcome: Row["outcome"];
  /** The text for the model: the answer, or why the call failed. */
  readonly text: string;
  readonly images: Image[];
  /** The answer of a tool that answers with JSON. */
  readonly structured: unknown;
  /** Why the call failed. The code is stable. */
  readonly error: { code: string; message: string; retryable: boolean } | undefined;
  readonly meta: Meta;

  constructor(row: Row) {
    const payload = parsePayload(row.payload);
    const answer = payload.result ?? payload.error ?? "";
    const image = imageOf(answer);
    this.requestId = row.requestId;
    this.outcome = row.outcome;
    this.meta = payload.meta ?? {};
    this.images = image === undefined ? [] : [image];
    this.structured = typeof answer === "string" ? undefined : image === undefined ? answer : without(answer as object, "data");
    this.text = typeof answer === "string" ? answer : JSON.stringify(this.structured);
    const { code = row.outcome, retryable = false } = this.meta;
    this.error = row.outcome === "ok" ? undefined : { code, message: this.text, retryable };
  }

  get isError(): boolean {
    return this.error !== undefined;
  }

  /** The warnings that the text does not have, a line each, or nothing. */
  get notes(): string {
    const { text, meta: { warnings = [] } } = this;
    return warnings.filter((warning) => !text.includes(warning)).map((warning) => `Note: ${warning}`).join("\n");
  }

  /**
   * The result as this format has it, with the warnings that the text does not have: `content` of an Anthropic `tool_result`, `output` of an OpenAI
   * `function_call_output`, `content` of a tool's chat message, `functionResponse.response` with the images as `parts`
   * for Gemini, and the whole result of `tools/call` for MCP.
   */
  content(format: "openai-chat"): string;
  // The messages of each vendor's library have types of their own, which this library does not depend on.
  content(format: Format): any;
  content(format: Format): unknown {
    const { text, images, notes } = this;
    const whole = [text, notes].filter((part) => part !== "").join("\n");
    switch (format) {
      case "anthropic": {
        const source = ({ mimeType, data }: Image) => ({ type: "base64", media_type: mimeType, data });
        return [...texts(text), ...images.map((image) => ({ type: "image", source: source(image) })), ...texts(notes)];
      }
      case "openai": {
        const url = ({ mimeType, data }: Image): string => `data:${mimeType};base64,${data}`;
        if (images.length === 0) return whole;
        const shown = images.map((image) => ({ type: "input_image", image_url: url(image) }));
        return [{ type: "input_text", text: whole }, ...shown];
      }
      case "openai-chat": {
        return images.length === 0 ? whole : `${whole}\n[The image is left out: this API takes none from a tool.]`;
      }
      case "gemini": {
        const parts = images.map(({ mimeType, data }) => ({ inlineData: { mimeType, data } }));
        return { response: this.isError ? { error: whole } : { output: whole }, ...(parts.length > 0 && { parts }) };
      }
      case "mcp": {
        const content = [...texts(text), ...images.map((image) => ({ type: "image", ...image })), ...texts(notes)];
        const isObject = typeof this.structured === "object" && !Array.isArray(this.structured);
        return { content, isError: this.isError, ...(isObject && { structuredContent: this.structured }) };
      }
      default: {
        throw unknownFormat(format);
      }
    }
  }
}

/** The error for a format that only a program without types can name. */
export function unknownFormat(format: never): RangeError {
  return new RangeError(`there is no format ${format as string}: anthropic, openai, openai-chat, gemini or mcp`);
}

/** Blocks of text: none where it is empty, which some APIs refuse. */
function texts(text: string): Array<{ type: "text"; text: string }> {
  return text === "" ? [] : [{ type: "text", text }];
}

function parsePayload(text: string): { result?: unknown; error?: unknown; meta?: Meta } {
  try {
    const payload: unknown = JSON.parse(text);
    if (typeof payload === "object" && payload !== null) return payload;
  } catch {
    // A device of another make may send text: that is the answer then.
  }
  return { result: text };
}

function imageOf(answer: unknown): Image | undefined {
  if (typeof answer !== "object" || answer === null) return undefined;
  const { type, mime_type: mimeType, data } = answer as Record<string, unknown>;
  if (type !== "image" || typeof mimeType !== "string" || typeof data !== "string") return undefined;
  return { mimeType, data };
}

function without(value: object, key: string): object {
  return Object.fromEntries(Object.entries(value).filter(([name]) => name !== key));
}
