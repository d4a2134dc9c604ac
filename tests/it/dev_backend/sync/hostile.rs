//! Clients that break the protocol, ask for too much, or do not read.

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Error, Message};
use uuid::Uuid;

use super::super::server::TestBackend;
use super::client::{NPM, OTHERS, SyncSocket, add_query, open_socket, query_value};
use super::{fill_catalog, get_result};
use crate::harness::stepped_time::SteppedTime;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_breaks_the_protocol_ends_the_socket_with_the_reason() {
    let server = TestBackend::start().await;
    let connect = json!({ "type": "Connect", "sessionId": Uuid::new_v4(), "connectionCount": 0, "clientTs": 0 });
    let modify = |base: u32, new: u32, changes: Value| json!({ "type": "ModifyQuerySet", "baseVersion": base, "newVersion": new, "modifications": changes });
    let many: Vec<_> = (0..5000)
        .map(|id| json!({ "type": "Remove", "queryId": id }))
        .collect();
    let query = add_query(0, "events:nothing", json!({}));
    let cases = cases! {
        (vec![modify(0, 1, json!([]))], "first message must be Connect"),
        (vec![connect.clone(), connect.clone()], "connected once"),
        (vec![connect.clone(), json!({ "type": "Explode" })], "\"Explode\" is unknown"),
        (vec![connect.clone(), json!([1])], "cannot be understood"),
        (vec![connect.clone(), modify(1, 2, json!([]))], "the query set is at version 0"),
        (vec![connect.clone(), modify(0, 0, json!([]))], "the query set is at version 0"),
        (vec![connect.clone(), modify(0, 1, json!([query, query]))], "held already"),
        (vec![connect.clone(), modify(0, 1, json!(many))], "at most 4096"),
        (
            vec![
                connect.clone(),
                json!({ "type": "Authenticate", "baseVersion": 3, "tokenType": "None" }),
            ],
            "the identity is at version 0",
        ),
        (vec![json!({ "type": "Connect", "sessionId": "me" })], "cannot be understood"),
    };
    for (messages, words) in cases {
        let mut socket = SyncSocket::open(&server.wire.url, NPM).await;
        for message in &messages {
            socket.say(message).await;
        }
        let fatal = socket.expect("FatalError").await;
        assert_contains!(fatal["error"].as_str().expect("text"), words);
        assert_eq!(socket.hear().await, None);
    }
    let mut socket = SyncSocket::open(&server.wire.url, NPM).await;
    socket.send(Message::binary(vec![0; 8])).await;
    socket.expect("FatalError").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_too_many_is_refused_and_the_others_stay() {
    let server = TestBackend::start().await;
    let device = server.pair("dev-1").await;
    let mut socket = SyncSocket::connected(&server.wire.url).await;
    let queries: Vec<_> = (0..1026)
        .map(|id| {
            add_query(
                id,
                "events:getResult",
                get_result(&server, &format!("r-{id}")),
            )
        })
        .collect();
    socket.modify(json!(queries)).await;
    let told = socket.transition().await;
    let changes = told["modifications"].as_array().expect("modifications");
    let refused: Vec<_> = changes
        .iter()
        .filter(|change| change["type"] == "QueryFailed")
        .collect();
    assert_eq!((changes.len(), refused.len()), (1026, 2));
    assert_contains!(
        refused[0]["errorMessage"].as_str().expect("text"),
        "1024 queries"
    );
    // Removing a query makes room for another, and removing one that was refused is no error.
    socket
        .modify(json!([{ "type": "Remove", "queryId": 7 }, { "type": "Remove", "queryId": 1025 }]))
        .await;
    assert_eq!(
        socket.transition().await["modifications"]
            .as_array()
            .map(Vec::len),
        Some(2)
    );
    let told = socket
        .subscribe(1024, "events:getResult", get_result(&server, "r-1024"))
        .await;
    assert_eq!(query_value(&told, 1024), Some(&Value::Null));

    server.caller().append("r-3", &device.id, "{}").await;
    device.claim("r-3", "lease").await;
    device.post("r-3", "lease", "{}").await;
    assert_eq!(
        query_value(&socket.transition().await, 3).expect("the result")["outcome"],
        "ok"
    );

    // The bytes of the arguments are limited as well.
    let mut socket = SyncSocket::connected(&server.wire.url).await;
    let long = "x".repeat(9 * 1024 * 1024);
    for (id, held) in [(0, true), (1, false)] {
        let told = socket
            .subscribe(
                id,
                "events:getResult",
                json!({ "callerToken": long, "requestId": "r" }),
            )
            .await;
        assert_eq!(
            told["modifications"][0]["errorData"]["code"] == "CALLER_UNAUTHORIZED",
            held,
            "{id}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_has_a_limit() {
    let server = TestBackend::start().await;
    let mut socket = SyncSocket::connected(&server.wire.url).await;
    let args = |bytes: usize| json!({ "callerToken": "x".repeat(bytes), "requestId": "none" });
    socket.mutate(0, "events:cancel", &args(15 << 20)).await;
    assert_eq!(
        socket.expect("MutationResponse").await["errorData"]["code"],
        "CALLER_UNAUTHORIZED"
    );
    socket.transition().await;
    let long = json!({ "type": "Mutation", "requestId": 1, "udfPath": "events:cancel", "args": [args(17 << 20)] });
    // The server may close the socket before the whole message is sent.
    drop(socket.try_send(Message::text(long.to_string())).await);
    assert_eq!(socket.hear().await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `.ci/run` runs it"]
async fn one_that_does_not_listen_holds_up_nobody_else() {
    let server = TestBackend::start().await;
    let device = server.pair("dev-1").await;
    for kind in ["tool", "skill"] {
        fill_catalog(&server, &device, kind).await;
    }
    let list = |kind: &str| json!({ "callerToken": server.caller_token, "deviceId": device.id, "kind": kind });
    let mut deaf = Vec::new();
    for _ in 0..2 {
        let mut socket = SyncSocket::connected(&server.wire.url).await;
        // Some 70 MiB, more than the buffers of the system hold.
        let queries: Vec<_> = (0..12)
            .map(|id| {
                add_query(
                    id,
                    "catalog:list",
                    list(if id % 2 == 0 { "tool" } else { "skill" }),
                )
            })
            .collect();
        socket.modify(json!(queries)).await;
        deaf.push(socket);
    }
    let mut socket = SyncSocket::connected(&server.wire.url).await;
    socket
        .subscribe(0, "events:getResult", get_result(&server, "r-1"))
        .await;
    server.caller().append("r-1", &device.id, "{}").await;
    device.claim("r-1", "lease").await;
    device.post("r-1", "lease", "{}").await;
    assert_eq!(
        query_value(&socket.transition().await, 0).expect("the result")["outcome"],
        "ok"
    );

    // A client that reads late gets everything, part by part.
    let mut late = deaf.pop().expect("a client that did not read");
    let mut seen = std::collections::BTreeSet::new();
    let mut text = String::new();
    while seen.len() < 12 {
        let frame: Value =
            serde_json::from_str(&late.frame().await.expect("a message")).expect("JSON");
        if frame["type"] == "Ping" {
            continue;
        }
        text.push_str(
            frame["chunk"]
                .as_str()
                .expect("each is long enough to come in parts"),
        );
        if frame["partNumber"].as_u64().map(|n| n + 1) == frame["totalParts"].as_u64() {
            let whole: Value =
                serde_json::from_str(&std::mem::take(&mut text)).expect("a Transition");
            for change in whole["modifications"].as_array().expect("modifications") {
                assert_eq!(change["value"].as_array().map(Vec::len), Some(12));
                seen.insert(change["queryId"].as_u64());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_other_hosts_get_no_socket() {
    let server = TestBackend::start().await;
    let status = async |headers: &[(&'static str, &str)]| match open_socket(
        &server.wire.url,
        OTHERS,
        headers,
    )
    .await
    {
        Ok(_) => 101,
        Err(Error::Http(answer)) => answer.status().as_u16(),
        Err(other) => panic!("{other}"),
    };
    assert_eq!(status(&[]).await, 101);
    assert_eq!(status(&[("origin", "http://localhost:5173")]).await, 101);
    assert_eq!(status(&[("convex-client", "python-0.8.1")]).await, 101);
    assert_eq!(status(&[("origin", "http://example.com")]).await, 403);
    assert_eq!(status(&[("origin", "null")]).await, 403);
    assert_eq!(status(&[("host", "rebound.example.com")]).await, 421);
    assert_eq!(status(&[("convex-client", "odd")]).await, 400);
}

#[tokio::test]
async fn silence_is_broken_by_pings_and_a_silent_client_is_let_go() {
    let mut time = SteppedTime::stop();
    let server = TestBackend::start().await;
    let mut socket = SyncSocket::open(&server.wire.url, NPM).await;
    let second = std::time::Duration::from_secs(1);
    // A client that reads also answers WebSocket pings, and needs to send nothing else.
    for _ in 0..12 {
        time.run(second, socket.expect("Ping")).await;
    }
    // From here on the client does not read.
    time.pass(150 * second, second).await;
    for _ in 0..20 {
        if socket.hear().await.is_none() {
            return;
        }
    }
    panic!("the socket is still open");
}
