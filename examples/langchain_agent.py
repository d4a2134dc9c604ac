# pip install langchain langchain-anthropic './clients/python[convex]'
# export ANTHROPIC_API_KEY=... MODEL=...
import os
import punie_client
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.tools import StructuredTool

punie = punie_client.connect()


def make_tool(tool):
    def run(**arguments):
        return punie.call(tool["name"], arguments).content("anthropic")

    return StructuredTool.from_function(
        run, name=tool["name"], description=tool["description"], args_schema=tool["input_schema"]
    )


agent = create_agent(ChatAnthropic(model=os.environ["MODEL"]), [make_tool(tool) for tool in punie.tools("anthropic")])
question = {"role": "user", "content": "Which files are here, and what is this project?"}
print(agent.invoke({"messages": [question]})["messages"][-1].text)
