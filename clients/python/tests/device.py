"""The tests of calls of a real device, for each place in a file of its own."""

import json
import os
import pathlib
import threading
import time
import unittest
import uuid
from concurrent.futures import ThreadPoolExecutor

import punie_client
from punie_client import PunieError

STAGE = json.loads(os.environ["STAGE"])
THREADS = ThreadPoolExecutor()


class Case(unittest.TestCase):
    def fails(self, code, words, call, *args, **options):
        with self.assertRaises(PunieError) as caught:
            call(*args, **options)
        self.assertEqual(caught.exception.code, code)
        self.assertRegex(str(caught.exception), words)
        return caught.exception


class Device:
    """The tests of one place: a backend, with or without subscriptions."""

    name = ""
    subscribe = False

    @classmethod
    def setUpClass(cls):
        cls.stage = STAGE["backends"][cls.name]
        cls.punie = cls.connect()

    @classmethod
    def connect(cls, **options):
        settings = {"url": cls.stage["url"], "token": cls.stage["token"], "subscribe": cls.subscribe}
        return punie_client.connect(**{**settings, **options})

    def bash(self, command, **options):
        return self.punie.call("Bash", {"command": command}, **options)

    def in_workspace(self, name):
        return pathlib.Path(self.stage["workspace"], name).read_text()

    def ask(self, title, call, *args):
        """Makes a call that is asked about, once this side listens; returns the question and the call."""
        self.punie.questions()
        called = THREADS.submit(call, *args)
        while True:
            for question in self.punie.questions():
                if title in question["title"]:
                    return question, called
            time.sleep(0.05)

    def test_the_tools_come_in_every_format(self):
        def find(format):
            tools = self.punie.tools(format, only=["Read", "Bash"])
            self.assertEqual(len(tools), 2)
            return next(tool for tool in tools if '"Bash"' in json.dumps(tool))

        self.assertEqual(find("anthropic")["input_schema"]["type"], "object")
        self.assertEqual((find("openai")["type"], find("openai")["name"]), ("function", "Bash"))
        self.assertEqual(find("openai-chat")["function"]["parameters"]["type"], "object")
        self.assertEqual(find("gemini")["parametersJsonSchema"]["type"], "object")
        self.assertEqual(find("mcp")["annotations"], {"readOnlyHint": False})
        few, every = self.punie.catalog(), self.punie.catalog(compat=True)
        self.assertTrue(20 < len(few) < len(every))
        self.assertFalse(any(tool.get("compat") for tool in few))
        self.assertRaises(ValueError, self.punie.tools, "yaml")

    def test_a_result_has_its_text_and_its_facts(self):
        result = self.bash("echo one; exit 3")
        self.assertEqual((result.outcome, result.is_error, result.meta["exitCode"]), ("ok", False, 3))
        self.assertIn("one", result.text)
        self.assertEqual(result.content("openai"), result.text)
        self.assertEqual(result.content("gemini"), {"response": {"output": result.text}})
        self.assertEqual(self.punie.result(result.request_id).text, result.text)

    def test_a_failure_of_a_tool_is_a_result_with_a_code(self):
        result = self.punie.call("Read", {"file_path": "nothing"})
        self.assertEqual((result.is_error, result.code), (True, "not_found"))
        self.assertEqual(result.content("gemini"), {"response": {"error": result.text}})
        self.assertTrue(result.content("mcp")["isError"])
        self.assertEqual(self.punie.call("NoSuchTool").code, "unknown_tool")

    def test_an_image_comes_in_the_form_of_each_model(self):
        result = self.punie.call("Read", '{"file_path": "dot.png"}')
        self.assertEqual(result.structured["width"], 4)
        mime_type, data = result.images[0].mime_type, result.images[0].data
        self.assertEqual(mime_type, "image/png")
        self.assertNotIn(data, result.text)
        source = {"type": "base64", "media_type": mime_type, "data": data}
        self.assertEqual(result.content("anthropic")[1]["source"], source)
        self.assertEqual(result.content("openai")[1]["image_url"], f"data:image/png;base64,{data}")
        self.assertIn("left out", result.content("openai-chat"))
        self.assertEqual(result.content("gemini")["parts"], [{"inlineData": {"mimeType": mime_type, "data": data}}])
        block = {"type": "image", "mimeType": mime_type, "data": data}
        self.assertEqual(result.content("mcp")["content"][1], block)
        self.assertEqual(result.content("mcp")["structuredContent"]["width"], 4)

    def test_output_comes_while_a_command_runs(self):
        seen, go_on = [], f"go-{uuid.uuid4()}"

        def receive(text):
            seen.append(text)
            pathlib.Path(self.stage["workspace"], go_on).touch()

        # The command ends only after its output has come.
        result = self.bash(f"echo first; while [ ! -e {go_on} ]; do sleep 0.1; done; echo last", progress=receive)
        self.assertEqual(seen[0], "first\n")
        self.assertEqual(result.text.split(), ["first", "last"])

    def test_an_event_cancels_a_call_on_the_device(self):
        cancel = threading.Event()
        result = self.bash("echo begun; sleep 100", cancel=cancel, progress=lambda _: cancel.set())
        self.assertEqual((result.outcome, result.code), ("cancelled", "cancelled"))
        self.assertIn("begun", result.text)
        self.fails("CANCELLED", "before it was sent", self.bash, "echo", cancel=cancel)
        self.assertEqual(self.punie.cancel(result.request_id), "finished")

    def test_a_deadline_ends_a_call(self):
        result = self.bash("sleep 100", deadline=2)
        self.assertEqual(result.outcome, "error")
        self.assertIn(result.code, ("timeout", "expired"))

    def test_a_question_is_answered_in_words(self):
        title = f"Which colour {uuid.uuid4()}?"
        question = {"question": title, "header": "Colour", "options": [{"label": "Red"}, {"label": "Blue"}]}
        asked, call = self.ask(title, self.punie.call, "AskUserQuestion", {"questions": [question]})
        self.assertTrue(self.punie.answer(asked["permissionId"], "text", "2")["accepted"])
        self.assertIn("-> Blue", call.result().text)

    def test_an_approval_lets_a_command_run(self):
        name = f"approved {uuid.uuid4()}"
        asked, call = self.ask(name, self.bash, f"touch {name}")
        option = next(one["optionId"] for one in asked["options"] if one["kind"] == "allow_once")
        self.assertTrue(self.punie.answer(asked["permissionId"], option)["accepted"])
        self.assertEqual((call.result().outcome, call.result().request_id), ("ok", asked["requestId"]))

    def test_a_socket_that_drops_after_the_commit_gives_one_effect(self):
        word = f"lost-{uuid.uuid4().hex[:8]}"
        behind = self.connect(url=self.stage["cutUrl"])
        result = behind.call("Bash", {"command": f"echo {word} >> {word}"})
        self.assertEqual(result.outcome, "ok")
        self.assertIn(word, pathlib.Path(STAGE["cuts"]).read_text())
        self.assertEqual(self.in_workspace(word), f"{word}\n")

    def test_the_same_id_again_is_the_same_request(self):
        one = str(uuid.uuid4())
        calls = [THREADS.submit(self.bash, f"echo x >> twice-{one}", request_id=one) for _ in range(2)]
        self.assertEqual({call.result().outcome for call in calls}, {"ok"})
        self.assertEqual(self.in_workspace(f"twice-{one}"), "x\n")
        self.fails("REQUEST_ID_REUSED", "make a new id", self.bash, "echo other", request_id=one)

    def test_a_device_that_is_away_is_named_and_gets_nothing_to_do_later(self):
        away = self.connect(device=self.stage["away"])
        error = self.fails("DEVICE_OFFLINE", "Start punie-runner there", away.call, "Bash", {"command": "ls"})
        self.assertEqual(self.punie.cancel(error.request_id), "cancelling")

    def test_settings_that_are_wrong_are_named(self):
        self.fails("CALLER_UNAUTHORIZED", "PUNIE_CALLER_TOKEN", self.connect, token="wrong")
        self.fails("DEVICE_UNKNOWN", "other is not paired.*pair CODE", self.connect, device="other")
