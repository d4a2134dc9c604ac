//! Faulty pages: unreadable events, repeated and changed requests, and more than fits into one answer.

use punie_engine::journal::RequestState;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::harness::caller::ToolCall;
use crate::harness::relay::{CallFate, Relay};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_request_spoils_no_page() {
    let mut setup = RunnerFixture::new().await;
    let before = setup.ask_bash("echo one >> ran").await;
    let bad = setup.ask_bash("echo bad >> ran").await;
    let worse = setup.ask_bash("echo worse >> ran").await;
    let after = setup.ask_bash("echo two >> ran").await;
    setup.stop_backend().await;
    let db = setup.database();
    db.execute(
        "update requests set conversation_id = 'not a key' where request_id = ?1",
        [&bad],
    )
    .expect("spoilt");
    db.execute(
        "update requests set tool_name = 'no tool!' where request_id = ?1",
        [&worse],
    )
    .expect("spoilt");
    setup.start_backend().await;
    let pass = setup.once().await;
    assert_eq!(pass["pending"], 0, "{pass}");
    for id in [&before, &after] {
        setup.answer(id).await.expect_ok();
    }
    for id in [&bad, &worse] {
        let text = setup.answer(id).await.expect_error("invalid_args");
        assert_contains!(text, "cannot be read");
    }
    let mut ran: Vec<String> = setup.read("ran").lines().map(str::to_owned).collect();
    ran.sort_unstable();
    assert_eq!(ran, ["one", "two"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_offered_twice_in_a_page_and_again_later_runs_once() {
    let mut setup = RunnerFixture::new().await;
    let id = setup.ask_bash("echo ran >> effects").await;
    let offer_again = |setup: &RunnerFixture| {
        let db = setup.database();
        db.execute(
            "insert into inbox (device_id, seq, place, type, request_id) \
             select device_id, (select max(seq) + 1 from inbox), 0, 'tool_request', request_id from requests \
             where request_id = ?1",
            [&id],
        )
        .expect("offered again");
        db.execute(
            "update clock set last_seq = (select max(seq) from inbox)",
            [],
        )
        .expect("moved on");
    };
    setup.stop_backend().await;
    offer_again(&setup);
    setup.start_backend().await;
    let pass = setup.once().await;
    assert_fields!(pass, {"polled": 1, "delivered": 1});
    setup.stop_backend().await;
    offer_again(&setup);
    setup.start_backend().await;
    let pass = setup.once().await;
    assert_fields!(pass, {"polled": 0, "executed": 0});
    assert_eq!(setup.read("effects"), "ran\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cursor_that_is_lost_or_goes_back_repeats_nothing() {
    let setup = RunnerFixture::new().await;
    for n in 0..5 {
        setup
            .ask(ToolCall::bash(&format!("echo {n} >> effects")).in_conversation("talk"))
            .await;
    }
    setup.once().await;
    let journal = rusqlite::Connection::open(setup.setting.home.join("state/journal.sqlite3"))
        .expect("opens");
    assert_eq!(
        journal
            .execute("delete from backend_fact where key = 'cursor'", [])
            .expect("forgotten"),
        1
    );
    let pass = setup.once().await;
    assert_fields!(pass, {"polled": 0, "executed": 0});
    assert_eq!(setup.read("effects"), "0\n1\n2\n3\n4\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missed_event_is_found_by_looking_at_everything_open() {
    let setup =
        RunnerFixture::with_config("[backend]\nlist_open_ms = 100\nlistening_list_open_ms = 100\n")
            .await;
    let relay = Relay::before(&setup.setting.url).await;
    // No poll returns an event.
    let empty =
        json!({ "status": "success", "value": { "events": [], "cursor": null, "isDone": true } });
    relay.rule(move |path, _| match path {
        "events:listForDevice" => CallFate::say("200 OK", "", &empty.to_string()),
        _ => CallFate::Pass,
    });
    let _runner = setup.run_at(&relay.url);
    wait_until("the listing of open requests at the start", || {
        !relay.calls("events:listOpenIds").is_empty()
    })
    .await;
    let answer = setup.bash("echo found").await;
    assert_contains!(answer.text(), "found");
    // While a request that the listing found runs, the runner fetches its body once, however often it is listed.
    let id = setup
        .ask_bash("echo begun > begun; until [ -e go ]; do sleep 0.02; done")
        .await;
    setup.wait_for_line_in("begun").await;
    let listed = || relay.calls("events:listOpenIds").len();
    let before = listed();
    wait_until("three more listings", || listed() >= before + 3).await;
    let last = relay.calls("events:listOpenIds").pop().expect("a listing");
    assert_eq!(
        last.answer["value"],
        json!([{ "requestId": id, "cancelled": false }]),
        "ids alone"
    );
    let bodies: Vec<_> = relay
        .calls("events:listOpen")
        .iter()
        .map(|call| call.args["requestIds"].clone())
        .collect();
    assert_eq!(
        bodies.iter().filter(|ids| **ids == json!([id])).count(),
        1,
        "{bodies:?}"
    );
    // The listing also reports a cancel.
    setup.caller.cancel(&id).await;
    assert_eq!(
        setup.answer(&id).await.verdict(),
        ("cancelled", "cancelled")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_do_not_fit_one_answer_are_asked_for_in_turn() {
    let setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    let empty =
        json!({ "status": "success", "value": { "events": [], "cursor": null, "isDone": true } });
    relay.rule(move |path, _| match path {
        "events:listForDevice" => CallFate::say("200 OK", "", &empty.to_string()),
        _ => CallFate::Pass,
    });
    let mut asked = Vec::new();
    // Twelve bodies of 800 KB exceed the 4 MiB of an answer twice.
    for n in 0..70 {
        let content = if n % 6 == 0 {
            "x".repeat(800_000)
        } else {
            "words".to_owned()
        };
        let args = json!({ "file_path": format!("{n}.txt"), "content": content });
        asked.push(setup.ask(ToolCall::new("Write", &args)).await);
    }
    let _runner = setup.run_at(&relay.url);
    for id in &asked {
        setup.answer(id).await.expect_ok();
    }
    assert_eq!(setup.read("60.txt").len(), 800_000);
    assert_eq!(setup.read("69.txt"), "words");
    assert!(relay.calls("events:listOpen").len() >= 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promise_that_nobody_works_on_is_taken_up_when_it_is_offered_again() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    runner.wait_for_log("the catalog is published").await;
    // The state that a process leaves if it ends right after it accepted a request.
    let args = json!({ "command": "echo ran >> effects" }).to_string();
    let id = punie_core::ids::RequestId::new();
    let hash = Sha256::digest([b"Bash\0".as_slice(), args.as_bytes()].concat()).to_vec();
    let journal = rusqlite::Connection::open(setup.setting.home.join("state/journal.sqlite3"))
        .expect("opens");
    journal
        .busy_timeout(std::time::Duration::from_secs(30))
        .expect("set");
    journal
        .execute(
            "insert into request (id, origin, tool, args, args_hash, conversation, effect, created_at_ms, \
             received_at_ms, state, lease_id) \
             values (?1, 'backend', 'Bash', ?2, ?3, ?1, 'executes', 0, 0, 'accepted', 'lease-of-before')",
            rusqlite::params![id.as_str(), args, hash],
        )
        .expect("inserted");
    setup
        .ask(ToolCall::bash("echo ran >> effects").with("requestId", json!(id.as_str())))
        .await;
    setup.answer(id.as_str()).await.expect_ok();
    setup
        .wait_for_state(id.as_str(), RequestState::Delivered)
        .await;
    assert_eq!(setup.read("effects"), "ran\n");
}
