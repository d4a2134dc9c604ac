"""Errors before a call, and the names of tools."""

import http.server
import re
import threading
import unittest

import punie_client
from punie_client.tools import model_names

from .device import STAGE, Case


class Settings(Case):
    def test_an_address_a_token_or_a_device_that_is_missing_is_named(self):
        url = STAGE["backends"]["embedded"]["url"]
        self.fails("BAD_SETTINGS", "PUNIE_BACKEND_URL", punie_client.connect, "ftp://x", "x")
        self.fails("BAD_SETTINGS", "PUNIE_CALLER_TOKEN", punie_client.connect, url)
        self.fails("DEVICE_UNKNOWN", "No device is paired", punie_client.connect, **STAGE["empty"])

    def test_an_address_that_is_no_backends_is_named(self):
        class Other(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.send_error(404)

            def log_message(self, *args):
                pass

        server = http.server.HTTPServer(("127.0.0.1", 0), Other)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        self.fails("BAD_SETTINGS", "is no backend of punie-runner", punie_client.connect, url, "x")
        server.shutdown()
        server.server_close()
        self.fails("UNREACHABLE", "does not answer .*refused", punie_client.connect, url, "x")


class Names(unittest.TestCase):
    def test_names_for_models_have_no_dots_and_stay_different(self):
        aliases = model_names([{"name": name} for name in ("a_b", "a.b", "a/b", "x" * 80)])
        self.assertEqual(len(set(aliases.values())), 4)
        self.assertTrue(all(re.fullmatch("[A-Za-z0-9_-]{1,64}", alias) for alias in aliases.values()))
        self.assertEqual(aliases["a_b"], "a_b")
