//! Held polls: they end when something is committed, when the wait is over, and when the backend stops.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::server::{DeviceClient, TestBackend};

/// Polls in the background. The reply is the same whether or not the poll is held before the next commit.
fn poll(server: &TestBackend, device: &DeviceClient, cursor: Value) -> JoinSet<Value> {
    let device = server.reconnect_device(device);
    let mut polling = JoinSet::new();
    polling.spawn(async move { device.poll(cursor, 25_000).await });
    polling
}

/// Waits for the page that such a poll returns.
async fn await_page(polling: JoinSet<Value>) -> Value {
    polling.join_all().await.remove(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_poll_returns_on_append_and_on_cancel() {
    let server = TestBackend::start().await;
    let device = server.pair("dev-1").await;
    let caller = server.caller();

    let polling = poll(&server, &device, Value::Null);
    caller.append("req-1", &device.id, "{}").await;
    let news = await_page(polling).await;
    assert_eq!(news["events"][0]["requestId"], "req-1", "{news}");

    let polling = poll(&server, &device, news["cursor"].clone());
    caller.cancel("req-1").await;
    let news = await_page(polling).await;
    assert_fields!(news, {"/events/0/type": "tool_cancel", "isDone": true});
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_wake_up_is_lost_between_a_poll_and_the_next() {
    const REQUESTS: usize = 300;
    let server = TestBackend::start().await;
    let device = server.pair("dev-1").await;
    let caller = server.caller();
    let to = device.id.clone();
    let mut asking = JoinSet::new();
    asking.spawn(async move {
        for i in 0..REQUESTS {
            caller.append(&format!("req-{i}"), &to, "{}").await;
        }
    });
    // A lost wake-up would hold a poll for the full wait and return it empty.
    let mut cursor = Value::Null;
    let mut seen = Vec::new();
    while seen.len() < REQUESTS {
        let page = device.poll(cursor, 25_000).await;
        let events = page["events"].as_array().expect("events");
        assert!(
            !events.is_empty(),
            "a held poll came back empty after {}",
            seen.len()
        );
        seen.extend(
            events
                .iter()
                .map(|event| event["requestId"].as_str().expect("an id").to_owned()),
        );
        cursor = page["cursor"].clone();
    }
    asking.join_all().await;
    assert_eq!(
        seen,
        (0..REQUESTS)
            .map(|i| format!("req-{i}"))
            .collect::<Vec<_>>()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_device_s_event_does_not_end_a_hold() {
    let server = TestBackend::start().await;
    let device = server.pair("dev-1").await;
    let other = server.pair("dev-2").await;
    let polling = poll(&server, &device, Value::Null);
    server.caller().append("req-2", &other.id, "{}").await;
    server.caller().append("req-1", &device.id, "{}").await;
    let news = await_page(polling).await;
    assert_eq!(news["events"][0]["requestId"], "req-1", "{news}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_that_is_over_is_an_empty_page() {
    let server = TestBackend::start().await;
    let device = server.pair("dev-1").await;
    let page = device.poll(json!("5"), 20).await;
    assert_eq!(page, json!({ "events": [], "cursor": "5", "isDone": true }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_answers_held_polls() {
    let server = TestBackend::start().await;
    let device = server.pair("dev-1").await;
    let args =
        json!({ "deviceId": device.id, "token": device.token, "cursor": null, "waitMs": 25_000 });
    let body = json!({ "path": "events:listForDevice", "args": args }).to_string();
    let address = server
        .backend
        .listen_url()
        .trim_start_matches("http://")
        .to_owned();
    let mut socket = TcpStream::connect(&address).await.expect("a connection");
    let head = format!(
        "POST /api/query HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        body.len()
    );
    socket.write_all(head.as_bytes()).await.expect("sent");
    // The server asks for the body once the call has begun. From then on, even a stop must answer the call.
    let mut asked = [0; 25];
    socket
        .read_exact(&mut asked)
        .await
        .expect("the server asks for the body");
    assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
    socket.write_all(body.as_bytes()).await.expect("sent");
    server.backend.stop_server().await;
    let mut reply = String::new();
    socket
        .read_to_string(&mut reply)
        .await
        .expect("a reply, then the end");
    assert_starts_with!(reply, "HTTP/1.1 200");
    assert_contains!(reply, r#""events":[]"#);
}
