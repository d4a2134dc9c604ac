//! A backend that is away: connections refused, a name that does not resolve, no answer, or one that is too slow.

use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use punie_engine::backend::{BackendError, FunctionKind, HttpFunctions, TransportOptions};
use punie_engine::journal::RequestState;
use punie_tool::request::{ToolEffect, ToolReply};
use punie_tool::{DeclaredAccess, Tool, ToolContext, ToolError, ToolRegistry, ToolSet};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{announced_waits, polls_fail};
use crate::harness::caller::ToolCall;
use crate::harness::inside::{RunnerInProcess, settings_with};
use crate::harness::proxy::{ConnectionFault, FaultyProxy};
use crate::harness::stage::RunnerFixture;
use crate::harness::stepped_time::SteppedTime;
use crate::harness::wait::{wait_for_some, wait_until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f23_connection_refused_backs_off_within_bounds() {
    let setup = RunnerFixture::new().await;
    let mut proxy = FaultyProxy::before(&setup.setting.url);
    let runner = setup.run_at(&proxy.url);
    let before = setup.ask_bash("echo before").await;
    setup.wait_for_state(&before, RequestState::Delivered).await;
    wait_until("the cursor", || setup.journal_note("cursor").is_some()).await;
    let cursor = setup.journal_note("cursor");
    proxy.down().await;
    polls_fail(&runner, 8).await;
    let waits = announced_waits(&runner);
    for (n, wait) in waits.iter().enumerate() {
        let most = (20 << n.min(8)).min(200);
        assert!(
            *wait <= most,
            "wait {n} is {wait} ms, of at most {most}: {waits:?}"
        );
    }
    assert_eq!(setup.journal_note("cursor"), cursor);
    assert_eq!(setup.state(&before), Some(RequestState::Delivered));
    wait_until("the recorded outage", || {
        setup.journal_note("backend_trouble").as_deref() == Some("unreachable")
    })
    .await;
    assert_eq!(setup.status().await["backend"]["trouble"], "unreachable");
    proxy.up();
    setup.bash("echo after").await.expect_ok();
    wait_until("the end of the outage", || {
        setup.journal_note("backend_trouble").as_deref() == Some("")
    })
    .await;
}

/// Resolves one name while `known` is set, and counts the failed look-ups.
struct FakeResolver {
    known: AtomicBool,
    asked_in_vain: AtomicUsize,
}

impl Resolve for FakeResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let known = name.as_str() == "backend.localhost" && self.known.load(Ordering::SeqCst);
        self.asked_in_vain
            .fetch_add(usize::from(!known), Ordering::SeqCst);
        Box::pin(async move {
            if !known {
                return Err("no such name".into());
            }
            // With port 0, the port of the URL is used.
            let there: Addrs = Box::new([SocketAddr::from(([127, 0, 0, 1], 0))].into_iter());
            Ok(there)
        })
    }
}

/// Runs until a file exists.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AwaitFile {
    file: PathBuf,
}

