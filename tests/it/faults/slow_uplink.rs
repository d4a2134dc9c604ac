//! A slow connection: large results take their time, and arrive.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use punie_engine::backend::{BackendError, FunctionKind, HttpFunctions, TransportOptions};
use punie_engine::journal::RequestState;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::harness::caller::ToolCall;
use crate::harness::proxy::{ConnectionFault, FaultyProxy};
use crate::harness::stage::RunnerFixture;
use crate::harness::stepped_time::SteppedTime;
use crate::harness::wait::wait_for_some;

/// A server that answers each call once it has received all of it, and keeps its connections open.
struct HoldingServer {
    url: String,
    connections: Arc<AtomicUsize>,
    calls: Arc<AtomicUsize>,
    _serving: JoinSet<()>,
}

impl HoldingServer {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let [connections, calls] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
        let accepted = Arc::clone(&connections);
        let answered = Arc::clone(&calls);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                accepted.fetch_add(1, Ordering::SeqCst);
                let answered = Arc::clone(&answered);
                open.spawn(async move {
                    let mut socket = BufReader::new(socket);
                    while answer_request(&mut socket, &answered).await.is_some() {}
                });
            }
        });
        Self {
            url,
            connections,
            calls,
            _serving: serving,
        }
    }
}

/// Reads one call and answers it. Returns `None` at the end of the connection.
async fn answer_request(socket: &mut BufReader<TcpStream>, calls: &AtomicUsize) -> Option<()> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        socket
            .read_line(&mut line)
            .await
            .ok()
            .filter(|read| *read > 0)?;
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse().expect("a number");
        }
    }
    let mut body = vec![0; length];
    socket.read_exact(&mut body).await.ok()?;
    calls.fetch_add(1, Ordering::SeqCst);
    let said = r#"{"status":"success","value":null}"#;
    let reply = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{said}",
        said.len()
    );
    socket.write_all(reply.as_bytes()).await.ok()
}

/// Returns the arguments of a result with an image of 505 KB.
fn image_answer() -> Value {
    json!({ "payload": "x".repeat(505_000 * 4 / 3) })
}

const KBIT: usize = 1_000 / 8;
/// The step in which time moves between two turns of the sockets.
const STEP: Duration = Duration::from_millis(100);
/// A tolerance for the steps in which the clock moves.
const SLACK: Duration = Duration::from_millis(500);

async fn post_result(functions: &HttpFunctions) -> Result<Value, BackendError> {
    functions
        .call_function(
            FunctionKind::Mutation,
            "events:appendResult",
            &image_answer(),
            Duration::ZERO,
        )
        .await
}

#[tokio::test]
async fn a_large_result_gets_through_a_line_of_160_kbit_a_second() {
    let server = HoldingServer::start().await;
    let proxy = FaultyProxy::before(&server.url);
    proxy.inject_fault(ConnectionFault::Uplink(160 * KBIT));
    let functions =
        HttpFunctions::new(&proxy.url, TransportOptions::default()).expect("an address");
    let mut time = SteppedTime::stop();
    let begun = Instant::now();
    let posted = time.run(STEP, post_result(&functions)).await;
    posted.expect("it gets through");
    let took = begun.elapsed();
    assert!(
        took >= Duration::from_secs(33) && took <= Duration::from_secs(36),
        "{took:?}"
    );
}

#[tokio::test]
async fn eight_large_results_at_once_take_the_time_that_their_bytes_need() {
    let server = HoldingServer::start().await;
    let proxy = FaultyProxy::before(&server.url);
    proxy.inject_fault(ConnectionFault::Uplink(1_000 * KBIT));
    let functions =
        HttpFunctions::new(&proxy.url, TransportOptions::default()).expect("an address");
    let mut time = SteppedTime::stop();
    let begun = Instant::now();
    let mut posts = JoinSet::new();
    for _ in 0..8 {
        let functions = functions.clone();
        posts.spawn(async move { post_result(&functions).await });
    }
    for posted in time.run(STEP, posts.join_all()).await {
        posted.expect("it gets through");
    }
    let took = begun.elapsed();
    assert!(
        took >= Duration::from_secs(43) && took <= Duration::from_secs(45),
        "{took:?}"
    );
    assert_eq!(server.calls.load(Ordering::SeqCst), 8);
}

#[tokio::test]
async fn a_large_result_that_nobody_reads_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let functions = HttpFunctions::new(&url, TransportOptions::default()).expect("an address");
    let mut time = SteppedTime::stop();
    let begun = Instant::now();
    let posted = time.run(STEP * 10, post_result(&functions)).await;
    let error = posted.expect_err("nobody reads it");
    assert!(matches!(error, BackendError::Unreachable { .. }), "{error}");
    // 30 s, and the time that the slowest permitted connection needs, at 4 KiB a second.
    let bytes = image_answer().to_string().len() as u64 + 100;
    let most = Duration::from_secs(30) + Duration::from_millis(bytes * 1_000 / 4_096) + SLACK;
    assert!(begun.elapsed() <= most, "{:?} of {most:?}", begun.elapsed());
}

/// Resolves every name to this machine.
struct LocalResolver;

impl Resolve for LocalResolver {
    fn resolve(&self, _: Name) -> Resolving {
        let here: Addrs = Box::new([SocketAddr::from(([127, 0, 0, 1], 0))].into_iter());
        Box::pin(std::future::ready(Ok(here)))
    }
}

#[tokio::test]
async fn heartbeats_share_a_connection() {
    let server = HoldingServer::start().await;
    let way = TransportOptions {
        allow_insecure_http: true,
        resolver: Some(Arc::new(LocalResolver)),
        ..TransportOptions::default()
    };
    let url = server.url.replace("127.0.0.1", "backend.test");
    let functions = HttpFunctions::new(&url, way).expect("an address");
    let mut time = SteppedTime::stop();
    for _ in 0..6 {
        let args = json!({});
        let beat = functions.call_function(
            FunctionKind::Mutation,
            "devices:heartbeat",
            &args,
            Duration::ZERO,
        );
        beat.await.expect("answered");
        // The longest time between two heartbeats: one minute and an eighth of it.
        time.pass(Duration::from_millis(67_500), STEP * 10).await;
    }
    assert_eq!(server.calls.load(Ordering::SeqCst), 6);
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_tells_how_much_waits_and_is_being_sent() {
    let setup = RunnerFixture::new().await;
    let proxy = FaultyProxy::before(&setup.setting.url);
    proxy.poison_those_with("events:appendResult", ConnectionFault::BlackHole);
    let _runner = setup.run_at(&proxy.url);
    for n in 0..8 {
        let id = setup
            .ask(ToolCall::bash("seq 1 20000").in_conversation(&format!("talk-{n}")))
            .await;
        setup.wait_for_state(&id, RequestState::Finished).await;
    }
    let outbox = wait_for_some("bytes that are being sent", async || {
        let outbox = setup.status().await["outbox"].clone();
        (outbox["sendingBytes"] != 0).then_some(outbox)
    })
    .await;
    let [waits, sends] =
        ["bytes", "sendingBytes"].map(|key| outbox[key].as_u64().expect("a number"));
    assert!(sends > 64 << 10 && waits >= sends, "{outbox}");
    let words = setup.command(&["status", "-v"]).await.out;
    assert_contains!(words, "KB)", "sending ");
}
