"""A backend, devices that are paired with it, and what was started for them: all of it ends with `close`."""

import asyncio
import json
import os
import shutil
import tempfile
from pathlib import Path

PATIENCE = 60
"""More seconds than anything here takes on a slow machine under load."""


async def within(awaitable, what):
    """This, or an error that says what was waited for."""
    try:
        return await asyncio.wait_for(awaitable, PATIENCE)
    except asyncio.TimeoutError:
        raise AssertionError(f"no {what} within {PATIENCE} s") from None


class World:
    def __init__(self, binary):
        self.binary = binary
        self.folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="punie-acp-")))
        self.programs = []
        self.devices = 0

    async def start(self, *args, **variables):
        environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        pipe = asyncio.subprocess.PIPE
        program = await asyncio.create_subprocess_exec(
            self.binary, *args, cwd="/", env={**environment, **variables}, stdin=pipe, stdout=pipe, stderr=pipe
        )
        self.programs.append(program)
        return program

    async def open(self):
        """Starts the backend."""
        home = str(self.folder / "backend")
        program = await self.start("backend", "--json", "--home", home, "--log", "off")
        self.backend = json.loads(await within(program.stdout.readline(), "backend"))
        words = ("operator", "pairing", "renew", "--uses", "1000", "--minutes", "600", "--json", "--home", home, "--log", "off")
        renewed = await self.start(*words)
        out, err = await within(renewed.communicate(), "pairing code")
        assert renewed.returncode == 0, err
        self.backend["pairingCode"] = json.loads(out)["pairingCode"]
        return self

    async def device(self, *editor):
        """A device with a workspace of its own; `editor` are lines of its configuration."""
        self.devices += 1
        device = Device(self, self.folder / f"device-{self.devices}")
        lines = editor if any(line.startswith("linger_ms") for line in editor) else (*editor, "linger_ms = 0")
        url = f"[backend]\nurl = {json.dumps(self.backend['url'])}\n\n"
        # Nothing confines commands in an editor's terminal.
        sandbox = '[sandbox]\nrequire = "none"\n\n' if "terminals = true" in editor else ""
        (device.home / "config.toml").write_text(url + sandbox + "[editor]\n" + "\n".join(lines) + "\n")
        words = ("pair", self.backend["pairingCode"], "--home", str(device.home), "--log", "off")
        program = await self.start(*words, PUNIE_WORKSPACE=str(device.workspace))
        said = await within(program.communicate(), "pairing")
        assert program.returncode == 0, said
        return device

    async def close(self):
        for program in self.programs:
            if program.returncode is None:
                program.kill()
            await program.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Device:
    def __init__(self, world, folder):
        self.world, self.home, self.workspace = world, folder / "home", folder / "work"
        self.home.mkdir(parents=True)
        self.workspace.mkdir()

    def file(self, name, text):
        """A file on the disk; its path."""
        path = self.workspace / name
        path.write_text(text)
        return str(path)

    async def send(self, tool, args, conversation=None):
        """The caller asks this device for a tool; its answer."""
        words = ["send", tool, "-", "--json", "--wait", "60", "--home", str(self.home), "--log", "off"]
        if conversation:
            words += ["--conversation", conversation]
        program = await self.world.start(*words, PUNIE_CALLER_TOKEN=self.world.backend["callerToken"])
        out, err = await within(program.communicate(json.dumps(args).encode()), f"answer of {tool}")
        assert out.strip(), f"{tool}: {err.decode()}"
        return json.loads(out.decode().strip().splitlines()[-1])
