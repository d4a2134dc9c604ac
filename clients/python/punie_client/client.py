"""The caller of one device."""

import contextlib
import json
import os
import time
import uuid

from .backend import Backend, encode_json
from .error import PunieError
from .result import ToolResult
from .tools import format_tool, model_names

# A device that has not answered for so long may be away: that is looked up then, and again after the second time.
PRESENCE = (5.0, 30.0)
# A device is away when nothing was heard of it for so many beats.
BEATS_AWAY = 2.5
BEAT_MS = 60_000
# The time for the answer to a cancelled or late request.
LAST_WAIT = 10.0
# A caller that listens to a call's output says so again after this time.
LISTEN = 40.0
# The time between looks for a cancel and new output.
STEP = 0.2


def connect(url=None, token=None, device=None, subscribe=True):
    """Connects to a backend, and finds the device.

    What is not given comes from PUNIE_BACKEND_URL, PUNIE_CALLER_TOKEN and PUNIE_DEVICE. Without a device it is the one
    that there is. With the package `convex` results are watched over a WebSocket; without it, or with subscribe=False,
    they are polled.
    """
    url = url or os.environ.get("PUNIE_BACKEND_URL")
    token = token or os.environ.get("PUNIE_CALLER_TOKEN")
    if not url or not url.startswith(("http://", "https://")):
        reason = f"{url} is no address of a backend." if url else "There is no address of a backend."
        raise PunieError("BAD_SETTINGS", f"{reason} Set PUNIE_BACKEND_URL, for example to http://127.0.0.1:3210")
    if not token:
        advice = "Set PUNIE_CALLER_TOKEN; `punie-runner dev` prints the file that has it."
        raise PunieError("BAD_SETTINGS", f"There is no caller's token. {advice}")
    backend = Backend(url, token, subscribe)
    return Punie(backend, _choose_device(backend, device or os.environ.get("PUNIE_DEVICE")))


def _choose_device(backend, wanted):
    devices = backend.call("devices:list", {"deviceId": wanted} if wanted else {}, patience=0)
    if not devices:
        which = f"The device {wanted} is not" if wanted else "No device is"
        advice = "On the computer with the tools: punie-runner pair CODE"
        raise PunieError("DEVICE_UNKNOWN", f"{which} paired with {backend.url}. {advice}")
    there = [one for one in devices if not _is_away(one, backend)] or devices
    if len(there) == 1:
        return there[0]["deviceId"]
    names = ", ".join(f"{one['deviceId']} ({one['name']})" for one in devices)
    raise PunieError("DEVICE_AMBIGUOUS", f"There are several devices: {names}. Name one by PUNIE_DEVICE.")


def _is_away(seen, backend):
    silent_ms = backend.now() * 1000 - seen.get("seenAtMs", 0)
    return not seen["online"] or silent_ms > BEATS_AWAY * seen.get("beatMs", BEAT_MS)


