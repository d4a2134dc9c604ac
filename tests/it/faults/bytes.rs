//! Answers that are cut off or too large: the runner uses no part of them, and asks again.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use punie_dev_backend::InjectedFault;
use punie_engine::backend::{BackendError, FunctionKind, HttpFunctions, TransportOptions};
use punie_engine::journal::RequestState;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::polls_fail;
use crate::harness::caller::ToolCall;
use crate::harness::proxy::{ConnectionFault, FaultyProxy};
use crate::harness::relay::{CallFate, Relay};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f26_a_page_cut_off_by_a_reset_is_discarded_whole() {
    let setup = RunnerFixture::new().await;
    let proxy = FaultyProxy::before(&setup.setting.url);
    let runner = setup.run_at(&proxy.url);
    runner.wait_for_log("the catalog is published").await;
    let mut expected = Vec::new();
    for bytes in [0, 1, 60, 200, 400] {
        proxy.poison_those_with(
            "events:listForDevice",
            ConnectionFault::ResetAnswering(bytes),
        );
        // The backend holds a poll from before the fault. This call ends it, so that the fault hits every later poll.
        setup.bash("true").await;
        let mut asked = Vec::new();
        for n in 0..3 {
            asked.push(
                setup
                    .ask(
                        ToolCall::bash(&format!("echo {bytes} {n} >> effects"))
                            .in_conversation("talk"),
                    )
                    .await,
            );
            expected.push(format!("{bytes} {n}"));
        }
        polls_fail(&runner, 2).await;
        for id in &asked {
            assert_eq!(
                setup.state(id),
                None,
                "something of a page cut after {bytes} bytes was taken"
            );
        }
        proxy.clear_faults();
        for id in &asked {
            setup.answer(id).await.expect_ok();
        }
    }
    assert_eq!(setup.read("effects").lines().collect::<Vec<_>>(), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f27_a_result_stored_before_a_reset_is_posted_again_and_is_a_duplicate() {
    let setup = RunnerFixture::new().await;
    setup
        .faults
        .plan("events:appendResult", 2, InjectedFault::Drop);
    let relay = Relay::before(&setup.setting.url).await;
    let runner = setup.run_at(&relay.url);
    let id = setup.ask_bash("echo ran >> effects").await;
    setup.wait_for_state(&id, RequestState::Delivered).await;
    let posts = relay.calls("events:appendResult");
    assert_eq!(posts.len(), 3);
    assert_eq!(setup.faults.calls("events:appendResult"), 3);
    assert_eq!(
        posts[2].answer["value"],
        json!({ "stored": false, "duplicate": true })
    );
    assert_eq!(setup.read("effects"), "ran\n");
    assert_eq!(setup.answer(&id).await.outcome, "ok");
    drop(runner);

    // The same, with the connection reset within the bytes of the answer.
    let proxy = FaultyProxy::before(&setup.setting.url);
    proxy.poison_those_with("events:appendResult", ConnectionFault::ResetAnswering(10));
    let _runner = setup.run_at(&proxy.url);
    let id = setup.ask_bash("echo again >> effects").await;
    setup.answer(&id).await.expect_ok();
    wait_until("three failed posts", || {
        setup.faults.calls("events:appendResult") >= 6
    })
    .await;
    assert_eq!(
        setup.state(&id),
        Some(RequestState::Finished),
        "nobody has said that it is stored"
    );
    proxy.clear_faults();
    setup.wait_for_state(&id, RequestState::Delivered).await;
    assert_eq!(setup.read("effects"), "ran\nagain\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f33_half_an_answer_is_asked_for_again_and_changes_nothing() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    runner.wait_for_log("the catalog is published").await;
    // A complete answer with half of the JSON, and answers of fewer bytes than they announce.
    for (n, fault) in [
        InjectedFault::Half,
        InjectedFault::Cut(25),
        InjectedFault::Cut(0),
    ]
    .into_iter()
    .enumerate()
    {
        for function in [
            "events:listForDevice",
            "events:claim",
            "events:appendResult",
        ] {
            setup.faults.plan(function, 2, fault.clone());
            // Ends the poll that the backend holds since before. Its claim and its post are the first to fail.
            let first = setup
                .ask_bash(&format!("echo {n} {function} >> effects"))
                .await;
            let second = setup.ask_bash("true").await;
            for id in [first, second] {
                assert_eq!(
                    setup.answer(&id).await.outcome,
                    "ok",
                    "{fault:?} at {function}"
                );
                setup.wait_for_state(&id, RequestState::Delivered).await;
            }
        }
    }
    assert_eq!(setup.read("effects").lines().count(), 9, "each ran once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f65_a_page_that_is_too_long_is_refused_unread_and_less_is_asked_for_down_to_one() {
    let setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    let limits: Arc<Mutex<Vec<u64>>> = Arc::default();
    let asked = Arc::clone(&limits);
    let mut is_small = false;
    relay.rule(move |path, args| {
        if path != "events:listForDevice" {
            return CallFate::Pass;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a small whole number"
        )]
        let limit = args["limit"].as_f64().expect("a limit") as u64;
        asked.lock().push(limit);
        is_small |= limit == 1;
        if is_small {
            return CallFate::Pass;
        }
        // The announced body never comes: the runner must refuse it by its length, without waiting for it.
        CallFate::Say("HTTP/1.1 200 OK\r\ncontent-length: 52428800\r\n\r\n{".to_owned())
    });
    for n in 0..10 {
        setup
            .ask(ToolCall::bash(&format!("echo {n} >> effects")).in_conversation("talk"))
            .await;
    }
    let _runner = setup.run_at(&relay.url);
    wait_until("the effects", || {
        setup.read("effects").lines().count() == 10
    })
    .await;
    let down_and_up = [64, 32, 16, 8, 4, 2, 1, 2, 4];
    wait_until("the recovery", || limits.lock().len() >= 9).await;
    assert_eq!(limits.lock()[..9], down_and_up);
}

/// Returns how many bytes a server can send, in an answer without a length, before the client closes the connection.
async fn sent_of(piece: Vec<u8>, headers: &'static str, limit: usize) -> usize {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let (mut socket, _) = listener.accept().await.expect("a call");
        let mut asked = [0; 4_096];
        assert!(
            socket.read(&mut asked).await.is_ok_and(|read| read > 0),
            "a call"
        );
        let head = format!("HTTP/1.1 200 OK\r\n{headers}transfer-encoding: chunked\r\n\r\n");
        let mut sent = 0;
        socket.write_all(head.as_bytes()).await.expect("the head");
        // The body never ends by itself.
        loop {
            let chunk = [format!("{:x}\r\n", piece.len()).as_bytes(), &piece, b"\r\n"].concat();
            if socket.write_all(&chunk).await.is_err() {
                return sent;
            }
            sent += piece.len();
        }
    });
    let options = TransportOptions {
        max_answer_bytes: limit,
        ..TransportOptions::default()
    };
    let functions = HttpFunctions::new(&format!("http://{address}"), options).expect("an address");
    let called = functions
        .call_function(
            FunctionKind::Query,
            "events:head",
            &json!({}),
            Duration::ZERO,
        )
        .await;
    assert!(
        matches!(called, Err(BackendError::Oversized { .. })),
        "{called:?}"
    );
    serving
        .join_next()
        .await
        .expect("it served")
        .expect("it did not panic")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f65_no_answer_is_read_beyond_the_limit_however_it_is_packed() {
    const MIB: usize = 1 << 20;
    // The socket buffers between server and client hold a few MiB.
    let sent = sent_of(vec![b' '; 64 << 10], "", 4 * MIB).await;
    assert!(sent < 24 * MIB, "{sent} bytes went out");
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    bomb.write_all(&vec![b' '; 50 * MIB]).expect("packed");
    let bomb = bomb.finish().expect("packed");
    assert!(bomb.len() < MIB, "a bomb is small");
    sent_of(bomb, "content-encoding: gzip\r\n", 4 * MIB).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_toxic_on_the_way_loses_or_repeats_anything() {
    let setup = RunnerFixture::new().await;
    let proxy = FaultyProxy::before(&setup.setting.url);
    let _runner = setup.run_at(&proxy.url);
    let ms = Duration::from_millis;
    let toxics = [
        ConnectionFault::ResetAsking(0),
        ConnectionFault::ResetAsking(300),
        ConnectionFault::ResetAnswering(0),
        ConnectionFault::ResetAnswering(150),
        ConnectionFault::Timeout(ms(5)),
        ConnectionFault::Latency(ms(20)),
    ];
    let functions = ["events:claim", "events:appendResult"];
    for (n, toxic) in toxics.into_iter().enumerate() {
        for function in functions {
            let before = proxy.marked_requests();
            proxy.poison_those_with(function, toxic);
            let id = setup
                .ask(
                    ToolCall::bash(&format!("echo {n} {function} >> effects"))
                        .in_conversation("talk"),
                )
                .await;
            wait_until("a faulty call", || proxy.marked_requests() > before).await;
            proxy.clear_faults();
            assert_eq!(
                setup.answer(&id).await.outcome,
                "ok",
                "{toxic:?} at {function}"
            );
        }
    }
    let effects = setup.read("effects");
    let distinct: BTreeSet<&str> = effects.lines().collect();
    assert_eq!(effects.lines().count(), 12, "each ran once: {effects}");
    assert_eq!(distinct.len(), 12, "each ran once: {effects}");
}
