//! The embedded backend's limits on connections: their number, and the time for the headers of a request.

use std::io::ErrorKind;
use std::time::Duration;

use punie_dev_backend::DevBackendOptions;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::server::TestBackend;
use crate::harness::stepped_time::SteppedTime;

const SECOND: Duration = Duration::from_secs(1);
const REQUEST: &str = "GET /version HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n";
const UPGRADE: &str = "GET /api/sync HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
                       sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

async fn connect_socket(server: &TestBackend) -> TcpStream {
    let place = server.wire.url.strip_prefix("http://").expect("http");
    TcpStream::connect(place).await.expect("connected")
}

/// Sends a request and reads until the answer ends with `ends`.
async fn send_request(socket: &mut TcpStream, request: &str, ends: &str) {
    socket.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    while !String::from_utf8_lossy(&answer).ends_with(ends) {
        let count = socket.read_buf(&mut answer).await.expect("open");
        assert_ne!(count, 0, "{}", String::from_utf8_lossy(&answer));
    }
}

async fn ask_version(socket: &mut TcpStream) {
    send_request(socket, REQUEST, env!("CARGO_PKG_VERSION")).await;
}

async fn connect_and_ask(server: &TestBackend) -> TcpStream {
    let mut socket = connect_socket(server).await;
    ask_version(&mut socket).await;
    socket
}

fn is_closed(socket: &TcpStream) -> bool {
    match socket.try_read(&mut [0; 1]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

#[tokio::test]
async fn late_headers_end_a_connection() {
    let mut time = SteppedTime::stop();
    let server = TestBackend::start().await;
    let silent = connect_socket(&server).await;
    // One client sends a byte a second, the other never finishes its second request.
    let dripping = connect_socket(&server).await;
    let mut second = connect_and_ask(&server).await;
    second
        .write_all(&REQUEST.as_bytes()[..9])
        .await
        .expect("sent");
    let are_closed = || [&silent, &dripping, &second].map(is_closed);
    for _ in 0..9 {
        dripping.try_write(b"G").expect("open");
        time.pass(SECOND, SECOND).await;
    }
    assert_eq!(are_closed(), [false; 3]);
    time.pass(4 * SECOND, SECOND).await;
    time.stand_until("all three to be closed", || are_closed() == [true; 3])
        .await;
}

#[tokio::test]
async fn neither_a_long_call_nor_a_pause_between_calls_ends_a_connection() {
    let mut time = SteppedTime::stop();
    let server = TestBackend::start().await;
    let mut idle = connect_and_ask(&server).await;
    let device = server.pair("dev-1").await;
    let mut polling = JoinSet::new();
    polling.spawn(async move { device.poll(Value::Null, 25_000).await });
    let took = time
        .move_until("the held poll to end", SECOND, || {
            polling.try_join_next().is_some_and(|page| page.is_ok())
        })
        .await;
    assert!(took > 20 * SECOND, "{took:?}");
    ask_version(&mut idle).await;
}

#[tokio::test]
async fn at_the_limit_the_connection_that_was_idle_longest_makes_way() {
    let time = SteppedTime::stop();
    let server = TestBackend::start().await;
    let options = DevBackendOptions {
        max_connections: 3,
        ..server.options()
    };
    let server = server.restart_with(options).await;
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(connect_and_ask(&server).await);
        tokio::time::advance(SECOND).await;
    }
    ask_version(&mut open[0]).await;
    tokio::time::advance(SECOND).await;

    let mut newest = connect_and_ask(&server).await;
    let closed = |open: &[TcpStream]| open.iter().map(is_closed).collect::<Vec<_>>();
    time.stand_until("the second to be closed", || {
        closed(&open) == [false, true, false]
    })
    .await;

    // An open WebSocket is in use, so it is never closed to admit a new connection.
    for socket in [&mut open[0], &mut newest] {
        send_request(socket, UPGRADE, "\r\n\r\n").await;
    }
    let mut last = connect_and_ask(&server).await;
    time.stand_until("the third to be closed", || {
        closed(&open) == [false, true, true]
    })
    .await;
    send_request(&mut last, UPGRADE, "\r\n\r\n").await;
    let refused = connect_socket(&server).await;
    time.stand_until("the last refusal", || is_closed(&refused))
        .await;
    assert!(![&open[0], &newest, &last].into_iter().any(is_closed));
}
