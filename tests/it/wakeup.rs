//! The wake-up socket with a backend that does not hold polls: requests arrive at once. A faulty socket loses only that
//! speed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_tungstenite::accept_async;
use tokio_tungstenite::tungstenite::Message;

use crate::harness::process::RunningProgram;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::{wait_for_some, wait_until};

/// Intervals so long that no scheduled poll comes during a test.
const AN_HOUR: &str = "unauthorized_ms = 200\nactive_ms = 3600000\nrecent_ms = 3600000\nidle_ms = 3600000\nlistening_ms = 3600000";

/// Intervals so short that scheduled polls come all the time.
const OFTEN: &str =
    "unauthorized_ms = 200\nactive_ms = 50\nrecent_ms = 50\nidle_ms = 50\nlistening_ms = 3600000";

async fn fixture_with_rhythm(rhythm: &str) -> RunnerFixture {
    let setup = RunnerFixture::with_unheld_polls("").await;
    setup.configure("unauthorized_ms = 200", rhythm);
    setup
}

async fn wait_for_socket(setup: &RunnerFixture, runner: &RunningProgram) {
    // The journal, which `status` reads, exists once this line is logged.
    runner.wait_for_log("the runner is up").await;
    wait_for_some("the wake-up socket", async || {
        (setup.status().await["backend"]["link"] == "up").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_comes_at_once_although_polls_come_by_the_hour() {
    let mut setup = fixture_with_rhythm(AN_HOUR).await;
    let runner = setup.run();
    wait_for_socket(&setup, &runner).await;
    for n in 0..5 {
        let id = setup.ask_bash(&format!("echo {n} >> order")).await;
        setup.answer(&id).await.expect_ok();
    }
    assert_eq!(setup.read("order"), "0\n1\n2\n3\n4\n");
    let long = setup.ask_bash("echo begun > begun; sleep 600").await;
    setup.wait_for_line_in("begun").await;
    setup.caller.cancel(&long).await;
    assert_eq!(
        setup.answer(&long).await.outcome,
        "cancelled",
        "a cancel comes that way too"
    );
    // The backend restarts: the runner opens the socket anew, and polls for requests that came before.
    setup.stop_backend().await;
    runner.wait_for_log("the wake-up socket is closed").await;
    setup.start_backend().await;
    let id = setup.ask_bash("echo 5 >> order").await;
    setup.answer(&id).await.expect_ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_another_replaces_is_opened_anew_and_listened_with() {
    let setup = fixture_with_rhythm(AN_HOUR).await;
    let runner = setup.run();
    wait_for_socket(&setup, &runner).await;
    let code = setup.pairing_code().to_owned();
    let paired = setup.command(&["--json", "pair", &code]).await;
    assert_eq!(paired.code, Some(0), "{paired:?}");
    let id = setup.ask_bash("echo still here").await;
    setup.answer(&id).await.expect_ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_usable_socket_polls_do_as_before() {
    for mode in [
        SocketMode::HangUp,
        SocketMode::Silence,
        SocketMode::Garbage,
        SocketMode::Nonsense,
    ] {
        let setup = fixture_with_rhythm(OFTEN).await;
        let front = SyncFront::before(&setup.setting.url, mode).await;
        let _runner = setup.run_at(&front.url);
        wait_until("the runner to open the socket", || {
            front.sockets.load(Ordering::SeqCst) > 0
        })
        .await;
        let id = setup.ask_bash("echo heard").await;
        assert_eq!(setup.answer(&id).await.outcome, "ok", "{mode:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_that_lies_thousands_of_times_makes_few_polls() {
    let setup = fixture_with_rhythm(AN_HOUR).await;
    let front = SyncFront::before(&setup.setting.url, SocketMode::Lies).await;
    let _runner = setup.run_at(&front.url);
    wait_until("many lies", || front.lies.load(Ordering::SeqCst) >= 20_000).await;
    let polls = front.polls.load(Ordering::SeqCst);
    assert!(
        polls < front.lies.load(Ordering::SeqCst) / 100,
        "{polls} polls"
    );
    // The socket still works as a signal: the runner polls for the waiting request.
    let id = setup.ask_bash("echo heard").await;
    setup.answer(&id).await.expect_ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_opened_only_where_polls_are_not_held_or_where_the_owner_says_so() {
    for (holds, wish, opened) in [
        (true, "auto", false),
        (true, "on", true),
        (false, "off", false),
    ] {
        let config = format!("[backend]\nwakeup = \"{wish}\"\n");
        let setup = if holds {
            RunnerFixture::with_config(&config).await
        } else {
            RunnerFixture::with_unheld_polls(&config).await
        };
        setup.configure(
            "unauthorized_ms = 200",
            "unauthorized_ms = 200\nhold_ms = 200\nidle_ms = 50\nactive_ms = 50",
        );
        let front = SyncFront::before(&setup.setting.url, SocketMode::HangUp).await;
        let _runner = setup.run_at(&front.url);
        wait_until("four polls", || front.polls.load(Ordering::SeqCst) >= 4).await;
        if opened {
            wait_until("the socket", || front.sockets.load(Ordering::SeqCst) > 0).await;
        }
        assert_eq!(
            front.sockets.load(Ordering::SeqCst) > 0,
            opened,
            "holds: {holds}, wakeup = {wish}"
        );
    }
}

/// The behaviour of the fake sync socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SocketMode {
    HangUp,
    Silence,
    /// Sends bytes that are not HTTP.
    Garbage,
    /// Accepts a WebSocket, and speaks another protocol.
    Nonsense,
    Lies,
}

/// A proxy before the backend that forwards calls and plays the sync socket itself.
struct SyncFront {
    url: String,
    sockets: Arc<AtomicUsize>,
    polls: Arc<AtomicUsize>,
    lies: Arc<AtomicUsize>,
    _serving: JoinSet<()>,
}

impl SyncFront {
    async fn before(upstream: &str, mode: SocketMode) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let upstream = upstream.trim_start_matches("http://").to_owned();
        let [sockets, polls, lies] = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
        let seen = Arc::clone(&sockets);
        let asked = Arc::clone(&polls);
        let told = Arc::clone(&lies);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                let upstream = upstream.clone();
                let seen = Arc::clone(&seen);
                let asked = Arc::clone(&asked);
                let told = Arc::clone(&told);
                open.spawn(async move {
                    let mut head = [0; 13];
                    let known = near.peek(&mut head).await.unwrap_or(0);
                    if head[..known].starts_with(b"GET /api/sync") {
                        seen.fetch_add(1, Ordering::SeqCst);
                        play_socket(near, mode, &told).await;
                    } else {
                        pass_connection(near, &upstream, &asked).await;
                    }
                });
            }
        });
        Self {
            url,
            sockets,
            polls,
            lies,
            _serving: serving,
        }
    }
}

async fn pass_connection(near: TcpStream, upstream: &str, polls: &AtomicUsize) {
    let Ok(far) = TcpStream::connect(upstream).await else {
        return;
    };
    let (mut from_near, mut to_near) = near.into_split();
    let (mut from_far, mut to_far) = far.into_split();
    let back = tokio::io::copy(&mut from_far, &mut to_near);
    let there = async {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(read @ 1..) = from_near.read(&mut buffer).await {
            polls.fetch_add(
                String::from_utf8_lossy(&buffer[..read])
                    .matches("events:listForDevice")
                    .count(),
                Ordering::SeqCst,
            );
            if to_far.write_all(&buffer[..read]).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        _ = back => {}
        () = there => {}
    }
}

async fn play_socket(mut near: TcpStream, mode: SocketMode, lies: &AtomicUsize) {
    match mode {
        SocketMode::HangUp => {}
        SocketMode::Silence => std::future::pending().await,
        SocketMode::Garbage => {
            let _ = near.write_all(b"\0\x01 what is this?\r\n\r\n").await;
        }
        SocketMode::Nonsense => {
            let Ok(mut socket) = accept_async(near).await else {
                return;
            };
            let _ = socket.send(Message::text("[\"hello\"]")).await;
            while socket.next().await.is_some() {}
        }
        SocketMode::Lies => {
            let Ok(socket) = accept_async(near).await else {
                return;
            };
            let (mut sink, mut stream) = socket.split();
            let listening = async { while stream.next().await.is_some() {} };
            let lying = async {
                let change = json!({"type": "QueryUpdated", "queryId": 1, "value": "9", "logLines": [], "journal": null});
                let lie = json!({"type": "Transition", "modifications": [change]}).to_string();
                while sink.send(Message::text(lie.clone())).await.is_ok() {
                    lies.fetch_add(1, Ordering::SeqCst);
                }
            };
            tokio::select! {
                () = listening => {}
                () = lying => {}
            }
        }
    }
}
