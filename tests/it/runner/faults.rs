//! A backend or a network that misbehaves: no request is lost, and no faulty answer is taken for a valid one.

use punie_engine::journal::RequestState;
use serde_json::json;
use std::collections::BTreeSet;

use crate::harness::caller::ToolCall;
use crate::harness::relay::{CallFate, Relay};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;

/// Applies this fate to the first `times` calls of a function, and passes on all other calls.
fn fail_first(
    times: usize,
    of: &'static str,
    fate: impl Fn() -> CallFate + Send + 'static,
) -> impl FnMut(&str, &serde_json::Value) -> CallFate + Send {
    let mut seen = 0;
    move |path, _| {
        if path != of || seen == times {
            return CallFate::Pass;
        }
        seen += 1;
        fate()
    }
}

/// The name of a fault, and the function that makes it.
type Misbehaviour = (&'static str, fn() -> CallFate);

const FUNCTIONS: [&str; 4] = [
    "events:listForDevice",
    "events:claim",
    "events:appendResult",
    "devices:heartbeat",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_misbehaviour_of_the_way_loses_or_repeats_anything() {
    let fates: [Misbehaviour; 9] = cases! {
        ("unheard", || CallFate::Unheard),
        ("the answer lost", || CallFate::AnswerLost),
        ("cut in its head", || CallFate::Cut(9)),
        ("cut in its body", || CallFate::Cut(120)),
        ("a login page", || {
            CallFate::say(
                "200 OK",
                "content-type: text/html\r\n",
                "<html>Please log in</html>",
            )
        }),
        ("a redirect", || {CallFate::say("302 Found", "location: http://192.0.2.1/login\r\n", "")}),
        ("overloaded", || {
            CallFate::say(
                "503 Service Unavailable",
                "retry-after: 0\r\n",
                "{\"code\":\"Overloaded\"}",
            )
        }),
        ("too many", || {CallFate::say("429 Too Many Requests", "", "{\"code\":\"RateLimited\"}")}),
        ("unauthorized", || {
            CallFate::say("401 Unauthorized", "", "{\"code\":\"Unauthenticated\"}")
        }),
    };
    let setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    let _runner = setup.run_at(&relay.url);
    for (name, fate) in fates {
        for function in FUNCTIONS {
            relay.rule(fail_first(2, function, fate));
            let ask = ToolCall::bash(&format!("echo '{name}, {function}' >> effects"))
                .in_conversation("talk");
            let answer = setup.call(ask).await;
            assert_eq!(answer.outcome, "ok", "{name} at {function}: {answer:?}");
        }
    }
    let effects = setup.read("effects");
    assert_eq!(effects.lines().count(), 9 * FUNCTIONS.len(), "{effects}");
    let distinct: BTreeSet<&str> = effects.lines().collect();
    assert_eq!(
        distinct.len(),
        9 * FUNCTIONS.len(),
        "each ran once: {effects}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_backend_asks_for_quiet_replies_wait_and_none_is_lost() {
    let setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    // The wait is longer than this test can take, so no second post is made.
    relay.rule(|path, _| match path {
        "events:appendResult" => {
            CallFate::say("429 Too Many Requests", "retry-after: 600\r\n", "{}")
        }
        _ => CallFate::Pass,
    });
    let runner = setup.run_at(&relay.url);
    let first = setup.ask_bash("echo one").await;
    wait_until("the refused post", || {
        relay.calls("events:appendResult").len() == 1
    })
    .await;
    let mut more = Vec::new();
    for n in 0..5 {
        more.push(setup.ask_bash(&format!("echo {n}")).await);
    }
    for id in &more {
        setup.wait_for_state(id, RequestState::Finished).await;
    }
    assert_eq!(
        relay.calls("events:appendResult").len(),
        1,
        "replies wait as they are asked to"
    );
    let status = setup.command(&["--json", "status"]).await.json();
    assert_eq!(status["outbox"]["pending"], 6, "{status}");
    // The results survive the runner.
    runner.kill();
    relay.rule(|_, _| CallFate::Pass);
    let _runner = setup.run_at(&relay.url);
    for id in more.iter().chain([&first]) {
        setup.answer(id).await.expect_ok();
        setup.wait_for_state(id, RequestState::Delivered).await;
        assert_eq!(relay.posts(id).1, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_reply_that_the_backend_cannot_store_holds_up_no_other() {
    let setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    let stuck = setup.ask_bash("echo stuck").await;
    let only = stuck.clone();
    let broken =
        json!({ "status": "error", "errorMessage": "[Request ID: 1] Server Error" }).to_string();
    relay.rule(move |path, args| match path {
        "events:appendResult" if args["requestId"] == only.as_str() => {
            CallFate::say("200 OK", "", &broken)
        }
        _ => CallFate::Pass,
    });
    let _runner = setup.run_at(&relay.url);
    setup.wait_for_state(&stuck, RequestState::Finished).await;
    for n in 0..20 {
        setup.bash(&format!("echo {n}")).await.expect_ok();
    }
    relay.rule(|_, _| CallFate::Pass);
    assert_contains!(setup.answer(&stuck).await.text(), "stuck");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_process_answered_is_closed_and_not_run() {
    let setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    // As if another process with this identity had answered the request just before our claim.
    relay.rule(|path, args| match path {
        "events:claim" if args["leaseId"] != "other" => CallFate::say(
            "200 OK",
            "",
            &json!({ "status": "success", "value": {
                "granted": false, "reason": "finished", "attempt": 1.0, "cancelled": false, "expiresInMs": 0.0,
            } })
            .to_string(),
        ),
        _ => CallFate::Pass,
    });
    let _runner = setup.run_at(&relay.url);
    let id = setup.ask_bash("echo ran >> effects").await;
    setup.wait_for_state(&id, RequestState::Delivered).await;
    assert_eq!(setup.read("effects"), "");
    assert_eq!(relay.posts(&id), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_that_hangs_costs_no_other_call_its_lease() {
    let setup =
        RunnerFixture::with_config("[limits]\nlease_ms = 120000\nlease_renew_ms = 200\n").await;
    let relay = Relay::before(&setup.setting.url).await;
    let _runner = setup.run_at(&relay.url);
    let gate = "until [ -e go ]; do sleep 0.02; done";
    let hanging = setup.ask(ToolCall::bash(gate).in_conversation("one")).await;
    let other = setup
        .ask(ToolCall::bash(gate).in_conversation("other"))
        .await;
    for id in [&hanging, &other] {
        setup.wait_for_state(id, RequestState::Started).await;
    }
    let hangs = hanging.clone();
    relay.rule(move |path, args| {
        if path == "events:claim" && args["requestId"] == hangs.as_str() {
            CallFate::Hang
        } else {
            CallFate::Pass
        }
    });
    let renewed = || {
        relay
            .calls("events:claim")
            .iter()
            .filter(|call| call.args["requestId"] == other)
            .count()
    };
    let before = renewed();
    wait_until("the other one to be renewed again and again", || {
        renewed() >= before + 8
    })
    .await;
    setup.write("go", "");
    let answer = setup.answer(&other).await;
    assert!(
        answer.payload["meta"].get("leaseLost").is_none(),
        "{answer:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_is_in_the_journal_although_nobody_runs_it_is_answered_by_this_process() {
    let setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    relay.rule(|path, _| {
        if path == "events:claim" {
            CallFate::Unheard
        } else {
            CallFate::Pass
        }
    });
    let _runner = setup.run_at(&relay.url);
    let id = setup.ask_bash("echo ran >> effects").await;
    setup.wait_for_state(&id, RequestState::Accepted).await;
    // The state after a commit that was made, but reported as failed.
    let journal = rusqlite::Connection::open(setup.setting.home.join("state/journal.sqlite3"))
        .expect("opens");
    journal
        .busy_timeout(std::time::Duration::from_secs(30))
        .expect("set");
    let started =
        "update request set state = 'started', attempt = 1 where id = ? and state = 'accepted'";
    assert_eq!(journal.execute(started, [&id]).expect("written"), 1);
    relay.rule(|_, _| CallFate::Pass);
    setup.answer(&id).await.expect_error("interrupted");
    assert_eq!(setup.read("effects"), "", "it is not run");
}
