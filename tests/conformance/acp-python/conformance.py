"""The Python library's client side as the editor that launches `punie-runner acp`: conformance.py BINARY FRAMES [PART]

A line for each case, `ok NAME` or `not ok NAME: why`. All frames are written into FRAMES, a JSON line each, for the
check against the published schema. Ends with as many failures as exit code.
"""

import asyncio
import json
import logging
import os
import sys
from pathlib import Path

from acp import RequestError

from editor import Editor, choose, dismiss, serves
from world import World, within

# It tells of every notification that it does not know, as a fault.
logging.disable(logging.CRITICAL)

DISCOVER = "punie/discover_tools"
CATALOG = {
    "tools": [
        {
            "name": "ide_rename",
            "kind": "marvel",
            "description": "Renames a symbol everywhere",
            "parameters": {"type": "object", "properties": {"symbol": {"type": "string"}}, "required": ["symbol"]},
            "requiresPermission": True,
            "since": "2.0",
        }
    ]
}


class Cases:
    def __init__(self, world, frames, only):
        self.world, self.frames, self.only = world, frames, only
        self.passed = self.failed = 0

    def record(self, line):
        self.frames.write(json.dumps(line) + "\n")

    async def check(self, name, body):
        if self.only not in name:
            return
        try:
            await body()
            self.passed += 1
            print(f"ok {name}", flush=True)
        except Exception as error:
            self.failed += 1
            where = error.__traceback__
            while where.tb_next:
                where = where.tb_next
            why = str(error).replace("\n", " ")
            at = f"{Path(where.tb_frame.f_code.co_filename).name}:{where.tb_lineno}"
            print(f"not ok {name}: {type(error).__name__} {why} ({at})", flush=True)

    async def editor(self, device, capabilities=None):
        return await Editor(device, self.record).open(capabilities or serves())


def result(answer):
    assert answer["outcome"] == "ok", answer
    return answer["result"]


async def refused(awaitable, code):
    try:
        await within(awaitable, f"error {code}")
    except RequestError as error:
        assert error.code == code, f"{error.code}: {error}"
    else:
        raise AssertionError(f"no error {code}")


async def conversation(cases):
    device = await cases.world.device()
    editor = await cases.editor(device, serves(terminal=True))
    session = None

    async def initialize():
        assert editor.introduced.protocol_version == 1
        assert editor.introduced.agent_info.name == "punie-runner"

    async def new():
        nonlocal session
        session = await editor.session()
        await editor.until(session.updates, "commands")
        assert [one.name for one in session.updates()[0].available_commands] == ["attach", "status", "revoke"]

    async def prompt():
        assert (await session.prompt("status")).stop_reason == "end_turn"
        await editor.until(lambda: "the backend answers" in session.said(), "status")

    async def unknown():
        from acp import text_block

        agent = editor.agent
        await refused(agent.prompt(session_id="none", prompt=[text_block("status")]), -32002)
        await refused(agent.load_session(session_id="x", cwd="/", mcp_servers=[]), -32002)
        await refused(agent.ext_method("punie/nonsense", {}), -32601)
        await agent.ext_notification("punie/nonsense", {})
        assert (await session.prompt("status")).stop_reason == "end_turn"

    async def end():
        assert await editor.close() == 0

    await cases.check("initialize", initialize)
    await cases.check("session/new", new)
    await cases.check("prompt", prompt)
    await cases.check("an unknown session is -32002, an unknown method and extension -32601", unknown)
    await cases.check("end of input: exit 0", end)


