"""Calls of the backend's functions: over HTTP, and by subscriptions where the package `convex` is installed."""

import asyncio
import atexit
import base64
import email.utils
import http.client
import json
import os
import queue
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import weakref

from .contract import KINDS
from .error import PunieError, refusal

try:
    from convex import ConvexClient, ConvexError
except ImportError:
    ConvexClient = None

# The time within which calls are repeated while the backend does not answer.
PATIENCE = 30.0
ATTEMPT = 30.0
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
# The pause between polls while a subscription is there: the poll finds what a broken socket hides.
SUBSCRIBED_PAUSE = 30.0
# The time that the threads of Convex's client have at the end of the process.
EXIT_WAIT = 2.0
# The precision of the time in a reply's header: clocks that differ by little more are the same.
DATE_STEP = 1.0


def encode_json(value):
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise PunieError("BAD_ARGUMENTS", f"The arguments are no JSON: {error}.") from error


class Backend:
    """A backend and the caller's token for it."""

    def __init__(self, url, token, subscribe=True):
        self.url = url.rstrip("/")
        self._token = token
        self._subscribe = subscribe and ConvexClient is not None
        self._subscriptions = None
        self._offset = 0.0
        self._lock = threading.Lock()

    def now(self):
        """Returns the time by the backend's clock, in seconds since 1970."""
        return time.time() + self._offset

    def call(self, path, args, patience=PATIENCE, cancel=None):
        """Calls a function. A call without an answer is repeated, until the event `cancel` is set.

        Every function counts once, however often it is called with the same arguments.
        """
        cancel = cancel or threading.Event()
        body = encode_json({"path": path, "format": "json", "args": {**args, "callerToken": self._token}})
        until, pause = time.monotonic() + patience, FIRST_PAUSE
        while True:
            try:
                return self._post(f"{self.url}/api/{KINDS[path]}", body.encode(), path)
            except PunieError as error:
                if error.code != "UNREACHABLE" or time.monotonic() + pause > until or cancel.wait(pause):
                    raise
            pause = min(2 * pause, LONGEST_PAUSE)

    def _post(self, address, body, path):
        request = urllib.request.Request(address, body, {"content-type": "application/json"})
        try:
            try:
                reply = urllib.request.urlopen(request, timeout=ATTEMPT)
            except urllib.error.HTTPError as error:
                reply = error
            with reply:
                status, date, text = reply.status, reply.headers.get("date"), reply.read().decode()
        except (OSError, http.client.HTTPException, UnicodeDecodeError) as error:
            raise self._unreachable(getattr(error, "reason", error)) from error
        self._set_clock(date)
        busy = status == 429 or status >= 500
        try:
            reply = json.loads(text)
        except ValueError:
            reply = None
        if not isinstance(reply, dict):
            if busy:
                raise self._unreachable(f"HTTP {status}")
            reason = f"{self.url} is no backend of punie-runner (HTTP {status}). Check PUNIE_BACKEND_URL."
            raise PunieError("BAD_SETTINGS", reason)
        if reply.get("status") == "success":
            return reply["value"]
        if reply.get("status") == "error":
            raise refusal(reply.get("errorData"), reply.get("errorMessage", text), path)
        if busy:
            raise self._unreachable(f"HTTP {status}")
        raise refusal(None, reply.get("message", text), path)

    def _set_clock(self, date):
        try:
            offset = email.utils.parsedate_to_datetime(date).timestamp() + DATE_STEP / 2 - time.time()
        except (TypeError, ValueError, OverflowError):
            # A proxy may leave the date out, or write it in a form of its own.
            return
        self._offset = offset if abs(offset) > 2 * DATE_STEP else 0.0

    def _unreachable(self, cause):
        advice = "Check PUNIE_BACKEND_URL, and that the backend runs; to start one here: punie-runner dev --port 3210"
        return PunieError("UNREACHABLE", f"The backend at {self.url} does not answer ({cause}). {advice}")

    def watch(self, path, args, cancel=None):
        """Returns the values of a query as they change. The event `cancel` ends the repeats of a poll."""
        with self._lock:
            if self._subscribe and self._subscriptions is None:
                self._subscribe = _has_socket(self.url)
                self._subscriptions = Subscriptions(self.url) if self._subscribe else None
        return Watch(self, self._subscriptions, path, {**args, "callerToken": self._token}, args, cancel)


