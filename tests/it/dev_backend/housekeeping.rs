//! The housekeeping of the embedded backend: it answers expired requests and deletes old data.

use serde_json::{Value, json};

use super::server::TestBackend;

const MINUTE: f64 = 60_000.0;
const DAY: f64 = 1_440.0 * MINUTE;

async fn call_value(server: &TestBackend, kind: &str, path: &str, args: Value) -> Value {
    server.wire.value(kind, path, &args).await
}

async fn append_request(server: &TestBackend, id: &str, deadline_ms: Option<f64>) {
    let mut args = json!({
        "callerToken": server.caller_token, "requestId": id, "deviceId": "dev-1", "toolName": "Bash", "args": "{}",
    });
    if let Some(deadline) = deadline_ms {
        args["deadlineMs"] = json!(deadline);
    }
    call_value(server, "mutation", "events:appendRequest", args).await;
}

async fn get_result(server: &TestBackend, id: &str) -> Value {
    let args = json!({ "callerToken": server.caller_token, "requestId": id });
    call_value(server, "query", "events:getResult", args).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_whose_time_is_up_is_answered_unless_a_device_works_on_it() {
    let server = TestBackend::start().await;
    let token = server.pair("dev-1").await.token;
    let now = server.clock.now_ms();
    append_request(&server, "late", Some(now + MINUTE)).await;
    append_request(&server, "claimed", Some(now + MINUTE)).await;
    append_request(&server, "in-time", Some(now + DAY)).await;
    append_request(&server, "patient", None).await;
    let claim = json!({ "deviceId": "dev-1", "token": token, "requestId": "claimed", "leaseId": "l", "leaseMs": 10.0 * MINUTE });
    call_value(&server, "mutation", "events:claim", claim).await;

    server.clock.advance(1.5 * MINUTE);
    assert_eq!(
        server.backend.housekeep().await.expect("done"),
        0,
        "a connected device may still answer"
    );
    server.clock.advance(MINUTE);
    assert_eq!(server.backend.housekeep().await.expect("done"), 1);
    let late = get_result(&server, "late").await;
    let payload: Value =
        serde_json::from_str(late["payload"].as_str().expect("a payload")).expect("JSON");
    assert_eq!(late["outcome"], "error");
    assert_eq!(payload["meta"]["code"], "expired");
    assert_contains!(payload["error"].as_str().expect("text"), "was not run");
    assert!(payload["meta"].get("mayHaveRun").is_none(), "{payload}");

    server.clock.advance(10.0 * MINUTE);
    assert_eq!(
        server.backend.housekeep().await.expect("done"),
        0,
        "its lease is over, and it may be without a network"
    );
    server.clock.advance(10.0 * MINUTE);
    assert_eq!(server.backend.housekeep().await.expect("done"), 1);
    let claimed = get_result(&server, "claimed").await;
    let payload: Value =
        serde_json::from_str(claimed["payload"].as_str().expect("a payload")).expect("JSON");
    assert_eq!(payload["meta"]["mayHaveRun"], json!(true), "{payload}");

    // The device's own result comes too late now.
    let post = json!({
        "deviceId": "dev-1", "token": token, "requestId": "claimed", "leaseId": "l", "outcome": "ok", "payload": "{}",
    });
    let refused = server
        .wire
        .call("mutation", "events:appendResult", &post)
        .await;
    assert_eq!(refused["errorData"]["code"], "RESULT_EXISTS", "{refused}");
    for open in ["in-time", "patient"] {
        assert!(get_result(&server, open).await.is_null(), "{open}");
    }
    server.clock.advance(30.0 * DAY);
    server.backend.housekeep().await.expect("done");
    assert_eq!(
        get_result(&server, "patient").await["outcome"],
        "error",
        "no device claimed it in thirty days"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_old_goes_and_no_id_runs_again() {
    let server = TestBackend::start().await;
    let token = server.pair("dev-1").await.token;
    for n in 0..250 {
        append_request(&server, &format!("r{n}"), None).await;
        let device = json!({ "deviceId": "dev-1", "token": token, "requestId": format!("r{n}"), "leaseId": "l" });
        call_value(&server, "mutation", "events:claim", device.clone()).await;
        let mut piece = device.clone();
        (piece["n"], piece["data"]) = (json!(0.0), json!("{}"));
        call_value(&server, "mutation", "events:appendProgress", piece).await;
        let mut post = device;
        (post["outcome"], post["payload"]) = (json!("ok"), json!("{}"));
        call_value(&server, "mutation", "events:appendResult", post).await;
    }
    let poll = json!({ "deviceId": "dev-1", "token": token, "cursor": null, "limit": 512.0 });
    let cursor =
        call_value(&server, "query", "events:listForDevice", poll.clone()).await["cursor"].clone();
    server.clock.advance(29.0 * DAY);
    assert_eq!(server.backend.housekeep().await.expect("done"), 0);
    append_request(&server, "young", None).await;
    server.clock.advance(2.0 * DAY);
    assert_eq!(
        server.backend.housekeep().await.expect("done"),
        750,
        "an inbox row, a piece and a result each"
    );

    assert!(get_result(&server, "r7").await.is_null());
    let mut after = poll.clone();
    after["cursor"] = cursor;
    for poll in [poll, after] {
        let page = call_value(&server, "query", "events:listForDevice", poll).await;
        let ids: Vec<_> = page["events"]
            .as_array()
            .expect("events")
            .iter()
            .map(|event| &event["requestId"])
            .collect();
        assert_eq!(ids, ["young"], "every cursor stays valid");
    }
    let again = json!({
        "callerToken": server.caller_token, "requestId": "r7", "deviceId": "dev-1", "toolName": "Bash", "args": "{}",
    });
    assert_eq!(
        call_value(&server, "mutation", "events:appendRequest", again).await["created"],
        false
    );
    let open = call_value(
        &server,
        "query",
        "events:listOpen",
        json!({ "deviceId": "dev-1", "token": token }),
    )
    .await;
    assert_eq!(open.as_array().expect("a list").len(), 1, "{open}");
}

/// Counts the requests in the database.
fn request_rows(server: &TestBackend) -> u32 {
    let db = rusqlite::Connection::open(&server.options().db).expect("the backend's database");
    db.query_row("select count(*) from requests", [], |row| row.get(0))
        .expect("counted")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rows_of_old_requests_go_where_the_time_in_their_ids_has_them_refused() {
    let server = TestBackend::start().await;
    let device = server.pair("dev-1").await;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a time of this century"
    )]
    let uuid7 = |plus_ms: f64| {
        let at_ms = (server.clock.now_ms() + plus_ms) as u64;
        uuid::Builder::from_unix_timestamp_millis(at_ms, &[7; 10])
            .into_uuid()
            .to_string()
    };
    // One id has the present time, one is from a caller whose clock is two hours ahead, and one carries no time.
    let now = uuid7(0.0);
    let ahead = uuid7(120.0 * MINUTE);
    let plain = "plain".to_owned();
    for id in [&now, &ahead, &plain] {
        append_request(&server, id, None).await;
        device.claim(id, "lease").await;
        device.post(id, "lease", "{}").await;
    }
    server.clock.advance(30.0 * DAY);
    server.backend.housekeep().await.expect("done");
    assert_eq!(
        request_rows(&server),
        3,
        "nothing is older than thirty days"
    );
    server.clock.advance(1.0);
    server.backend.housekeep().await.expect("done");
    assert_eq!(request_rows(&server), 2);
    for (id, state) in [
        (&now, "unknown"),
        (&ahead, "finished"),
        (&plain, "finished"),
    ] {
        assert_eq!(server.caller().cancel(id).await["state"], state, "{id}");
    }
    // A deleted request cannot run again, even if the clock is set back.
    let again = json!({
        "callerToken": server.caller_token, "requestId": now, "deviceId": "dev-1", "toolName": "Bash", "args": "{}",
    });
    for back in [0.0, -2.0 * DAY] {
        server.clock.advance(back);
        let refused = server
            .wire
            .call("mutation", "events:appendRequest", &again)
            .await;
        assert_eq!(
            refused["errorData"]["code"], "INVALID_ARGUMENT",
            "{refused}"
        );
    }
    for id in [&ahead, &plain] {
        let mut again = again.clone();
        again["requestId"] = json!(id);
        assert_eq!(
            call_value(&server, "mutation", "events:appendRequest", again).await["created"],
            false,
            "{id}"
        );
    }
}
