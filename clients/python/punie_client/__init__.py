"""The tools of a paired computer for an agent.

    punie = punie_client.connect()
    tools = punie.tools("anthropic")
    print(punie.call("Bash", {"command": "ls"}).text)
"""

from .client import Punie, connect
from .error import PunieError
from .result import Image, ToolResult

__all__ = ["Image", "Punie", "PunieError", "ToolResult", "connect"]
__version__ = "0.1.0"
