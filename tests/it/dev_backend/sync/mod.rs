//! The sync protocol over real sockets: subscriptions, repeated mutations, closed sockets, and clients that break the
//! protocol.

mod client;
mod hostile;

use punie_dev_backend::{DevBackendOptions, FaultInjector, InjectedFault};
use serde_json::{Value, json};
use uuid::Uuid;

use super::server::TestBackend;
use client::{
    NPM, OTHERS, SyncSocket, add_query, format_timestamp, open_socket, parse_timestamp, query_value,
};

fn get_result(server: &TestBackend, request: &str) -> Value {
    json!({ "callerToken": server.caller_token, "requestId": request })
}

fn append_arguments(server: &TestBackend, device: &str, request: &str) -> Value {
    json!({
        "callerToken": server.caller_token, "requestId": request, "deviceId": device, "toolName": "Read", "args": "{}",
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscriber_hears_of_what_changed_and_of_nothing_else() {
    let server = TestBackend::start().await;
    let device = server.pair("dev-1").await;
    let caller = server.caller();
    for request in ["r-1", "r-2"] {
        caller.append(request, &device.id, "{}").await;
        device.claim(request, "lease").await;
    }
    let mut socket = SyncSocket::connected(&server.wire.url).await;
    let head = json!({ "deviceId": device.id, "token": device.token });
    socket
        .modify(json!([
            add_query(0, "events:getResult", get_result(&server, "r-1")),
            add_query(1, "events:getResult", get_result(&server, "r-2")),
            add_query(2, "events:head", head.clone()),
            add_query(
                3,
                "devices:list",
                json!({ "callerToken": server.caller_token })
            ),
        ]))
        .await;
    let first = socket.transition().await;
    assert_eq!(first["endVersion"]["querySet"], 1);
    assert_eq!(query_value(&first, 0), Some(&Value::Null));
    assert_eq!(query_value(&first, 1), Some(&Value::Null));
    let seq = query_value(&first, 2)
        .and_then(Value::as_str)
        .expect("a seq")
        .to_owned();
    assert_eq!(
        query_value(&first, 3)
            .and_then(Value::as_array)
            .map(Vec::len),
        Some(1)
    );

    // A renewed lease and a known request change the result of no subscribed query; a result does.
    device.claim("r-1", "lease").await;
    caller.append("r-1", &device.id, "{}").await;
    device.post("r-1", "lease", "{}").await;
    let told = socket.transition().await;
    assert_eq!(
        told["modifications"].as_array().map(Vec::len),
        Some(1),
        "{told}"
    );
    assert_eq!(query_value(&told, 0).expect("the result")["outcome"], "ok");

    caller.append("r-3", &device.id, "{}").await;
    let told = socket.transition().await;
    let newer = query_value(&told, 2)
        .and_then(Value::as_str)
        .expect("a seq");
    assert!(
        newer.parse::<u64>().expect("digits") > seq.parse::<u64>().expect("digits"),
        "{told}"
    );
    assert_eq!(
        told["modifications"].as_array().map(Vec::len),
        Some(1),
        "{told}"
    );

    // A removed query gets no more changes.
    socket
        .modify(json!([{ "type": "Remove", "queryId": 2 }]))
        .await;
    let removed = socket.transition().await;
    assert_eq!(
        removed["modifications"],
        json!([{ "type": "QueryRemoved", "queryId": 2 }])
    );
    caller.append("r-4", &device.id, "{}").await;
    device.post("r-2", "lease", "{}").await;
    assert!(query_value(&socket.transition().await, 1).is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_that_fails_says_why_and_recovers() {
    let server = TestBackend::start().await;
    let mut socket = SyncSocket::connected(&server.wire.url).await;
    let args = json!({ "deviceId": "dev-1", "token": "none" });
    socket
        .modify(json!([
            add_query(0, "events:head", args),
            add_query(1, "events:nothing", json!({})),
            add_query(2, "events:cancel", json!({})),
            add_query(3, "no path", json!({})),
            add_query(4, "events:getResult", json!({ "odd": 1 })),
        ]))
        .await;
    let told = socket.transition().await;
    let failed = told["modifications"].as_array().expect("modifications");
    assert_eq!(failed.len(), 5);
    for (failure, (data, words)) in failed.iter().zip([
        (json!("DEVICE_UNKNOWN"), "Uncaught ConvexError"),
        (Value::Null, "Could not find public function"),
        (Value::Null, "defined as Mutation"),
        (Value::Null, "not the path of a function"),
        (Value::Null, "ArgumentValidationError"),
    ]) {
        assert_fields!(failure, {"type": "QueryFailed", "/errorData/code": data});
        assert_contains!(failure["errorMessage"].as_str().expect("text"), words);
        assert_fields!(failure, {"logLines": [], "journal": null});
    }
    // A new session may change any query, so the backend runs this one again. It now fails with another error.
    server.pair("dev-1").await;
    let told = socket.transition().await;
    assert_eq!(
        told["modifications"][0]["errorData"]["code"],
        "DEVICE_UNAUTHORIZED"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mutation_is_answered_and_then_seen() {
    let server = TestBackend::start().await;
    let device = server.pair("dev-1").await;
    let mut socket = SyncSocket::connected(&server.wire.url).await;
    socket
        .mutate(
            0,
            "events:appendRequest",
            &append_arguments(&server, &device.id, "r-1"),
        )
        .await;
    let done = socket.expect("MutationResponse").await;
    assert_fields!(done, {
        "requestId": 0,
        "success": true,
        "result": { "requestId": "r-1", "created": true },
    });
    let seen = socket.transition().await;
    assert!(
        parse_timestamp(&seen["endVersion"]["ts"]) >= parse_timestamp(&done["ts"]),
        "{seen}"
    );

    // A refused mutation has no time, but a Transition follows it all the same.
    socket
        .mutate(
            1,
            "events:cancel",
            &json!({ "callerToken": "x", "requestId": "r-1" }),
        )
        .await;
    let refused = socket.expect("MutationResponse").await;
    assert_eq!(refused["success"], false);
    assert_eq!(refused["ts"], Value::Null);
    assert_eq!(refused["errorData"]["code"], "CALLER_UNAUTHORIZED");
    assert_starts_with!(
        refused["result"].as_str().expect("a message"),
        "Uncaught ConvexError"
    );
    socket.transition().await;

    let action =
        json!({ "type": "Action", "requestId": 2, "udfPath": "events:nothing", "args": [{}] });
    socket.say(&action).await;
    let refused = socket.expect("ActionResponse").await;
    assert_fields!(refused, {"requestId": 2, "success": false});

    // Messages that are sent together are answered in order.
    for (id, request) in [(3, "r-2"), (4, "r-3")] {
        socket
            .mutate(
                id,
                "events:appendRequest",
                &append_arguments(&server, &device.id, request),
            )
            .await;
    }
    socket
        .modify(json!([add_query(
            0,
            "events:listOpen",
            json!({ "deviceId": device.id, "token": device.token })
        )]))
        .await;
    for id in [3, 4] {
        assert_eq!(socket.expect("MutationResponse").await["requestId"], id);
        socket.transition().await;
    }
    let open = socket.transition().await;
    assert_eq!(
        query_value(&open, 0)
            .and_then(Value::as_array)
            .map(Vec::len),
        Some(3),
        "{open}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mutation_that_is_sent_again_runs_once_also_after_a_restart() {
    let server = TestBackend::start().await;
    let device = server.pair("dev-1").await;
    let faults = FaultInjector::new();
    faults.plan("events:appendRequest", 1, InjectedFault::Drop);
    let options = DevBackendOptions {
        faults: Some(faults.clone()),
        ..server.options()
    };
    let server = server.restart_with(options).await;
    let session = Uuid::new_v4();
    let args = append_arguments(&server, &device.id, "r-1");

    let mut socket = SyncSocket::of_session(&server.wire.url, NPM, session).await;
    socket.mutate(7, "events:appendRequest", &args).await;
    assert_eq!(
        socket.hear().await,
        None,
        "the socket is cut after the commit"
    );

    let mut socket = SyncSocket::of_session(&server.wire.url, NPM, session).await;
    socket.mutate(7, "events:appendRequest", &args).await;
    let first = socket.expect("MutationResponse").await;
    assert_eq!(
        first["result"]["created"], true,
        "the answer is that of the only run: {first}"
    );
    assert!(
        parse_timestamp(&socket.transition().await["endVersion"]["ts"])
            >= parse_timestamp(&first["ts"])
    );
    assert_eq!(faults.calls("events:appendRequest"), 2);

    let server = server.restart().await;
    assert_eq!(socket.hear().await, None);
    let mut socket = SyncSocket::of_session(&server.wire.url, NPM, session).await;
    socket.mutate(7, "events:appendRequest", &args).await;
    assert_eq!(socket.expect("MutationResponse").await, first);
    socket.transition().await;

    // In another session this number is another call; in this session the number is taken.
    let mut other = SyncSocket::connected(&server.wire.url).await;
    other.mutate(7, "events:appendRequest", &args).await;
    assert_eq!(
        other.expect("MutationResponse").await["result"]["created"],
        false
    );
    socket
        .mutate(
            7,
            "events:appendRequest",
            &append_arguments(&server, &device.id, "r-2"),
        )
        .await;
    let refused = socket.expect("MutationResponse").await;
    assert_contains!(
        refused["result"].as_str().expect("a message"),
        "for another mutation"
    );
    assert_eq!(
        server.caller().append("r-2", &device.id, "{}").await["created"],
        true
    );

    // After 14 days the stored answer is gone, so the mutation runs again.
    server.clock.advance(15.0 * 24.0 * 3_600_000.0);
    let mut socket = SyncSocket::of_session(&server.wire.url, NPM, session).await;
    socket.mutate(7, "events:appendRequest", &args).await;
    assert_eq!(
        socket.expect("MutationResponse").await["result"]["created"],
        false
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn planned_faults_end_a_socket_before_the_mutation_runs() {
    let server = TestBackend::start().await;
    let device = server.pair("dev-1").await;
    let faults = FaultInjector::parse_script(
        "events:appendRequest x1 unheard ; events:appendRequest x1 status 503 code=CommitterFullError",
    )
    .expect("a script");
    let options = DevBackendOptions {
        faults: Some(faults.clone()),
        ..server.options()
    };
    let server = server.restart_with(options).await;
    let args = append_arguments(&server, &device.id, "r-1");
    for reason in ["", "CommitterFullError: a fault on purpose"] {
        let mut socket = SyncSocket::connected(&server.wire.url).await;
        socket.mutate(0, "events:appendRequest", &args).await;
        assert_eq!(socket.closed().await, reason);
    }
    let mut socket = SyncSocket::connected(&server.wire.url).await;
    socket.mutate(0, "events:appendRequest", &args).await;
    assert_eq!(
        socket.expect("MutationResponse").await["result"]["created"],
        true
    );
    faults.plan(NPM, 1, InjectedFault::Drop);
    faults.plan(NPM, 1, InjectedFault::Html);
    assert!(
        open_socket(&server.wire.url, NPM, &[]).await.is_ok(),
        "a socket has no answer that could be lost"
    );
    assert!(open_socket(&server.wire.url, NPM, &[]).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connect_moves_the_commit_clock_to_the_present_at_most() {
    let server = TestBackend::start().await;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a time of this century"
    )]
    let now = (server.clock.now_ms() * 1e6) as u64;
    let hour = 3_600_000_000_000;
    let connect = |observed: u64| {
        json!({
            "type": "Connect", "sessionId": Uuid::new_v4(), "connectionCount": 1, "lastCloseReason": "x",
            "maxObservedTimestamp": format_timestamp(observed), "clientTs": server.clock.now_ms() - 500.0,
        })
    };
    let list = json!({ "callerToken": server.caller_token });
    // Times that a client saw of a deleted database are not used again.
    let mut socket = SyncSocket::open(&server.wire.url, NPM).await;
    socket.say(&connect(now - hour)).await;
    let told = socket.subscribe(0, "devices:list", list.clone()).await;
    assert!(
        parse_timestamp(&told["endVersion"]["ts"]) >= now - hour,
        "{told}"
    );
    assert_eq!(told["clientClockSkew"], 500);
    // A client needs no token to claim a time in the future. It is served, and the commit clock does not move there.
    for beyond in [now + hour, now + 25 * hour, u64::MAX] {
        let mut socket = SyncSocket::open(&server.wire.url, NPM).await;
        socket.say(&connect(beyond)).await;
        let told = socket.subscribe(0, "devices:list", list.clone()).await;
        assert_eq!(parse_timestamp(&told["endVersion"]["ts"]), now, "{told}");
    }
    let device = server.pair("dev-1").await;
    assert!(parse_timestamp(&socket.transition().await["endVersion"]["ts"]) > now);
    server.caller().append("r-1", &device.id, "{}").await;
    assert_eq!(
        device.poll(Value::Null, 0).await["events"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_checked_and_a_refused_one_ends_the_socket() {
    let server = TestBackend::start().await;
    let mut socket = SyncSocket::connected(&server.wire.url).await;
    let authenticate = |base: u32, kind: &str, value: &str| json!({ "type": "Authenticate", "baseVersion": base, "tokenType": kind, "value": value });
    socket
        .say(&authenticate(0, "Admin", server.backend.admin_key()))
        .await;
    assert_eq!(socket.transition().await["endVersion"]["identity"], 1);
    socket
        .say(&json!({ "type": "Authenticate", "baseVersion": 1, "tokenType": "None" }))
        .await;
    assert_eq!(socket.transition().await["endVersion"]["identity"], 2);
    socket.say(&authenticate(2, "User", "e30.e30.e30")).await;
    let refused = socket.expect("AuthError").await;
    assert_fields!(refused, {"baseVersion": 2, "authUpdateAttempted": true});
    assert_starts_with!(socket.closed().await, "NoAuthProvider");

    let mut socket = SyncSocket::connected(&server.wire.url).await;
    socket
        .say(&authenticate(0, "Admin", "punie-dev|0000"))
        .await;
    assert_starts_with!(
        socket.expect("AuthError").await["error"]
            .as_str()
            .expect("text"),
        "BadAdminKey"
    );
    assert_starts_with!(socket.closed().await, "BadAdminKey");
}

/// Fills the catalog of one kind with nearly 6 MiB of multi-byte characters.
async fn fill_catalog(server: &TestBackend, device: &super::server::DeviceClient, kind: &str) {
    let body = "é\"".repeat(150_000);
    for page in 0..4 {
        let items: Vec<_> = (0..3)
            .map(|n| json!({ "key": format!("{page}-{n}"), "hash": "h", "body": body }))
            .collect();
        let args = json!({
            "deviceId": device.id, "token": device.token, "kind": kind, "revision": page, "complete": false, "items": items,
        });
        server
            .wire
            .value("mutation", "catalog:upsertMany", &args)
            .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_transition_comes_in_parts_to_those_who_join_them() {
    let server = TestBackend::start().await;
    let device = server.pair("dev-1").await;
    fill_catalog(&server, &device, "tool").await;
    let list = json!({ "callerToken": server.caller_token, "deviceId": device.id, "kind": "tool" });

    let mut whole = SyncSocket::of_session(&server.wire.url, OTHERS, Uuid::new_v4()).await;
    let told = whole.subscribe(0, "catalog:list", list.clone()).await;
    assert_eq!(
        query_value(&told, 0)
            .and_then(Value::as_array)
            .map(Vec::len),
        Some(12)
    );

    let mut parts = SyncSocket::of_session(&server.wire.url, NPM, Uuid::new_v4()).await;
    parts
        .modify(json!([add_query(0, "catalog:list", list)]))
        .await;
    let mut text = String::new();
    let mut id = Value::Null;
    for number in 0_u64.. {
        let chunk = parts.expect("TransitionChunk").await;
        assert_eq!(chunk["partNumber"], number);
        assert!(
            id.is_null() || id == chunk["transitionId"],
            "one Transition, one id"
        );
        id = chunk["transitionId"].clone();
        text.push_str(chunk["chunk"].as_str().expect("text"));
        if number + 1 == chunk["totalParts"].as_u64().expect("a number") {
            assert!(number > 0, "more than one part");
            break;
        }
    }
    let joined: Value = serde_json::from_str(&text).expect("the parts are one message");
    assert_eq!(query_value(&joined, 0), query_value(&told, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_closes_every_socket_and_the_clients_may_come_again() {
    let server = TestBackend::start().await;
    let mut sockets = Vec::new();
    for _ in 0..3 {
        let mut socket = SyncSocket::connected(&server.wire.url).await;
        socket
            .subscribe(
                0,
                "devices:list",
                json!({ "callerToken": server.caller_token }),
            )
            .await;
        sockets.push(socket);
    }
    let stopped = server.restart();
    let (server, reasons) = tokio::join!(stopped, async {
        let mut reasons = Vec::new();
        for socket in &mut sockets {
            reasons.push(socket.closed().await);
        }
        reasons
    });
    assert!(
        reasons
            .iter()
            .all(|reason| reason.starts_with("InternalServerError")),
        "{reasons:?}"
    );
    let mut socket = SyncSocket::connected(&server.wire.url).await;
    socket
        .subscribe(
            0,
            "devices:list",
            json!({ "callerToken": server.caller_token }),
        )
        .await;
}
