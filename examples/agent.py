# pip install anthropic './clients/python[convex]'
# export ANTHROPIC_API_KEY=... MODEL=...
import os
import punie_client
from anthropic import Anthropic

model, punie = Anthropic(), punie_client.connect()
tools = punie.tools("anthropic")
messages = [{"role": "user", "content": "Which files are here, and what is this project?"}]
while True:
    reply = model.messages.create(model=os.environ["MODEL"], max_tokens=4096, tools=tools, messages=messages)
    calls = [block for block in reply.content if block.type == "tool_use"]
    if not calls:
        print(reply.content[-1].text)
        break
    results = [(call.id, punie.call(call.name, call.input)) for call in calls]
    messages.append({"role": "assistant", "content": reply.content})
    messages.append({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": id, "content": result.content("anthropic"), "is_error": result.is_error}
        for id, result in results]})