impl Tool for AwaitFile {
    const NAME: &'static str = "Await";
    const EFFECT: ToolEffect = ToolEffect::Executes;
    type Deps = ();
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::none()
    }

    async fn run(self, _cx: &ToolContext, (): &()) -> Result<ToolReply, ToolError> {
        while !self.file.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(ToolReply::from_text("it is there"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f24_a_name_that_cannot_be_resolved_and_then_can_drains_the_outbox() {
    let setup = RunnerFixture::new().await;
    let mut proxy = FaultyProxy::before(&setup.setting.url);
    let port = proxy.url.rsplit(':').next().expect("a port").to_owned();
    let names = Arc::new(FakeResolver {
        known: AtomicBool::new(true),
        asked_in_vain: AtomicUsize::new(0),
    });
    let way = TransportOptions {
        allow_insecure_http: true,
        resolver: Some(Arc::clone(&names) as Arc<dyn Resolve>),
        ..TransportOptions::default()
    };
    let tools = ToolRegistry::new([ToolSet::new("test", ())
        .with_tool::<AwaitFile>()
        .into_entries()])
    .expect("one tool");
    let first = Duration::from_millis(20);
    let cap = Duration::from_millis(200);
    let settings = settings_with(|settings| {
        settings.waits.retry = (first, cap);
    });
    let url = format!("http://backend.localhost:{port}");
    let runner = RunnerInProcess::start_at(&setup, &url, way, tools, settings);
    let id = setup
        .ask(ToolCall::new("Await", &json!({ "file": setup.file("go") })))
        .await;
    setup.wait_for_state(&id, RequestState::Started).await;
    names.known.store(false, Ordering::SeqCst);
    // An open connection would need no name, so close them all.
    proxy.down().await;
    proxy.up();
    setup.write("go", "");
    setup.wait_for_state(&id, RequestState::Finished).await;
    wait_until("five failed look-ups of the name", || {
        names.asked_in_vain.load(Ordering::SeqCst) >= 5
    })
    .await;
    assert!(setup.caller.result(&id).await.is_none());
    names.known.store(true, Ordering::SeqCst);
    assert_eq!(setup.answer(&id).await.text(), "it is there");
    setup.wait_for_state(&id, RequestState::Delivered).await;
    runner.stop().await;
}

fn functions_at(address: SocketAddr) -> HttpFunctions {
    HttpFunctions::new(&format!("http://{address}"), TransportOptions::default())
        .expect("an address")
}

/// Polls a server that does not answer. Returns the time until the poll failed, by the runtime's clock.
async fn poll_in_vain(
    time: &mut SteppedTime,
    functions: &HttpFunctions,
    held: Duration,
) -> Duration {
    let begun = Instant::now();
    let args = json!({});
    let call = functions.call_function(FunctionKind::Query, "events:head", &args, held);
    let called = time.run(Duration::from_millis(100), call).await;
    let error = called.expect_err("the poll must fail");
    assert!(matches!(error, BackendError::Unreachable { .. }), "{error}");
    begun.elapsed()
}

/// A tolerance for the steps in which the clock moves.
const SLACK: Duration = Duration::from_millis(100);

#[tokio::test]
async fn f25_a_black_hole_costs_ten_seconds_to_connect_and_thirty_to_read() {
    // The accept queue is full and the server accepts nothing, so the next connection gets no answer.
    let socket = TcpSocket::new_v4().expect("a socket");
    socket
        .bind(SocketAddr::from(([127, 0, 0, 1], 0)))
        .expect("bound");
    let full = socket.listen(1).expect("listening");
    let address = full.local_addr().expect("an address");
    let mut queued = Vec::new();
    // Linux queues one connection more than the backlog. On other systems, a connection that takes 200 ms finds the
    // queue full.
    for _ in 0..2 {
        queued.push(TcpStream::connect(address).expect("queued"));
    }
    while let Ok(one) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
        queued.push(one);
        assert!(queued.len() < 64, "the queue never fills");
    }
    let mut time = SteppedTime::stop();
    let took = poll_in_vain(&mut time, &functions_at(address), Duration::ZERO).await;
    assert!(
        took <= Duration::from_secs(10) + SLACK,
        "{took:?} to connect"
    );

    // The kernel opens the connection, but the server never accepts it: it stays open and silent.
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let silent = functions_at(silent.local_addr().expect("an address"));
    let took = poll_in_vain(&mut time, &silent, Duration::ZERO).await;
    assert!(took <= Duration::from_secs(30) + SLACK, "{took:?} to read");
    let hold = Duration::from_secs(25);
    let took = poll_in_vain(&mut time, &silent, hold).await;
    assert!(
        took <= hold + Duration::from_secs(10) + SLACK,
        "{took:?} for a held poll"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f25_a_poll_in_a_black_hole_holds_up_no_heartbeat_and_no_result() {
    let setup = RunnerFixture::with_config("[backend]\nlist_open_ms = 100\n").await;
    let proxy = FaultyProxy::before(&setup.setting.url);
    proxy.poison_those_with("events:listForDevice", ConnectionFault::BlackHole);
    let runner = setup.run_at(&proxy.url);
    wait_for_some("a heartbeat", async || {
        setup.caller.sees_online().await.then_some(())
    })
    .await;
    // The listing of open requests finds the request. Its claim, its run and its post need no poll.
    setup.bash("echo beside it").await.expect_ok();
    assert_eq!(
        setup.faults.calls("events:listForDevice"),
        0,
        "the poll never came out of the hole"
    );
    runner.stop().await;
    assert!(
        !setup.caller.sees_online().await,
        "the last heartbeat came through too"
    );
}

#[tokio::test]
async fn f28_one_byte_a_second_does_not_outlast_the_total_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut asked = [0; 4_096];
            assert!(
                socket.read(&mut asked).await.is_ok_and(|read| read > 0),
                "a call"
            );
            let body = format!(
                "{{\"status\":\"success\",\"value\":\"{}\"}}",
                "x".repeat(1_000)
            );
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            socket
                .write_all(format!("{head}{body}").as_bytes())
                .await
                .expect("taken");
        }
    });
    let mut time = SteppedTime::stop();
    let proxy = FaultyProxy::before(&format!("http://{address}"));
    let slow = HttpFunctions::new(&proxy.url, TransportOptions::default()).expect("an address");
    slow.call_function(
        FunctionKind::Query,
        "events:head",
        &json!({}),
        Duration::ZERO,
    )
    .await
    .expect("fast enough");
    // Each byte arrives well within any limit on a single read.
    proxy.inject_fault(ConnectionFault::Bandwidth(20));
    let took = poll_in_vain(&mut time, &slow, Duration::ZERO).await;
    assert!(
        took >= Duration::from_secs(29) && took <= Duration::from_secs(30) + SLACK,
        "{took:?}"
    );
}

