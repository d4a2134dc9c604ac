//! Held polls: they end when something is committed, when the wait is over, and when the backend stops.

use serde_json::{Value, json};

use super::server::{Device, TestBackend};

/// Polls beside the test; returns once the call is held, as a second call on another connection shows.
async fn hold(server: &TestBackend, device: &Device, cursor: Value) -> tokio::task::JoinHandle<Value> {
    let held = server.again(device);
    let polling = tokio::spawn(async move { held.poll(cursor, 25_000).await });
    // Nothing tells a client that its call is held. Whether it is yet or not, no commit is lost:
    // both orders are correct, and the reply below is the same.
    tokio::task::yield_now().await;
    server.caller().result("none").await;
    polling
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_poll_returns_on_append_and_on_cancel() {
    let server = TestBackend::start().await;
    let device = server.pair("dev-1").await;
    let caller = server.caller();

    let polling = hold(&server, &device, Value::Null).await;
    caller.append("req-1", &device.id, "{}").await;
    let page = polling.await.expect("a page");
    assert_eq!(page["events"][0]["requestId"], "req-1", "{page}");

    let polling = hold(&server, &device, page["cursor"].clone()).await;
    caller.cancel("req-1").await;
    let page = polling.await.expect("a page");
    assert_eq!(page["events"][0]["type"], "tool_cancel", "{page}");
    assert_eq!(page["isDone"], json!(true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_wake_up_is_lost_between_a_poll_and_the_next() {
    const REQUESTS: usize = 300;
    let server = TestBackend::start().await;
    let device = server.pair("dev-1").await;
    let caller = server.caller();
    let to = device.id.clone();
    let asking = tokio::spawn(async move {
        for i in 0..REQUESTS {
            caller.append(&format!("req-{i}"), &to, "{}").await;
        }
    });
    // A lost wake-up would hold a poll for the full wait and return it empty.
    let (mut cursor, mut seen) = (Value::Null, Vec::new());
    while seen.len() < REQUESTS {
        let page = device.poll(cursor, 25_000).await;
        let events = page["events"].as_array().expect("events");
        assert!(!events.is_empty(), "a held poll came back empty after {}", seen.len());
        seen.extend(events.iter().map(|event| event["requestId"].as_str().expect("an id").to_owned()));
        cursor = page["cursor"].clone();
    }
    asking.await.expect("asked");
    assert_eq!(seen, (0..REQUESTS).map(|i| format!("req-{i}")).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_device_s_event_does_not_end_a_hold() {
    let server = TestBackend::start().await;
    let (device, other) = (server.pair("dev-1").await, server.pair("dev-2").await);
    let polling = hold(&server, &device, Value::Null).await;
    server.caller().append("req-2", &other.id, "{}").await;
    server.caller().append("req-1", &device.id, "{}").await;
    let page = polling.await.expect("a page");
    assert_eq!(page["events"][0]["requestId"], "req-1", "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_that_is_over_is_an_empty_page() {
    let server = TestBackend::start().await;
    let device = server.pair("dev-1").await;
    let page = device.poll(json!("5"), 20).await;
    assert_eq!(page, json!({ "events": [], "cursor": "5", "isDone": true }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_releases_held_polls() {
    let server = TestBackend::start().await;
    let device = server.pair("dev-1").await;
    let polling = hold(&server, &device, Value::Null).await;
    server.backend.stop().await;
    let page = polling.await.expect("a page, not a broken connection");
    assert_eq!(page["events"], json!([]));
}