class Punie:
    """A device's tools, results and questions."""

    def __init__(self, backend, device):
        self.backend = backend
        self.device = device
        self._own_names = {}

    def catalog(self, only=None, compat=False):
        """Returns the device's tools as it describes them.

        `only` names the tools to list. `compat` adds those that are there only for agents which know their names from
        elsewhere.
        """
        items = self.backend.call("catalog:list", {"deviceId": self.device, "kind": "tool"})
        tools = [json.loads(item["body"]) for item in items]
        self._own_names = {alias: name for name, alias in model_names(tools).items()}
        if only is not None:
            return [tool for tool in tools if tool["name"] in only]
        return [tool for tool in tools if compat or not tool.get("compat")]

    def tools(self, format, only=None, compat=False):
        """Returns the device's tools as this format has them: anthropic, openai, openai-chat, gemini or mcp."""
        tools = self.catalog(only, compat)
        aliases = {name: alias for alias, name in self._own_names.items()}
        return [format_tool(format, aliases[tool["name"]], tool) for tool in tools]

    def call(
        self,
        tool,
        args=None,
        *,
        request_id=None,
        conversation_id=None,
        progress=None,
        deadline=None,
        cancel=None,
        wait_offline=False,
    ):
        """Calls a tool and waits for its result. A tool that fails has a result too: look at `is_error`.

        `args` is a dict, or JSON text as some APIs give it. `progress` is called with the output of a command while it
        runs. `deadline`, in seconds from now, is the time within which the device begins and ends the call. The same
        `request_id` and arguments again are the same request, which runs once. Calls of one conversation run in order;
        by default each call is its own. For `cancel` and `wait_offline` see `result`.
        """
        if cancel is not None and cancel.is_set():
            raise PunieError("CANCELLED", f"{tool} was cancelled before it was sent.")
        request = {
            "requestId": request_id or _new_request_id(),
            "deviceId": self.device,
            "toolName": self._own_names.get(tool, tool),
            "args": args if isinstance(args, str) else encode_json(args or {}),
            "conversationId": conversation_id,
            "deadlineMs": None if deadline is None else (self.backend.now() + deadline) * 1000,
            "progress": True if progress else None,
        }
        self._append({key: one for key, one in request.items() if one is not None}, cancel)
        wait = {"progress": progress, "deadline": deadline, "cancel": cancel, "wait_offline": wait_offline}
        return self.result(request["requestId"], **wait)

    def _append(self, request, cancel):
        try:
            self.backend.call("events:appendRequest", request, cancel=cancel)
        except PunieError as error:
            if not _is_cut_short(error, cancel):
                raise
            # The request may be stored: only its answer may be lost.
            with contextlib.suppress(PunieError):
                self.backend.call("events:cancel", {"requestId": request["requestId"]}, patience=0)
            raise _cancelled(request["requestId"], error) from error

    def result(self, request_id, *, progress=None, deadline=None, cancel=None, wait_offline=False):
        """Waits for the result of a request that was sent before.

        `cancel` is a threading.Event that cancels the call on the device. A device that is away makes it a PunieError,
        and cancels the request, unless `wait_offline` is true.
        """
        wait = _Wait(self, request_id, progress, deadline, cancel, wait_offline)
        try:
            return wait.run()
        except PunieError as error:
            if _is_cut_short(error, cancel):
                raise _cancelled(request_id, error) from error
            # The request is stored: the program may wait for its result again.
            error.request_id = request_id
            raise
        finally:
            wait.close()

    def cancel(self, request_id):
        """Cancels a request. What had been done by then is in its result."""
        return self.backend.call("events:cancel", {"requestId": request_id})["state"]

    def questions(self):
        """Returns the questions and approvals that wait for an answer at this device.

        The token must allow to approve.
        """
        pending = self.backend.call("permissions:pending", {"deviceId": self.device})
        return [one for one in pending if one["expiresAtMs"] > self.backend.now() * 1000]

    def answer(self, permission_id, option_id, text=None):
        """Answers a question by one of its options; the option `text` takes a text. The first answer counts."""
        args = {"permissionId": permission_id, "optionId": option_id, **({} if text is None else {"text": text})}
        return self.backend.call("permissions:answer", args)


def _is_cut_short(error, cancel):
    """Returns true for the error of a call that was not repeated any more since it was cancelled."""
    return error.code == "UNREACHABLE" and cancel is not None and cancel.is_set()


def _cancelled(request_id, error):
    again = f'result("{request_id}") waits for its result again.'
    why = f"The request {request_id} was cancelled, but the device may not know. It may have run: {again} {error}"
    return PunieError("CANCELLED", why, request_id=request_id)


