// Written by clients/generate.mjs from the functions in convex/. Run that again instead of editing this.

/** The functions for callers, without the arguments that every call has. */
export interface Functions {
  "catalog:list": {
    kind: "query";
    args: { deviceId: string; kind: "tool" | "skill" | "agent" | "plugin" };
    returns: Array<{ key: string; hash: string; body: string }>;
  };
  "devices:list": {
    kind: "query";
    args: { deviceId?: string };
    returns: Array<{ deviceId: string; name: string; platform: string; seenAtMs?: number; beatMs?: number; online: boolean }>;
  };
  "devices:presence": {
    kind: "query";
    args: { deviceId: string };
    returns: { seenAtMs?: number; beatMs?: number; online: boolean; health?: string } | null;
  };
  "events:appendRequest": {
    kind: "mutation";
    args: { requestId: string; deviceId: string; toolName: string; args: string; conversationId?: string; agentType?: string; deadlineMs?: number; issuedAtMs?: number; signature?: string; session?: { client: string; folders: Array<string> }; progress?: boolean };
    returns: { requestId: string; created: boolean };
  };
  "events:cancel": {
    kind: "mutation";
    args: { requestId: string };
    returns: { state: "cancelling" | "finished" | "unknown" };
  };
  "events:getResult": {
    kind: "query";
    args: { requestId: string };
    returns: { requestId: string; outcome: "ok" | "error" | "cancelled"; payload: string; storedAtMs: number; truncated?: boolean } | null;
  };
  "events:listProgress": {
    kind: "query";
    args: { requestId: string; after?: number };
    returns: Array<{ n: number; data: string }>;
  };
  "events:watchProgress": {
    kind: "mutation";
    args: { requestId: string };
    returns: { state: "watching" | "finished" | "unknown"; expiresInMs: number };
  };
  "permissions:answer": {
    kind: "mutation";
    args: { deviceId?: string; permissionId: string; optionId: string; text?: string };
    returns: { accepted: boolean; answer?: { optionId: string; by: "caller" | "device"; answeredAtMs: number; text?: string } };
  };
  "permissions:pending": {
    kind: "query";
    args: { deviceId?: string };
    returns: Array<{ permissionId: string; requestId: string; deviceId: string; title: string; host?: string; options: Array<{ optionId: string; name: string; kind: "allow_once" | "allow_always" | "reject_once" | "reject_always" }>; askedAtMs: number; expiresAtMs: number; answer?: { optionId: string; by: "caller" | "device"; answeredAtMs: number; text?: string } }>;
  };
}

export type Path = keyof Functions;

export const KINDS: { [P in Path]: Functions[P]["kind"] } = {
  "catalog:list": "query",
  "devices:list": "query",
  "devices:presence": "query",
  "events:appendRequest": "mutation",
  "events:cancel": "mutation",
  "events:getResult": "query",
  "events:listProgress": "query",
  "events:watchProgress": "mutation",
  "permissions:answer": "mutation",
  "permissions:pending": "query",
};
