"""An agent by the Python library, for which punie-runner is the editor: agent.py FRAMES

Its first prompt tries all that an editor serves; a line for each case on stderr, `ok NAME` or `not ok NAME: why`. All
frames are written into FRAMES, a JSON line each, for the check against the published schema.
"""

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
from pathlib import Path

from acp import InitializeResponse, NewSessionResponse, PromptResponse, RequestError, run_agent, update_agent_message_text
from acp.schema import EnvVariable, Implementation, PermissionOption, ToolCallUpdate

logging.disable(logging.CRITICAL)

REFUSED, MISSING = -31001, -32002


async def refuses(awaitable, code=None):
    try:
        await awaitable
    except RequestError as error:
        assert code in (None, error.code), f"{error.code}: {error}"
    else:
        raise AssertionError(f"no error {code}")


class TryingAgent:
    def __init__(self):
        self.passed = self.failed = 0

    def on_connect(self, editor):
        self.editor = editor

    async def initialize(self, protocol_version, client_capabilities=None, client_info=None, **_):
        assert client_capabilities.terminal
        return InitializeResponse(
            protocol_version=protocol_version, agent_info=Implementation(name="python-agent", version="1")
        )

    async def new_session(self, cwd, **_):
        self.folder = Path(cwd)
        return NewSessionResponse(session_id="session-1")

    async def prompt(self, session_id, **_):
        self.session = {"session_id": session_id}
        await self.editor.session_update(**self.session, update=update_agent_message_text("trying"))
        for name, case in [*FILES, *TERMINALS, *REST]:
            try:
                await asyncio.wait_for(case(self), 60)
                self.passed += 1
                print(f"ok {name}", file=sys.stderr)
            except Exception as error:
                self.failed += 1
                print(f"not ok {name}: {type(error).__name__} {error}".replace("\n", " "), file=sys.stderr)
        return PromptResponse(stop_reason="end_turn")

    async def cancel(self, session_id, **_):
        pass

    async def read(self, path, **more):
        return (await self.editor.read_text_file(**self.session, path=str(path), **more)).content

    async def write(self, path, content):
        await self.editor.write_text_file(**self.session, path=str(path), content=content)

    async def shell(self, line, **more):
        words = {"command": "/bin/sh", "args": ["-c", line], **more}
        return Terminal(self, (await self.editor.create_terminal(**self.session, **words)).terminal_id)


class Terminal:
    def __init__(self, agent, number):
        self.editor, self.names = agent.editor, {**agent.session, "terminal_id": number}

    async def wait(self):
        exit = await self.editor.wait_for_terminal_exit(**self.names)
        return exit.exit_code, exit.signal

    async def output(self):
        return await self.editor.terminal_output(**self.names)

    async def kill(self):
        await self.editor.kill_terminal(**self.names)

    async def release(self):
        await self.editor.release_terminal(**self.names)


async def read(agent):
    path = agent.folder / "lines.txt"
    path.write_text("one\ntwo\nthree\nfour")
    assert await agent.read(path) == "one\ntwo\nthree\nfour"


async def read_lines(agent):
    path = agent.folder / "lines.txt"
    assert await agent.read(path, line=2, limit=2) == "two\nthree\n"
    assert await agent.read(path, line=4) == "four"
    assert await agent.read(path, limit=1) == "one\n"


async def read_missing(agent):
    await refuses(agent.read(agent.folder / "nowhere.txt"), MISSING)


async def read_outside(agent):
    await refuses(agent.read("/etc/hostname"), REFUSED)
    beside = agent.folder / ".." / "beside.txt"
    await refuses(agent.write(beside, ""), REFUSED)
    assert not beside.exists()


async def write_parent(agent):
    path = agent.folder / "new" / "deep" / "file.txt"
    await agent.write(path, "é\r\nend")
    assert path.read_bytes() == "é\r\nend".encode()


FILES = [
    ("read", read),
    ("read: from a line, no more than a limit", read_lines),
    ("read: a missing file is -32002", read_missing),
    ("outside of the workspace is refused", read_outside),
    ("write: with a new parent", write_parent),
]


