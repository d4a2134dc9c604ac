"""The Python clients of Convex against a backend: ConvexHttpClient and ConvexClient.

Whoever starts this gives the backend in the environment, and does what lines beginning with @ ask for.
"""

import json
import os
import sys
import uuid

from convex import ConvexClient, ConvexError
from convex.http_client import ConvexHttpClient

URL = os.environ["CONFORMANCE_URL"]
who = json.loads(os.environ["CONFORMANCE_WHO"])
passed = 0


def ask(line):
    print(f"@{line}", flush=True)
    return json.loads(sys.stdin.readline())


def check(body):
    global passed
    body()
    passed += 1
    print(f"ok {body.__name__}", flush=True)


def caller(**args):
    return {"callerToken": who["callerToken"], **args}


def device(**args):
    return {"deviceId": who["deviceId"], "token": who["deviceToken"], **args}


def append(request):
    return caller(requestId=request, deviceId=who["deviceId"], toolName="Read", args="{}")


def finish(client, request):
    client.mutation("events:claim", device(requestId=request, leaseId="lease"))
    client.mutation("events:appendProgress", device(requestId=request, leaseId="lease", n=0, data="half"))
    payload = json.dumps({"result": "é"}, ensure_ascii=False)
    stored = client.mutation(
        "events:appendResult", device(requestId=request, leaseId="lease", outcome="ok", payload=payload)
    )
    assert stored["stored"] is True, stored


def refused(call, code):
    try:
        call()
    except ConvexError as error:
        assert error.data["code"] == code, error.data
        return
    raise AssertionError(f"{code} was expected")


def fails(call, words):
    try:
        call()
    except Exception as error:
        assert words in str(error), error
        return
    raise AssertionError(f"{words} was expected")


def until(subscription, holds):
    for value in subscription:
        if holds(value):
            return value
    raise AssertionError("the subscription has ended")


http = ConvexHttpClient(URL)
client = ConvexClient(URL)


def http_query_and_mutation():
    assert http.query("devices:list", caller())[0]["deviceId"] == who["deviceId"]
    request = str(uuid.uuid4())
    assert http.mutation("events:appendRequest", append(request))["created"] is True
    assert http.mutation("events:appendRequest", append(request))["created"] is False
    refused(lambda: http.query("events:getResult", {"callerToken": "x", "requestId": request}), "CALLER_UNAUTHORIZED")
    fails(lambda: http.query("events:nothing", {}), "Could not find public function")


def http_tokens():
    stranger = ConvexHttpClient(URL)
    stranger.set_auth("opaque")
    fails(lambda: stranger.query("devices:list", caller()), "InvalidAuthHeader")
    stranger.set_admin_auth("punie-dev|0")
    fails(lambda: stranger.query("devices:list", caller()), "BadAdminKey")
    stranger.set_admin_auth(who["adminKey"])
    assert len(stranger.query("devices:list", caller())) == 1


def socket_query_and_mutation():
    assert client.query("devices:list", caller())[0]["deviceId"] == who["deviceId"]
    request = str(uuid.uuid4())
    assert client.mutation("events:appendRequest", append(request)) == {"requestId": request, "created": True}
    refused(lambda: client.mutation("events:cancel", {"callerToken": "x", "requestId": request}), "CALLER_UNAUTHORIZED")
    refused(lambda: client.query("events:getResult", {"callerToken": "x", "requestId": request}), "CALLER_UNAUTHORIZED")
    fails(lambda: client.action("events:nothing", {}), "Could not find public function")
    client.set_admin_auth(who["adminKey"])
    assert len(client.query("devices:list", caller())) == 1


def socket_subscription():
    request = str(uuid.uuid4())
    result = client.subscribe("events:getResult", caller(requestId=request))
    progress = client.subscribe("events:listProgress", caller(requestId=request))
    head = client.subscribe("events:head", device())
    assert until(result, lambda value: True) is None
    first = until(head, lambda value: value is not None)
    client.mutation("events:appendRequest", append(request))
    until(head, lambda value: int(value) > int(first))
    finish(client, request)
    assert until(result, lambda value: value is not None)["payload"] == '{"result": "é"}'
    assert until(progress, len)[0]["data"] == "half"
    for subscription in (result, progress, head):
        subscription.unsubscribe()


def socket_lost_answer():
    request = str(uuid.uuid4())
    calls = ask("calls events:appendRequest")
    ask("drop events:appendRequest")
    # This client begins a new session with every socket: its second call is another one, which finds the first's work.
    assert client.mutation("events:appendRequest", append(request)) == {"requestId": request, "created": False}
    assert ask("calls events:appendRequest") == calls + 2
    found = [one for one in client.query("events:listOpen", device()) if one["requestId"] == request]
    assert len(found) == 1, found


def socket_restart():
    request = str(uuid.uuid4())
    result = client.subscribe("events:getResult", caller(requestId=request))
    assert until(result, lambda value: True) is None
    ask("restart")
    client.mutation("events:appendRequest", append(request))
    finish(client, request)
    until(result, lambda value: value is not None)
    result.unsubscribe()


def socket_long_result():
    body = 'é"' * 150_000
    for page in range(4):
        items = [{"key": f"{page}-{n}", "hash": "h", "body": body} for n in range(3)]
        http.mutation(
            "catalog:upsertMany", device(kind="tool", revision=page, complete=False, items=items)
        )
    wanted = caller(deviceId=who["deviceId"], kind="tool")
    long = client.query("catalog:list", wanted)
    assert len(long) == 12 and long == http.query("catalog:list", wanted)


def socket_wiped_database():
    global who
    who = ask("wipe")
    request = str(uuid.uuid4())
    assert client.mutation("events:appendRequest", append(request))["created"] is True
    finish(client, request)
    assert client.query("events:getResult", caller(requestId=request))["outcome"] == "ok"


for one in (
    http_query_and_mutation,
    http_tokens,
    socket_query_and_mutation,
    socket_subscription,
    socket_lost_answer,
    socket_restart,
    socket_long_result,
):
    check(one)
# The keys of a database go with it, and a client that shows a wrong one is refused.
client.clear_auth()
check(socket_wiped_database)
print(f"@passed {passed}", flush=True)
# The client's own threads would keep the process alive.
os._exit(0)
