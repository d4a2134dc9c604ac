"""The functions for callers. Written by clients/generate.mjs from the functions in convex/. Run that again instead of editing this."""

KINDS = {
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
}
