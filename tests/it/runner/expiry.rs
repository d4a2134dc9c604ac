//! Requests that are too late by the backend's clock, and requests that are late only by this device's clock.

use std::time::{SystemTime, UNIX_EPOCH};

use punie_engine::journal::RequestState;
use serde_json::json;

use crate::harness::caller::ToolCall;
use crate::harness::relay::{CallFate, Relay};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::{wait_until, with_enough_time};

const HOUR: i64 = 3_600_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_past_its_deadline_or_too_old_is_answered_and_not_run() {
    let setup = RunnerFixture::new().await;
    let late = setup
        .ask(ToolCall::bash("echo late >> effects").with("deadlineMs", json!(1_000.0)))
        .await;
    let read = setup
        .ask(ToolCall::new("Glob", &json!({ "pattern": "*" })).with("deadlineMs", json!(1_000.0)))
        .await;
    let old = setup.ask_bash("echo old >> effects").await;
    // A request with its own deadline does not expire by age.
    let patient =
        ToolCall::bash("echo patient >> effects").with("deadlineMs", json!(4_000_000_000_000.0));
    let patient = setup.ask(patient).await;
    setup.advance_backend(11 * 60_000);
    let fresh = setup
        .ask(ToolCall::bash("echo fresh >> effects").in_conversation("later"))
        .await;
    let pass = setup.once().await;
    assert_fields!(pass, {"delivered": 5, "pending": 0});
    for id in [&late, &read, &old] {
        setup.answer(id).await.expect_error("expired");
    }
    for id in [&patient, &fresh] {
        setup.answer(id).await.expect_ok();
    }
    let effects = setup.read("effects");
    assert_lacks!(effects, "late", "old");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_off_expires_nothing() {
    for skew in [-3 * HOUR, 5 * HOUR] {
        let setup = RunnerFixture::with_skewed_clock(skew).await;
        // Each pass is a process of its own that opens no session, so it must learn the time before it judges. The
        // second pass could use the offset that the first stored, but the third cannot.
        for forgotten in [false, false, true] {
            if forgotten {
                let journal = setup.setting.home.join("state/journal.sqlite3");
                let journal = rusqlite::Connection::open(journal).expect("opens");
                journal
                    .execute("delete from backend_fact where key = 'clock_offset_ms'", [])
                    .expect("forgotten");
            }
            let fresh = setup.ask_bash("echo ran").await;
            let old = ToolCall::bash("echo ran").with("deadlineMs", json!(1_000.0));
            let old = setup.ask(old).await;
            setup.once().await;
            assert_eq!(
                setup.answer(&fresh).await.outcome,
                "ok",
                "with a skew of {skew} ms"
            );
            setup.answer(&old).await.expect_error("expired");
        }
        let status = setup.command(&["--json", "status"]).await.json();
        let seen = status["backend"]["clockSkewMs"].as_i64().expect("known");
        assert!((seen - skew).abs() < 60_000, "{status}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_expires_while_it_waits_for_its_claim_is_not_run() {
    for is_closed_there in [false, true] {
        // The device knows the backend's time only to within the length of a call, which is seconds on a busy machine.
        with_enough_time(1_000, async |past_ms| {
            expires_unclaimed(is_closed_there, past_ms)
                .await
                .then_some(())
        })
        .await;
    }
}

/// Lets a request expire this long ago while the backend receives no claim. Returns whether the runner did not run it.
async fn expires_unclaimed(is_closed_there: bool, past_ms: u64) -> bool {
    let setup = RunnerFixture::new().await;
    let relay = relay_without_claims(&setup).await;
    let _runner = setup.run_at(&relay.url);
    let soon = now_ms() + 1_500.0;
    let id = setup
        .ask(ToolCall::bash("echo ran >> effects").with("deadlineMs", json!(soon)))
        .await;
    // On a slow machine the request is already late.
    wait_until("the request to be known", || setup.state(&id).is_some()).await;
    let past_ms = u32::try_from(past_ms).expect("a short time");
    wait_until("the deadline to be well past", || {
        now_ms() > soon + f64::from(past_ms)
    })
    .await;
    if is_closed_there {
        setup.advance_backend(3 * 60_000);
        setup.close_overdue().await;
    }
    relay.rule(|_, _| CallFate::Pass);
    if setup.answer(&id).await.verdict() != ("error", "expired") {
        return false;
    }
    assert_eq!(setup.read("effects"), "");
    setup.wait_for_state(&id, RequestState::Delivered).await;
    let status = setup.command(&["status"]).await.out;
    assert_lacks!(status, "does not know");
    true
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_that_comes_after_the_backends_own_answer_is_delivered() {
    let setup = RunnerFixture::new().await;
    let relay = relay_without_claims(&setup).await;
    let _runner = setup.run_at(&relay.url);
    let soon = now_ms() + 60_000.0;
    let ask = ToolCall::new("Bash", &json!({})).with("deadlineMs", json!(soon));
    let id = setup.ask(ask).await;
    setup.wait_for_state(&id, RequestState::Finished).await;
    setup.advance_backend(3 * 60_000);
    setup.close_overdue().await;
    relay.rule(|_, _| CallFate::Pass);
    setup.answer(&id).await.expect_error("expired");
    setup.wait_for_state(&id, RequestState::Delivered).await;
}

/// Starts a relay to the backend that drops each claim.
async fn relay_without_claims(setup: &RunnerFixture) -> Relay {
    let relay = Relay::before(&setup.setting.url).await;
    relay.rule(|path, _| {
        if path == "events:claim" {
            CallFate::Unheard
        } else {
            CallFate::Pass
        }
    });
    relay
}

fn now_ms() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970")
        .as_secs_f64()
        * 1_000.0
}
