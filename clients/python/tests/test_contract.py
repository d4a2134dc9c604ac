"""The caller's side of the cases in tests/contract, on both backends. clients/cases.mjs plays them."""

import json
import os
import pathlib
import subprocess
import unittest
from concurrent.futures import ThreadPoolExecutor

from punie_client import PunieError
from punie_client.backend import Backend
from punie_client.contract import KINDS

STAGE = json.loads(os.environ["STAGE"])
PLAYER = pathlib.Path(__file__).parents[2] / "cases.mjs"


def answer(call):
    try:
        value = Backend(call["url"], call["token"], subscribe=False).call(call["path"], call["args"])
        return {"id": call["id"], "value": value}
    except PunieError as error:
        return {"id": call["id"], "error": {**error.data, "code": error.code}}


def play(backend):
    """Returns what came of the cases, whose calls run side by side as the player makes them."""
    command = ["node", str(PLAYER), json.dumps({"backend": backend, "kinds": KINDS})]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as player,
        ThreadPoolExecutor(16) as threads,
    ):

        def reply(call):
            player.stdin.write(json.dumps(answer(call)) + "\n")
            player.stdin.flush()

        for line in player.stdout:
            said = json.loads(line)
            if "tally" in said:
                return said["tally"]
            threads.submit(reply, said)
    raise AssertionError("the player has ended early")


class Contract(unittest.TestCase):
    def check(self, backend):
        tally = play(backend)
        print(f"{tally['passed']} cases passed, {tally['leftOut']} left out")
        self.assertEqual(tally["failures"], [])
        self.assertGreater(tally["passed"], 50)

    def test_the_embedded_backend(self):
        self.check(STAGE["backends"]["embedded"])

    def test_the_functions_of_convex(self):
        self.check(None)