async def files(cases):
    device = await cases.world.device()
    editor = await cases.editor(device)
    session = await (await editor.session()).attach()

    async def unsaved():
        path = device.file("a.txt", "on disk\n")
        editor.buffers[path] = "not saved yet\n"
        answer = await device.send("Read", {"file_path": "a.txt"})
        assert "not saved yet" in result(answer) and "unsaved in snake 1" in result(answer), answer
        call = answer["requestId"]
        await editor.until(lambda: session.statuses(call)[-1:] == ["completed"], "end of the call")
        assert session.statuses(call) == ["pending", "in_progress", "completed"]

    async def missing():
        path = device.file("closed.txt", "only on disk\n")

        async def nothing(_path):
            raise RequestError.resource_not_found(path)

        editor.reads = nothing
        answer = await device.send("Read", {"file_path": path})
        editor.reads = editor.usual_read
        assert "only on disk" in result(answer)
        answer = await device.send("Read", {"file_path": "nowhere.txt"})
        assert answer["meta"]["code"] == "not_found", answer

    async def long():
        path = device.file("long.txt", "short\n")
        lines = [f"line {n} {'é' * 20}" for n in range(6000)]
        editor.buffers[path] = "\n".join(lines) + "\n"
        assert len(editor.buffers[path].encode()) > 300_000
        page = result(await device.send("Read", {"file_path": path, "offset": 5990, "limit": 11}))
        assert [line.split("\t")[1] for line in page.splitlines() if "\tline" in line] == lines[5989:]

    async def write():
        path = device.file("w.txt", "before\n")
        answer = await device.send("Write", {"file_path": path, "content": "after\n"})
        result(answer)
        assert Path(path).read_text() == "after\n"
        assert editor.asked("fs/write_text_file") == [{"session": session.id, "path": path, "content": "after\n"}]

    async def five():
        paths = [device.file(f"five-{n}.txt", "disk\n") for n in range(5)]
        all_asked, count = asyncio.Event(), 0

        async def together(path):
            nonlocal count
            count += 1
            if count == 5:
                all_asked.set()
            await all_asked.wait()
            return f"text of {path}\n"

        editor.reads = together
        answers = await asyncio.gather(*(device.send("Read", {"file_path": path}) for path in paths))
        editor.reads = editor.usual_read
        for path, answer in zip(paths, answers):
            assert f"text of {path}" in result(answer)

    async def two():
        other = await (await editor.session()).attach("attach apart")
        device.file("shared.txt", "x\n")
        asked = (device.send("Read", {"file_path": "shared.txt"}, name) for name in ("apart", "together"))
        first, second = await asyncio.gather(*asked)
        await editor.until(lambda: other.statuses(first["requestId"])[-1:] == ["completed"], "first call")
        await editor.until(lambda: session.statuses(second["requestId"])[-1:] == ["completed"], "second call")
        assert not other.statuses(second["requestId"]) and not session.statuses(first["requestId"])
        assert await other.cancel() == "cancelled"

    await cases.check("read: the unsaved text of the editor", unsaved)
    await cases.check("read: a missing file: the disk's, or an error for the caller", missing)
    await cases.check("read: 300 kB", long)
    await cases.check("read: five at once", five)
    await cases.check("write: through the editor, answered with null", write)
    await cases.check("two sessions at once", two)
    await session.cancel()
    await editor.close()

    async def off():
        bare = await cases.world.device("terminals = true")
        nothing = await cases.editor(bare, serves(files=False))
        turn = await (await nothing.session()).attach()
        path = bare.file("a.txt", "on disk\n")
        assert "on disk" in result(await bare.send("Read", {"file_path": path}))
        result(await bare.send("Write", {"file_path": path, "content": "changed\n"}))
        assert "here" in result(await bare.send("Bash", {"command": "echo here"}))
        await turn.cancel()
        await nothing.close()
        assert {name for name, _ in nothing.seen} == {"session/update", "session/request_permission"}

    async def silent():
        slow = await cases.world.device("timeout_ms = 200")
        never = await cases.editor(slow)
        turn = await (await never.session()).attach()
        slow.file("a.txt", "on disk\n")

        async def nothing(_path):
            await asyncio.Event().wait()

        never.reads = nothing
        answer = await slow.send("Read", {"file_path": "a.txt"})
        assert "on disk" in result(answer) and "snake 1 did not answer within" in json.dumps(answer), answer
        await turn.cancel()
        await never.close()

    async def closed():
        left = await cases.world.device("linger_ms = 60000")
        gone = await cases.editor(left)
        await (await gone.session()).attach()
        left.file("a.txt", "on disk\n")

        async def nothing(_path):
            await asyncio.Event().wait()

        gone.reads = nothing
        sent = asyncio.ensure_future(left.send("Read", {"file_path": "a.txt"}))
        await gone.until(lambda: gone.asked("fs/read_text_file"), "read")
        gone.process.stdin.close()
        assert "on disk" in result(await sent)
        gone.process.terminate()
        assert await gone.close(abruptly=True) == 0

    await cases.check("a flag that is off: no call on the wire", off)
    await cases.check("an editor that never answers: the disk's text, and the answer says so", silent)
    await cases.check("an editor that closes in the middle of a read: the disk's text", closed)


async def permission(cases):
    device = await cases.world.device()
    editor = await cases.editor(device)
    session = await (await editor.session()).attach()

    def touch(name):
        return device.send("Bash", {"command": f"touch {name}"})

    def there(name):
        return (device.workspace / name).exists()

    async def allow():
        result(await touch("allowed"))
        assert there("allowed")

    def refuses(name, person, words):
        async def body():
            editor.person = person
            answer = await touch(name)
            editor.person = choose("allow_once")
            assert answer["outcome"] == "error" and words in answer["error"], answer
            assert not there(name)

        return body

    async def always():
        editor.person = choose("allow_always")
        before = len(editor.asked("session/request_permission"))
        for _ in range(2):
            result(await device.send("Bash", {"command": "ls -a"}))
        editor.person = choose("allow_once")
        assert len(editor.asked("session/request_permission")) == before + 1

    async def late():
        said = asyncio.Event()

        async def slow(options):
            await said.wait()
            return choose("allow_once")(options)

        editor.person = slow
        before = len(editor.asked("session/request_permission"))
        sent = asyncio.ensure_future(touch("late"))
        await editor.until(lambda: len(editor.asked("session/request_permission")) > before, "question")
        assert await session.cancel() == "cancelled"
        assert (await sent)["outcome"] == "error"
        said.set()
        editor.person = choose("allow_once")
        await session.attach()
        result(await touch("after"))
        assert not there("late")

    await cases.check("permission: allow", allow)
    await cases.check("permission: reject", refuses("no", choose("reject_once"), "the person at snake 1 rejected it"))
    await cases.check("permission: cancelled", refuses("no", dismiss, "without an answer"))
    await cases.check("permission: an unknown option", refuses("no", choose("other"), "none of the offered options"))
    await cases.check("permission: always is remembered", always)
    await cases.check("permission: answered after the turn was stopped, nothing runs", late)
    await session.cancel()
    await editor.close()


