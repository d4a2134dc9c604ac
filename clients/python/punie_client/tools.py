"""The device's tools in the forms that models and agents want."""

import re


def model_names(tools):
    """Returns the names of tools for models, which take no dots, by the tools' own."""
    own = {tool["name"] for tool in tools}
    aliases = {}
    for name in (tool["name"] for tool in tools):
        alias, n = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64], 2
        while alias != name and (alias in own or alias in aliases.values()):
            alias, n = f"{alias[:60]}_{n}", n + 1
        aliases[name] = alias
    return aliases


def format_tool(format, name, tool):
    """Returns a tool in this format."""
    description, schema = tool["description"], tool["schema"]
    if format == "anthropic":
        return {"name": name, "description": description, "input_schema": schema}
    if format == "openai":
        return {"type": "function", "name": name, "description": description, "parameters": schema, "strict": False}
    if format == "openai-chat":
        return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}
    if format == "gemini":
        return {"name": name, "description": description, "parametersJsonSchema": schema}
    if format == "mcp":
        annotations = {"readOnlyHint": tool.get("effect") in ("reads", "asks_user")}
        return {"name": tool["name"], "description": description, "inputSchema": schema, "annotations": annotations}
    raise ValueError(f"there is no format {format!r}: anthropic, openai, openai-chat, gemini or mcp")
