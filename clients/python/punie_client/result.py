"""The result of a call, and its form in the messages to a model."""

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Image:
    mime_type: str
    data: str
    """In base64."""


class ToolResult:
    """The result of a call.

    `outcome` is ok, error or cancelled; `text` is for the model: the answer, or why the call failed. `code` names the
    failure and is stable. `structured` is the answer of a tool that answers with JSON, `meta` has facts beside the text.
    """

    def __init__(self, row):
        payload = _parse(row["payload"])
        answers = (payload.get("result"), payload.get("error"), "")
        answer = next(one for one in answers if one is not None)
        self.request_id = row["requestId"]
        self.outcome = row["outcome"]
        self.meta = payload.get("meta") or {}
        self.images = []
        self.structured = None if isinstance(answer, str) else answer
        if _is_image(answer):
            self.images = [Image(answer["mime_type"], answer["data"])]
            self.structured = {key: value for key, value in answer.items() if key != "data"}
        self.text = answer if isinstance(answer, str) else json.dumps(self.structured, ensure_ascii=False)
        self.is_error = self.outcome != "ok"
        self.code = self.meta.get("code", self.outcome) if self.is_error else None
        self.retryable = bool(self.meta.get("retryable"))

    def __repr__(self):
        return f"ToolResult({self.outcome}, {self.text[:80]!r})"

    @property
    def notes(self):
        """The warnings that the text does not have, a line each, or nothing."""
        warnings = self.meta.get("warnings") or []
        return "\n".join(f"Note: {warning}" for warning in warnings if warning not in self.text)

    def content(self, format):
        """Returns the result as this format has it, with the warnings that the text does not have.

        That is `content` of an Anthropic `tool_result`, `output` of an OpenAI `function_call_output` ("openai"),
        `content` of a tool's chat message ("openai-chat"), `response` of a Gemini `functionResponse` with the images as
        its `parts`, and the whole result of `tools/call` for MCP.
        """
        # Some APIs refuse a block of empty text.
        texts, notes = ([{"type": "text", "text": one}] if one else [] for one in (self.text, self.notes))
        whole = "\n".join(one for one in (self.text, self.notes) if one)
        if format == "anthropic":
            sources = [{"type": "base64", "media_type": one.mime_type, "data": one.data} for one in self.images]
            return texts + [{"type": "image", "source": source} for source in sources] + notes
        if format == "openai":
            if not self.images:
                return whole
            urls = [f"data:{one.mime_type};base64,{one.data}" for one in self.images]
            shown = [{"type": "input_image", "image_url": url} for url in urls]
            return [{"type": "input_text", "text": whole}, *shown]
        if format == "openai-chat":
            left_out = "\n[The image is left out: this API takes none from a tool.]"
            return whole + (left_out if self.images else "")
        if format == "gemini":
            parts = [{"inlineData": {"mimeType": one.mime_type, "data": one.data}} for one in self.images]
            response = {"error" if self.is_error else "output": whole}
            return {"response": response, **({"parts": parts} if parts else {})}
        if format == "mcp":
            images = [{"type": "image", "data": one.data, "mimeType": one.mime_type} for one in self.images]
            structured = {"structuredContent": self.structured} if isinstance(self.structured, dict) else {}
            return {"content": texts + images + notes, "isError": self.is_error, **structured}
        raise ValueError(f"there is no format {format!r}")


def _parse(text):
    try:
        payload = json.loads(text)
    except ValueError:
        payload = None
    # A device of another make may send text: that is the answer then.
    return payload if isinstance(payload, dict) else {"result": text}


def _is_image(answer):
    return (
        isinstance(answer, dict)
        and answer.get("type") == "image"
        and isinstance(answer.get("mime_type"), str)
        and isinstance(answer.get("data"), str)
    )
