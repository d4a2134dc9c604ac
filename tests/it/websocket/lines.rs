//! The connection itself: its token, the detection of a dead peer, reconnection, and backpressure.

use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::time::Duration;

use futures_util::SinkExt as _;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::harness::wait::wait_for_some;
use crate::harness::worker::WorkerProcess;

fn put_token(worker: &WorkerProcess, token: &str) {
    let dir = worker.setting.tokens();
    std::fs::DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(&dir)
        .expect("made");
    let mut options = std::fs::OpenOptions::new();
    let mut file = options
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(dir.join("backend"))
        .expect("opened");
    file.write_all(token.as_bytes()).expect("written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_token_is_shown_and_masked_and_a_worker_that_refuses_it_is_left_in_peace_for_a_while() {
    let worker = WorkerProcess::new().await;
    put_token(&worker, "a-token-of-the-worker-0123456789");
    let _runner = worker.run();
    worker.refuse("401 Unauthorized").await;
    let mut line = worker.accept().await;
    assert_eq!(
        line.headers["authorization"],
        "Bearer a-token-of-the-worker-0123456789"
    );
    let said = line
        .done(
            "t",
            "run_command",
            &json!({"command": "echo a-token-of-the-worker-0123456789"}),
        )
        .await;
    assert_lacks!(said, "0123456789");
    // The next connection uses another token. The worker may also refuse after the handshake.
    put_token(&worker, "another-token-of-the-worker-987654");
    let refusal = CloseFrame {
        code: CloseCode::Library(4401),
        reason: "who are you".into(),
    };
    line.send(Message::Close(Some(refusal))).await;
    drop(line);
    let line = worker.accept().await;
    assert_eq!(
        line.headers["authorization"],
        "Bearer another-token-of-the-worker-987654"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_close_of_the_worker_is_answered_with_its_own_code() {
    let worker = WorkerProcess::new().await;
    let _runner = worker.run();
    for code in [1000, 1001, 1012, 4000] {
        let mut line = worker.accept().await;
        let goodbye = CloseFrame {
            code: CloseCode::from(code),
            reason: "see you".into(),
        };
        line.send(Message::Close(Some(goodbye.clone()))).await;
        let Some(Message::Close(Some(answer))) = line.message().await else {
            panic!("no answer to {code}")
        };
        assert_eq!(answer.code, goodbye.code);
    }
    // A close frame without a code is answered, too.
    let mut line = worker.accept().await;
    line.send(Message::Close(None)).await;
    assert_eq!(line.message().await, Some(Message::Close(None)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_falls_silent_is_noticed_and_status_says_so() {
    let worker =
        WorkerProcess::with_config("[backend.websocket]\nping_ms = 100\npong_timeout_ms = 200\n")
            .await;
    let runner = worker.run();
    let line = worker.accept().await;
    runner.wait_for_log("the runner is up").await;
    let shows = async |word: &str| {
        wait_for_some("the connection in status", async || {
            let status = worker.command(&["--json", "status"]).await.json();
            // The recorded trouble of the last outage ends with the next call, which may come a moment later.
            let is_over = word != "up" || status["backend"]["trouble"].is_null();
            (status["backend"]["link"] == word && is_over).then_some(status)
        })
        .await
    };
    // The test does not read from the first connection, so no pong goes out and the runner connects again.
    let mut second = worker.accept().await;
    drop(line);
    // On a busy machine a pong may come too late. Then the runner connects again.
    let serving = async {
        loop {
            while second.message().await.is_some() {}
            second = worker.accept().await;
        }
    };
    let status = tokio::select! {
        status = shows("up") => status,
        () = serving => unreachable!("it serves for ever"),
    };
    assert_eq!(status["backend"]["kind"], "websocket");
    // The port accepts connections, but the runner gets no answer.
    shows("down").await;
    wait_for_some("the outage in `status`", async || {
        let status = worker.command(&["--json", "status"]).await.json();
        let backend = &status["backend"];
        (backend["reachable"] == false && !backend["trouble"].is_null()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_always_hangs_up_is_tried_ever_more_seldom() {
    let worker = WorkerProcess::new().await;
    let _runner = worker.run();
    let mut gaps = Vec::new();
    let call = json!({"type": "tool_call", "tool": "no_such_tool", "id": "x", "args": {}});
    while gaps.len() < 7 {
        let mut line = worker.accept().await;
        // One answered ping makes the connection count as good. On a busy machine the runner may have closed it by now.
        let sent = line.socket.send(Message::text(call.to_string())).await;
        if sent.is_err() || line.message().await.is_none() {
            continue;
        }
        // Measured before the drop, since the runner waits from then on.
        gaps.push(std::time::Instant::now());
        drop(line);
    }
    let waits: Vec<Duration> = gaps.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(
        waits[5] >= Duration::from_millis(3_200),
        "the sixth wait is shorter than its back-off: {waits:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_nothing_can_be_taken_in_nothing_more_is_read() {
    // No disk has so much space, so the runner accepts nothing. Its heartbeat opens the connection.
    let worker = WorkerProcess::with_config("[limits]\nleast_free_mb = 1000000\n").await;
    let runner = worker.run();
    let mut line = worker.accept().await;
    let call =
        json!({"type": "tool_call", "tool": "read_file", "args": {"path": "x".repeat(64 << 10)}});
    let mut sent = 0_usize;
    for n in 0.. {
        let mut call = call.clone();
        call["id"] = json!(format!("c{n}"));
        let text = call.to_string();
        let bytes = text.len();
        let mut sending = std::pin::pin!(line.socket.send(Message::text(text)));
        let mut sent_it = None;
        // The runner takes in 8 MiB at least, but maybe slowly: wait longer for those.
        for _ in 0..if sent > 8 << 20 { 1 } else { 20 } {
            sent_it = tokio::time::timeout(Duration::from_secs(5), &mut sending)
                .await
                .ok();
            if sent_it.is_some() {
                break;
            }
        }
        match sent_it {
            Some(sent) => sent.expect("the connection stays"),
            None => break,
        }
        sent += bytes;
        assert!(sent < 128 << 20, "it takes in everything");
    }
    assert!(sent > 8 << 20, "it takes in little: {sent}");
    assert!(
        !runner
            .log()
            .contains("the connection with the worker is down"),
        "the connection must stay up"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_needs_another_kind_of_backend_says_so() {
    let worker = WorkerProcess::new().await;
    for (args, words) in cases! {
        (vec!["pair", "123"], "neither pairing nor callers"),
        (vec!["run", "--pairing-code", "123"], "no pairing"),
        (
            vec!["--backend-url", "https://127.0.0.1:1", "run"],
            "needs an address that begins with wss:",
        ),
        (vec!["--backend-url", "ws://worker.example.com/x", "run"], "Use wss"),
    } {
        let ended = worker.command(&args).await;
        assert_eq!(ended.code, Some(78), "{args:?}: {ended:?}");
        assert_contains!(ended.log, words; "{args:?}");
    }
}
