"""The error of this library. A tool that fails is no such error: its result says so."""

ADVICE = {
    "CALLER_UNAUTHORIZED": "Check the caller's token (PUNIE_CALLER_TOKEN). `punie-runner dev` prints the file that has it;"
    " `punie-runner operator` makes tokens for a hosted backend.",
    "DEVICE_UNKNOWN": "It is not paired with this backend. On that computer: punie-runner pair CODE",
    "DEVICE_UNAUTHORIZED": "Its owner has revoked it. Pair another one: punie-runner pair CODE",
}


class PunieError(Exception):
    """A call that has no result. Decide by `code`; the text says what to do.

    The codes of this library are BAD_ARGUMENTS, BAD_SETTINGS, CANCELLED, DEVICE_AMBIGUOUS, DEVICE_OFFLINE,
    DEVICE_UNKNOWN, REFUSED, TIMEOUT and UNREACHABLE. Others are the backend's, such as REQUEST_ID_REUSED and TOO_LARGE.
    `data` is what the backend says beside the code, such as the `limit` of TOO_LARGE. `request_id` is the request, once
    it is stored: `result(request_id)` waits for it again.
    """

    def __init__(self, code, message, data=None, request_id=None):
        super().__init__(message)
        self.code = code
        self.data = data or {}
        self.request_id = request_id


def refusal(data, text, about):
    """Returns the error for a function that has refused."""
    data = data if isinstance(data, dict) else {}
    code = data.get("code", "REFUSED")
    advice = ADVICE.get(code)
    return PunieError(code, f"{about}: {data.get('message', text)}." + (f" {advice}" if advice else ""), data)