#[tokio::test]
async fn a_result_is_posted_within_seconds_after_the_first_answer_of_a_backend_that_was_away() {
    let setup = RunnerFixture::with_unheld_polls("").await;
    let mut proxy = FaultyProxy::before(&setup.setting.url);
    let tools = ToolRegistry::new([ToolSet::new("test", ())
        .with_tool::<AwaitFile>()
        .into_entries()])
    .expect("one tool");
    let id = setup
        .ask(ToolCall::new("Await", &json!({ "file": setup.file("go") })))
        .await;
    let mut time = SteppedTime::stop();
    let step = Duration::from_millis(250);
    // Long waits between attempts, so that no attempt follows the recovery at once by chance.
    let settings = settings_with(|settings| {
        settings.waits.retry = (Duration::from_secs(1), Duration::from_mins(10));
    });
    let runner =
        RunnerInProcess::with_stepped_time(&setup, &proxy.url, tools, settings, &mut time, |_| {});
    time.move_until("the call", step, || {
        setup.state(&id) == Some(RequestState::Started)
    })
    .await;
    proxy.down().await;
    setup.write("go", "");
    time.move_until("its end", step, || {
        setup.state(&id) == Some(RequestState::Finished)
    })
    .await;
    // Thirty minutes of failures make the waits between attempts long.
    time.pass(Duration::from_mins(30), step * 4).await;
    let answered = || -> u32 {
        let functions = [
            "events:listForDevice",
            "events:listOpen",
            "devices:heartbeat",
            "devices:openSession",
        ];
        functions
            .iter()
            .map(|function| setup.faults.calls(function))
            .sum()
    };
    let before = answered();
    proxy.up();
    time.move_until("an answer", step, || answered() > before)
        .await;
    let took = time
        .move_until("the result", step, || {
            setup.state(&id) == Some(RequestState::Delivered)
        })
        .await;
    assert!(took <= Duration::from_secs(5), "{took:?}");
    drop((runner, time));
}