async def terminals(cases):
    device = await cases.world.device("terminals = true")
    editor = await cases.editor(device, serves(terminal=True))
    session = await (await editor.session()).attach()

    def methods():
        return [name for name, _ in editor.seen if name.startswith("terminal/")]

    async def whole():
        answer = await device.send("Bash", {"command": "echo out; echo err >&2; exit 4"})
        assert answer["meta"]["exitCode"] == 4, answer
        assert "out\\nerr" in json.dumps(answer), answer
        assert methods()[0] == "terminal/create" and methods()[-1] == "terminal/release", methods()
        assert {"terminal/wait_for_exit", "terminal/output"} <= set(methods()) and not editor.terminals

    async def timeout():
        answer = await device.send("Bash", {"command": "echo begun; sleep 600", "timeout": 500})
        assert answer["outcome"] == "error" and "begun" in json.dumps(answer), answer
        assert "terminal/kill" in methods() and methods()[-1] == "terminal/release", methods()
        assert answer["meta"]["signal"] == "SIGKILL", answer

    async def much():
        answer = await device.send("Bash", {"command": "seq 1 400000"})
        assert answer["meta"]["exitCode"] == 0 and "400000" in answer["result"], str(answer)[:500]
        assert editor.asked("terminal/create")[-1]["limit"] > 0

    async def cancel():
        before = methods().count("terminal/wait_for_exit")
        sent = asyncio.ensure_future(device.send("Bash", {"command": "sleep 600; echo never"}))
        await editor.until(lambda: methods().count("terminal/wait_for_exit") > before, "command")
        assert await session.cancel() == "cancelled"
        assert (await sent)["outcome"] == "cancelled"
        await editor.until(lambda: methods()[-1] == "terminal/release", "release")
        assert not editor.terminals

    await cases.check("terminal: create, wait, output, release, exit code 4", whole)
    await cases.check("terminal: a timeout kills and releases, with a signal", timeout)
    await cases.check("terminal: 64 KiB and more with a byte limit", much)
    await cases.check("session/cancel in the middle of a command: cancelled, the terminal released", cancel)
    await editor.close()


async def tools(cases):
    device = await cases.world.device()

    async def missing():
        editor = await cases.editor(device, serves(meta={"punie": {"discoverTools": True}}))
        session = await editor.session()
        await session.prompt("status")
        await editor.until(lambda: "The runner" in session.said(), "status")
        assert "Tier 2" in session.said(), session.said()
        assert len(editor.asked(f"_{DISCOVER}")) == 1
        await editor.close()

    async def bridge():
        editor = Editor(device, cases.record)
        editor.extensions = {DISCOVER: lambda _: CATALOG, "ide_rename": lambda params: {"renamed": params["args"]}}
        await editor.open(serves(meta={"punie": {"discoverTools": True}}))
        session = await (await editor.session()).attach()
        assert "Tier 1" in session.said(), session.said()
        answer = await device.send("ide_rename", {"symbol": "a"})
        assert json.loads(result(answer)) == {"renamed": {"symbol": "a"}}, answer
        assert len(editor.asked("session/request_permission")) == 1
        await session.cancel()
        await editor.close()

    await cases.check("discovery: announced but missing: tier 2", missing)
    await cases.check("discovery: a list: tier 1; bridge: _ide_rename is called after a yes", bridge)


async def main(binary, frames, only=""):
    world = World(binary)
    with open(frames, "w") as file:
        cases = Cases(world, file, only)
        try:
            await world.open()
            # Groups share nothing but the backend.
            await asyncio.gather(*(group(cases) for group in (conversation, files, permission, terminals, tools)))
        finally:
            await world.close()
    print(f"{cases.passed} passed, {cases.failed} failed")
    return cases.failed or (0 if cases.passed else 1)


if __name__ == "__main__":
    # Nothing waits for a peer that hangs.
    code = asyncio.run(main(*sys.argv[1:]))
    sys.stdout.flush()
    os._exit(min(code, 100))
