"""Calls of a device at the embedded backend, by polls and by subscriptions."""

import os
import subprocess
import sys
import unittest

from punie_client.backend import ConvexClient

from .device import Case, Device


@unittest.skipIf(ConvexClient is None, "the package convex is not installed")
class EmbeddedBySubscriptions(Device, Case):
    name, subscribe = "embedded", True

    def test_a_program_may_end_right_after_a_call(self):
        program = 'import punie_client; print(punie_client.connect().call("Bash", {"command": "echo done"}).text)'
        settings = {"PUNIE_BACKEND_URL": self.stage["url"], "PUNIE_CALLER_TOKEN": self.stage["token"]}
        for _ in range(20):
            run = subprocess.run(
                [sys.executable, "-c", program], env={**os.environ, **settings}, capture_output=True, text=True
            )
            self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "done\n", ""))


class EmbeddedByPolls(Device, Case):
    name = "embedded"
