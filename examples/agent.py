# pip install anthropic convex
import json, os, time, uuid
from anthropic import Anthropic
from convex.http_client import ConvexHttpClient

model, backend = Anthropic(), ConvexHttpClient(os.environ["PUNIE_BACKEND_URL"])
caller = {"callerToken": os.environ["PUNIE_CALLER_TOKEN"]}
device = {"deviceId": os.environ["PUNIE_DEVICE"]}

def run_tool(name, arguments):
    request = {**caller, "requestId": str(uuid.uuid4())}  # the same id again never runs a second time
    backend.mutation("events:appendRequest",
                     {**request, **device, "toolName": name, "args": json.dumps(arguments)})
    while (answer := backend.query("events:getResult", request)) is None:
        time.sleep(0.1)
    payload = json.loads(answer["payload"])
    return json.dumps(payload.get("result", payload))

catalog = backend.query("catalog:list", {**caller, **device, "kind": "tool"})
tools = [{"name": t["name"], "description": t["description"], "input_schema": t["schema"]}
         for t in (json.loads(entry["body"]) for entry in catalog)]
messages = [{"role": "user", "content": "Which files are here, and what is this project?"}]
while True:
    reply = model.messages.create(model=os.environ["MODEL"], max_tokens=4096, tools=tools, messages=messages)
    messages.append({"role": "assistant", "content": reply.content})
    calls = [block for block in reply.content if block.type == "tool_use"]
    if not calls:
        print(reply.content[-1].text)
        break
    messages.append({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": c.id, "content": run_tool(c.name, c.input)} for c in calls]})