def _has_socket(url):
    """Returns true if a WebSocket can be opened: without one, the client of Convex would hold up all threads."""
    parts = urllib.parse.urlsplit(url)
    is_plain = parts.scheme == "http"
    connection = (http.client.HTTPConnection if is_plain else http.client.HTTPSConnection)(parts.netloc, timeout=10)
    key = base64.b64encode(os.urandom(16)).decode()
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key}
    try:
        connection.request("GET", f"{parts.path}/api/1.0.0/sync", headers=headers)
        return connection.getresponse().status == 101
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


class _Loop(asyncio.SelectorEventLoop):
    """A loop that knows which of its futures somebody still holds."""

    def __init__(self):
        super().__init__()
        self.futures = weakref.WeakSet()

    def create_future(self):
        future = super().create_future()
        self.futures.add(future)
        return future


class Subscriptions:
    """The subscriptions of one WebSocket, which a thread waits for."""

    def __init__(self, url):
        self._client = ConvexClient(url)
        self._loop = _Loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="punie-subscriptions", daemon=True)
        self._thread.start()
        atexit.register(self._close)

    def start(self, watch, path, args):
        """Begins to follow a query; returns what ends it when it is cancelled."""
        return asyncio.run_coroutine_threadsafe(self._follow(watch, path, args), self._loop)

    async def _follow(self, watch, path, args):
        subscription = self._client.subscribe(path, args)
        try:
            async for value in subscription:
                watch.news.put((value, None))
        except ConvexError as error:
            watch.news.put((None, refusal(error.data, str(error), path)))
        except Exception:
            # The polls of the watch go on.
            pass
        finally:
            # Not that of `subscription`: for a wait that was cancelled it would subscribe anew.
            subscription.inner.unsubscribe()

    def _close(self):
        """Waits until the threads of Convex's client are done with Python: one that comes later ends the process."""
        for task in asyncio.all_tasks(self._loop):
            self._loop.call_soon_threadsafe(task.cancel)
        until = time.monotonic() + EXIT_WAIT
        while (asyncio.all_tasks(self._loop) or self._loop.futures) and time.monotonic() < until:
            time.sleep(0.001)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


class Watch:
    """The values of a query: from a subscription where there is one, else by polls that back off."""

    def __init__(self, backend, subscriptions, path, full_args, args, cancel):
        self._backend, self._path, self._args, self._cancel = backend, path, args, cancel
        self.news = queue.Queue()
        self._pause = LONGEST_PAUSE if subscriptions else FIRST_PAUSE
        self._poll_at = time.monotonic() + self._pause
        self._following = subscriptions.start(self, path, full_args) if subscriptions else None

    def next(self, seconds):
        """Returns (True, value) if there is a value within this time, else (False, None)."""
        until = time.monotonic() + seconds
        while True:
            left = max(0.0, min(until, self._poll_at) - time.monotonic())
            try:
                value, error = self.news.get(timeout=left) if left > 0 else self.news.get_nowait()
            except queue.Empty:
                pass
            else:
                if error is not None:
                    raise error
                self._pause = SUBSCRIBED_PAUSE
                self._poll_at = time.monotonic() + self._pause
                return True, value
            if time.monotonic() >= self._poll_at:
                value = self._backend.call(self._path, self._args, cancel=self._cancel)
                if self._following is None:
                    self._pause = min(1.5 * self._pause, LONGEST_PAUSE)
                self._poll_at = time.monotonic() + self._pause
                return True, value
            if time.monotonic() >= until:
                return False, None

    def close(self):
        if self._following:
            self._following.cancel()
