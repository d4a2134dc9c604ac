//! The embedded backend over real HTTP: the rules of the protocol, held polls, parallel calls and restarts.

mod connections;
mod faults;
mod held;
mod housekeeping;
pub mod server;
mod sync;
mod transport;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use server::TestBackend;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_parallel_appends_of_one_id_one_creates() {
    let server = TestBackend::start().await;
    let device = server.pair("dev-1").await;
    let mut calls = JoinSet::new();
    for _ in 0..8 {
        let caller = server.caller();
        let device = device.id.clone();
        calls.spawn(async move { caller.append("req-1", &device, "{}").await });
    }
    let replies = calls.join_all().await;
    let created = replies
        .iter()
        .filter(|reply| reply["created"] == json!(true))
        .count();
    assert_eq!(created, 1, "{replies:?}");
    let page = device.poll(Value::Null, 0).await;
    assert_eq!(page["events"].as_array().map(Vec::len), Some(1), "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_survives_a_restart() {
    let server = TestBackend::start().await;
    let device = server.pair("dev-1").await;
    let caller = server.caller();
    caller.append("req-1", &device.id, "{}").await;
    device.claim("req-1", "lease-a").await;
    device.post("req-1", "lease-a", "{}").await;
    caller.append("req-2", &device.id, "{}").await;
    let before = device.poll(Value::Null, 0).await;
    let code = server.backend.pairing_code().expect("read");
    assert_eq!(code.as_ref(), Some(&server.pairing_code));

    let server = server.restart().await;
    assert_eq!(server.backend.pairing_code().expect("read"), code);
    assert!(server.backend.caller_token_is_valid(&server.caller_token));
    assert!(!server.backend.caller_token_is_valid("another"));
    let device = server.reconnect_device(&device);
    let caller = server.caller();
    assert_eq!(device.poll(Value::Null, 0).await, before);
    assert_eq!(caller.result("req-1").await["outcome"], "ok");
    assert_eq!(
        caller.append("req-2", &device.id, "{}").await["created"],
        json!(false)
    );

    server.clock.advance(-3_600_000.0);
    caller.append("req-3", &device.id, "{}").await;
    let after = device.poll(before["cursor"].clone(), 0).await;
    assert_eq!(
        after["events"][0]["requestId"], "req-3",
        "the commit clock survived too: {after}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_file_serves_one_backend() {
    let server = TestBackend::start().await;
    let refused = punie_dev_backend::DevBackend::start_server(server.options()).await;
    let refused = refused.expect_err("the file is in use");
    assert!(matches!(
        refused,
        punie_dev_backend::DevBackendError::Store(punie_dev_backend::StoreError::InUse(_))
    ));
}
