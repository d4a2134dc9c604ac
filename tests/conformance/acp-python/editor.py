"""An editor, by the library's own client side: buffers that may differ from the disk, a person who answers, terminals."""

import asyncio
import contextlib
import itertools
import json
import os
import signal
from pathlib import Path

from acp import (
    PROTOCOL_VERSION,
    CreateTerminalResponse,
    ReadTextFileResponse,
    RequestError,
    RequestPermissionResponse,
    TerminalOutputResponse,
    WaitForTerminalExitResponse,
    spawn_agent_process,
    text_block,
)
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    FileSystemCapabilities,
    Implementation,
    TerminalExitStatus,
)
from world import within

NUMBERS = itertools.count(1)


def serves(files=True, terminal=False, meta=None):
    fs = FileSystemCapabilities(read_text_file=files, write_text_file=files)
    return ClientCapabilities(fs=fs, terminal=terminal, field_meta=meta)


def choose(kind):
    """Says how the person chooses, by the kind of an option; the id itself where there is no such kind."""

    def answer(options):
        chosen = next((option.option_id for option in options if option.kind == kind), kind)
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen))

    return answer


def dismiss(_options):
    return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))


class Editor:
    """All that it is asked and told is kept in `seen`: (method, the rest)."""

    def __init__(self, device, record):
        self.device, self.record = device, record
        self.connection = f"connection {next(NUMBERS)}"
        self.buffers, self.terminals, self.seen, self.extensions = {}, {}, [], {}
        self.person = choose("allow_once")
        self.reads = self.usual_read
        self.changed = asyncio.Event()

    async def open(self, capabilities):
        """Starts the agent and introduces itself."""
        self.stack = contextlib.AsyncExitStack()
        # What the library passes on of the environment is all there is.
        self.agent, self.process = await self.stack.enter_async_context(
            spawn_agent_process(
                self,
                self.device.world.binary,
                "acp",
                "--home",
                str(self.device.home),
                "--log",
                "info",
                cwd="/",
                observers=[self.observe],
                # The library keeps a pipe that nobody reads.
                transport_kwargs={"stderr": asyncio.subprocess.DEVNULL, "shutdown_timeout": 60},
            )
        )
        self.introduced = await within(
            self.agent.initialize(
                protocol_version=PROTOCOL_VERSION,
                client_capabilities=capabilities,
                client_info=Implementation(name="snake", version="1"),
            ),
            "initialize",
        )
        return self

    def observe(self, event):
        who = "agent" if event.direction.value == "incoming" else "editor"
        self.record({"connection": self.connection, "from": who, "frame": event.message})

    async def session(self):
        answer = await within(self.agent.new_session(cwd=str(self.device.workspace), mcp_servers=[]), "session")
        return Session(self, answer.session_id)

    async def close(self, abruptly=False):
        """The agent sees the end of its input; its exit code."""
        self.process.stdin.close()
        code = await within(self.process.wait(), "end of the agent")
        self.record({"connection": self.connection, "end": {"abruptly": abruptly}})
        await self.stack.aclose()
        return code

    def note(self, method, **rest):
        self.seen.append((method, rest))
        self.changed.set()

    def asked(self, method):
        return [rest for name, rest in self.seen if name == method]

    async def until(self, holds, what):
        """Waits until this is so."""

        async def look():
            while not holds():
                self.changed.clear()
                await self.changed.wait()

        await within(look(), what)

    # What the agent may ask.

    async def session_update(self, session_id, update, **_):
        self.note("session/update", session=session_id, update=update)

    async def request_permission(self, session_id, tool_call, options, **_):
        self.note("session/request_permission", session=session_id, call=tool_call.tool_call_id, options=options)
        answer = self.person(options)
        return await answer if asyncio.iscoroutine(answer) else answer

    async def read_text_file(self, session_id, path, line=None, limit=None, **_):
        self.note("fs/read_text_file", session=session_id, path=path)
        return ReadTextFileResponse(content=await self.reads(path))

    async def usual_read(self, path):
        if path in self.buffers:
            return self.buffers[path]
        if os.path.exists(path):
            return Path(path).read_text()
        raise RequestError.resource_not_found(path)

    async def write_text_file(self, session_id, path, content, **_):
        self.note("fs/write_text_file", session=session_id, path=path, content=content)
        self.buffers[path] = content
        Path(path).write_text(content)
        # This library answers with null.

    async def create_terminal(self, session_id, command, args=None, env=None, cwd=None, output_byte_limit=None, **_):
        self.note("terminal/create", session=session_id, command=command, args=args, limit=output_byte_limit)
        number = f"terminal-{next(NUMBERS)}"
        variables = {one.name: one.value for one in env or []}
        # As some editors do: the program and its arguments as they are, without any shell.
        process = await asyncio.create_subprocess_exec(
            command,
            *(args or []),
            cwd=cwd,
            env={**os.environ, **variables},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        self.terminals[number] = Terminal(process, output_byte_limit)
        return CreateTerminalResponse(terminal_id=number)

    def terminal(self, terminal_id):
        if terminal_id not in self.terminals:
            raise RequestError.resource_not_found(terminal_id)
        return self.terminals[terminal_id]

    async def terminal_output(self, session_id, terminal_id, **_):
        self.note("terminal/output")
        return self.terminal(terminal_id).output()

    async def wait_for_terminal_exit(self, session_id, terminal_id, **_):
        self.note("terminal/wait_for_exit")
        terminal = self.terminal(terminal_id)
        await asyncio.shield(terminal.reading)
        return WaitForTerminalExitResponse(**terminal.status())

    async def kill_terminal(self, session_id, terminal_id, **_):
        self.note("terminal/kill")
        self.terminal(terminal_id).kill()

    async def release_terminal(self, session_id, terminal_id, **_):
        self.note("terminal/release")
        self.terminal(terminal_id).kill()
        del self.terminals[terminal_id]

    async def ext_method(self, method, params):
        # Without its underscore.
        self.note(f"_{method}", params=params)
        if method not in self.extensions:
            raise RequestError.method_not_found(f"_{method}")
        return self.extensions[method](params)

    async def ext_notification(self, method, params):
        self.note(f"_{method}", params=params)

    def on_connect(self, agent):
        pass


class Terminal:
    def __init__(self, process, limit):
        self.process, self.limit, self.kept, self.cut = process, limit, b"", False
        self.reading = asyncio.ensure_future(self.read())

    async def read(self):
        while chunk := await self.process.stdout.read(65536):
            self.kept += chunk
            if self.limit is not None and len(self.kept) > self.limit:
                self.kept, self.cut = self.kept[len(self.kept) - self.limit :], True
        await self.process.wait()

    def status(self):
        code = self.process.returncode
        if code is None:
            return None
        return {"signal": signal.Signals(-code).name} if code < 0 else {"exit_code": code}

    def output(self):
        status = self.status()
        text = self.kept.decode(errors="ignore")
        return TerminalOutputResponse(
            output=text, truncated=self.cut, exit_status=TerminalExitStatus(**status) if status else None
        )

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


class Session:
    def __init__(self, editor, session_id):
        self.editor, self.id, self.turn = editor, session_id, None

    def updates(self):
        told = self.editor.asked("session/update")
        return [one["update"] for one in told if one["session"] == self.id]

    def said(self):
        chunks = (one for one in self.updates() if one.session_update == "agent_message_chunk")
        return "".join(chunk.content.text for chunk in chunks)

    def prompt(self, words):
        return self.editor.agent.prompt(session_id=self.id, prompt=[text_block(words)])

    async def attach(self, words="attach"):
        """Opens a turn for the backend's calls."""
        before = self.said().count("Attached")
        self.turn = asyncio.ensure_future(self.prompt(words))
        await self.editor.until(lambda: self.said().count("Attached") > before, "attached turn")
        return self

    async def cancel(self):
        """The person stops the turn; why it ended."""
        await self.editor.agent.cancel(session_id=self.id)
        return (await within(self.turn, "end of the turn")).stop_reason

    def statuses(self, call):
        """The statuses that a call was shown with."""
        own = [one for one in self.updates() if getattr(one, "tool_call_id", None) == call]
        shown = (one.status or ("pending" if one.session_update == "tool_call" else None) for one in own)
        return [status for status in shown if status]