class _Wait:
    """The wait for one result."""

    def __init__(self, punie, request_id, progress, deadline, cancel, wait_offline):
        self._punie, self._backend, self._request_id = punie, punie.backend, request_id
        self._progress, self._cancel = progress, cancel
        now = time.monotonic()
        self._presence_at = None if wait_offline else now + PRESENCE[0]
        self._listen_at = now + LISTEN
        self._deadline = deadline
        self._late_at = None if deadline is None else now + deadline + LAST_WAIT / 2
        # The error if there is no result by the last time, after the request was cancelled.
        self._last_at, self._error = None, None
        self._after = None
        self._results = self._backend.watch("events:getResult", {"requestId": request_id}, cancel)
        self._pieces = self._watch_pieces() if progress else None

    def run(self):
        while True:
            try:
                is_new, row = self._results.next(self._step())
                if is_new and row is not None:
                    self._hand_over_rest()
                    return ToolResult(row)
                if self._progress:
                    self._follow_progress()
                self._check_deadlines()
            except PunieError as error:
                # The cancel has ended the repeats of a call. It is to reach the device all the same, once.
                if self._last_at is not None or not _is_cut_short(error, self._cancel):
                    raise
                self._check_deadlines()

    def close(self):
        for watch in (self._results, self._pieces):
            if watch is not None:
                watch.close()

    def _step(self):
        """Returns the time, in seconds, until something other than the result is due."""
        times = [at for at in (self._presence_at, self._late_at, self._last_at) if at is not None]
        left = min(times, default=float("inf")) - time.monotonic()
        return max(0.0, min(left, STEP if self._progress or self._cancel is not None else LISTEN))

    def _check_deadlines(self):
        now = time.monotonic()
        if self._last_at is not None:
            if now >= self._last_at:
                raise self._error
        elif self._cancel is not None and self._cancel.is_set():
            self._abandon("CANCELLED", "was cancelled, and the device has not said what it had done", LAST_WAIT)
        elif self._late_at is not None and now >= self._late_at:
            limit = self._deadline + LAST_WAIT
            self._abandon("TIMEOUT", f"has no result after {limit:g} s", LAST_WAIT / 2)
        elif self._presence_at is not None and now >= self._presence_at:
            self._presence_at = now + PRESENCE[1]
            seen = self._backend.call("devices:presence", {"deviceId": self._punie.device}, cancel=self._cancel)
            if seen is None or _is_away(seen, self._backend):
                why = f"was cancelled: the device {self._punie.device} is away. Start punie-runner there"
                self._abandon("DEVICE_OFFLINE", why, 0)

    def _abandon(self, code, why, seconds):
        """Cancels the request and gives its result a last time to come; then it is an error."""
        again = f'It may have run: result("{self._request_id}") waits for its result again.'
        self._error = PunieError(code, f"The request {self._request_id} {why}. {again}")
        self._last_at, self._late_at, self._presence_at = time.monotonic() + seconds, None, None
        self._backend.call("events:cancel", {"requestId": self._request_id}, patience=LAST_WAIT)

    def _piece_args(self):
        return {"requestId": self._request_id, **({} if self._after is None else {"after": self._after})}

    def _watch_pieces(self):
        return self._backend.watch("events:listProgress", self._piece_args(), self._cancel)

    def _hand_over_rest(self):
        """Hands over the output up to the end. Errors are ignored: the result is there, with the output."""
        repeats = {"patience": LAST_WAIT / 2, "cancel": self._cancel}
        is_more = self._progress is not None
        with contextlib.suppress(PunieError):
            while is_more:
                pieces = self._backend.call("events:listProgress", self._piece_args(), **repeats)
                is_more = self._hand_over(pieces)

    def _follow_progress(self):
        is_new, pieces = self._pieces.next(0)
        if is_new and self._hand_over(pieces):
            self._pieces.close()
            self._pieces = self._watch_pieces()
        if time.monotonic() >= self._listen_at:
            self._listen_at = time.monotonic() + LISTEN
            self._backend.call("events:watchProgress", {"requestId": self._request_id}, cancel=self._cancel)

    def _hand_over(self, pieces):
        for piece in pieces:
            self._progress(_piece_text(piece["data"]))
            self._after = piece["n"]
        return bool(pieces)


def _piece_text(data):
    """Returns the text of a piece of output, with a note on what was left out before it."""
    try:
        piece = json.loads(data)
    except ValueError:
        return data
    omitted = piece.get("omittedBytes", 0)
    return (f"\n[{omitted} bytes left out]\n" if omitted else "") + piece.get("text", "")


def _new_request_id():
    """Returns a UUID of version 7: by its time the backend knows what it has long forgotten."""
    random = int.from_bytes(os.urandom(10), "big")
    bits = (time.time_ns() // 1_000_000) << 80 | 7 << 76 | (random >> 68) << 64 | 2 << 62 | random & (1 << 62) - 1
    return str(uuid.UUID(int=bits))