async def whole(agent):
    terminal = await agent.shell(
        'echo "out $ONE"; echo err >&2; pwd; exit 5',
        env=[EnvVariable(name="ONE", value="of $mine")],
        cwd=str(agent.folder),
    )
    assert await terminal.wait() == (5, None)
    said = await terminal.output()
    assert said.output == f"out of $mine\nerr\n{agent.folder}\n", said.output
    assert (said.truncated, said.exit_status.exit_code) == (False, 5)
    await terminal.release()


async def killed(agent):
    terminal = await agent.shell("echo begun; exec sleep 600")
    waiting = asyncio.ensure_future(terminal.wait())
    while "begun" not in (said := await terminal.output()).output:
        pass
    assert said.exit_status is None
    await terminal.kill()
    code, ended = await waiting
    assert code is None and ended in ("SIGTERM", "SIGKILL"), (code, ended)
    assert (await terminal.output()).output == "begun\n"
    await terminal.release()


async def released(agent):
    terminal = await agent.shell("true")
    await terminal.release()
    for use in (terminal.wait, terminal.output, terminal.kill, terminal.release):
        await refuses(use(), MISSING)


async def grandchild(agent):
    terminal = await agent.shell("sleep 600 & echo $!")
    assert await terminal.wait() == (0, None)
    number = int((await terminal.output()).output)
    await terminal.release()
    with contextlib.suppress(ProcessLookupError):
        os.kill(number, signal.SIGTERM)


async def limited(agent):
    terminal = await agent.shell("seq 1 20000; printf 'é%.0s' 1 2 3 4 5", output_byte_limit=999)
    await terminal.wait()
    said = await terminal.output()
    assert said.truncated and 900 < len(said.output.encode()) <= 999
    assert said.output.endswith("20000\nééééé") and "\ufffd" not in said.output
    await terminal.release()


async def unknown_program(agent):
    await refuses(agent.editor.create_terminal(**agent.session, command="punie-has-no-such-program"))


async def outside(agent):
    await refuses(agent.shell("true", cwd="/"), REFUSED)


TERMINALS = [
    ("terminal: variables, exit code 5, both streams in their order", whole),
    ("terminal: output while another call waits; kill, and the wait ends with a signal", killed),
    ("terminal: use after release is refused", released),
    ("terminal: a grandchild in the background does not delay the wait", grandchild),
    ("terminal: no more than the byte limit, and its end", limited),
    ("terminal: an unknown program is an error", unknown_program),
    ("terminal: a folder outside of the workspace is refused", outside),
]


async def permission(agent):
    options = [
        PermissionOption(option_id="allow", name="Never", kind="reject_always"),
        PermissionOption(option_id="x1", name="No", kind="reject_once"),
        PermissionOption(option_id="x2", name="Yes", kind="allow_once"),
    ]
    call = ToolCallUpdate(tool_call_id="call-1", title="Something")
    answer = await agent.editor.request_permission(**agent.session, tool_call=call, options=options)
    assert (answer.outcome.outcome, answer.outcome.option_id) == ("selected", "x2")
    answer = await agent.editor.request_permission(**agent.session, tool_call=call, options=options[:2])
    assert answer.outcome.outcome == "cancelled"


async def extension(agent):
    await refuses(agent.editor.ext_method("punie/nonsense", {}), -32601)
    await agent.editor.ext_notification("punie/nonsense", {})
    session = {"sessionId": agent.session["session_id"]}
    assert await agent.editor.ext_method("punie/discover_tools", session) == {"tools": []}


REST = [
    ("permission: what allows is chosen by its kind, though a refusal comes first", permission),
    ("an unknown extension is -32601; the editor's own tools: none", extension),
]


async def main(frames):
    agent = TryingAgent()
    with open(frames, "w") as file:

        def observe(event):
            who = "editor" if event.direction.value == "incoming" else "agent"
            file.write(json.dumps({"connection": "agent", "from": who, "frame": event.message}) + "\n")

        await run_agent(agent, observers=[observe])
        file.write(json.dumps({"connection": "agent", "end": {}}) + "\n")
    print(f"{agent.passed} passed, {agent.failed} failed", file=sys.stderr)
    return agent.failed or (0 if agent.passed else 1)


if __name__ == "__main__":
    sys.exit(min(asyncio.run(main(sys.argv[1])), 100))
