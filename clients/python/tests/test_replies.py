"""Calls of a backend that answers wrongly or not at all: a server of the test's own."""

import http.server
import json
import threading

from punie_client.backend import Backend
from punie_client.client import Punie
from punie_client.result import ToolResult

from .device import Case

RESULT = {"requestId": "one", "outcome": "ok", "payload": '{"result": "done"}'}


class Replies(Case):
    def serve(self, answer, date=None):
        """Starts a server that answers with the value of this function of a call's path; returns a device there.

        Bytes are the whole reply; for None the connection is dropped. `self.sent` has the paths.
        """
        sent = self.sent = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                path = json.loads(self.rfile.read(int(self.headers["content-length"])))["path"]
                sent.append(path)
                value = answer(path)
                if value is None:
                    return
                body = value if isinstance(value, bytes) else json.dumps({"status": "success", "value": value}).encode()
                self.send_response_only(200)
                if date is not None:
                    self.send_header("date", date)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return Punie(Backend(f"http://127.0.0.1:{server.server_port}", "token", subscribe=False), "device")

    def test_an_option_that_is_misspelt_sends_nothing(self):
        device = self.serve(lambda path: {"created": True})
        with self.assertRaises(TypeError):
            device.call("Bash", {"command": "ls"}, cancle=threading.Event())
        self.assertEqual(self.sent, [])

    def test_a_reply_that_is_no_object_is_no_backends(self):
        for text in (b"[]", b"null", b"1"):
            device = self.serve(lambda path: text)
            self.fails("BAD_SETTINGS", "is no backend of punie-runner", device.cancel, "one")

    def test_a_date_that_cannot_be_read_does_no_harm(self):
        for date in ("garbage", "Sun, 99 Nov 2026 99:99:99 GMT"):
            device = self.serve(lambda path: {"state": "finished"}, date)
            self.assertEqual(device.cancel("one"), "finished")

    def test_arguments_that_json_does_not_have_send_nothing(self):
        device = self.serve(lambda path: {"created": True})
        for value in (float("nan"), float("inf"), {1}):
            self.fails("BAD_ARGUMENTS", "JSON", device.call, "Bash", {"command": value})
        self.fails("BAD_ARGUMENTS", "JSON", device.call, "Bash", {}, deadline=float("nan"))
        self.assertEqual(self.sent, [])

    def test_a_cancel_ends_a_call_that_has_no_answer(self):
        cancel = threading.Event()
        device = self.serve(lambda path: cancel.set())
        error = self.fails("CANCELLED", "may have run", device.call, "Bash", request_id="one", cancel=cancel)
        self.assertEqual(error.request_id, "one")
        self.assertEqual(self.sent, ["events:appendRequest", "events:cancel"])

    def test_a_cancel_reaches_a_backend_that_fails_for_a_while(self):
        cancel = threading.Event()

        def answer(path):
            if path == "events:cancel":
                return {"state": "cancelling"}
            return {**RESULT, "outcome": "cancelled"} if "events:cancel" in self.sent else cancel.set()

        self.assertEqual(self.serve(answer).result("one", cancel=cancel).outcome, "cancelled")

    def test_output_that_cannot_be_had_after_the_result_does_not_lose_it(self):
        device = self.serve(lambda path: RESULT if path == "events:getResult" else None)
        self.assertEqual(device.result("one", progress=print).text, "done")


class Results(Case):
    def test_an_answer_of_null_is_an_empty_text(self):
        result = ToolResult({"requestId": "one", "outcome": "ok", "payload": '{"result": null}'})
        self.assertEqual((result.text, result.structured), ("", None))
        self.assertEqual(result.content("anthropic"), [])

    def test_a_warning_that_the_text_does_not_have_is_told_beside_it_once(self):
        payload = json.dumps({"result": "done.\nsaid", "meta": {"warnings": ["said", "the encoding is guessed"]}})
        result = ToolResult({"requestId": "one", "outcome": "ok", "payload": payload})
        note = "Note: the encoding is guessed"
        self.assertEqual((result.text, result.notes), ("done.\nsaid", note))
        for content in (result.content("anthropic"), result.content("mcp")["content"]):
            self.assertEqual([block["text"] for block in content], [result.text, note])
        for format in ("openai", "openai-chat"):
            self.assertEqual(result.content(format), f"{result.text}\n{note}")
        self.assertEqual(result.content("gemini"), {"response": {"output": f"{result.text}\n{note}"}})
