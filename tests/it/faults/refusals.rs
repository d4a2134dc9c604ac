//! Refused credentials, a wrong clock, a lost lease: no result is lost, and the backend is not flooded.

use punie_dev_backend::InjectedFault;
use punie_engine::journal::RequestState;
use serde_json::json;

use crate::harness::caller::ToolCall;
use crate::harness::relay::{CallFate, Relay};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;

/// A command that writes a file when it begins, and ends when `go` exists.
fn gated_call(name: &str) -> ToolCall {
    ToolCall::bash(&format!(
        "echo ran >> {name}; until [ -e go ]; do sleep 0.02; done"
    ))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f34_an_expired_token_is_renewed_once_by_all_that_notice() {
    const CALLS: usize = 8;
    let setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    let _runner = setup.run_at(&relay.url);
    let mut asked = Vec::new();
    for n in 0..CALLS {
        asked.push(setup.ask(gated_call(&format!("ran-{n}"))).await);
    }
    for n in 0..CALLS {
        setup.wait_for_line_in(&format!("ran-{n}")).await;
    }
    let old = relay.calls("events:claim")[0].args["token"].clone();
    let opened = relay.calls("devices:openSession").len();
    relay.rule(move |_, args| {
        if args["token"] == old {
            return CallFate::say("401 Unauthorized", "", "{\"code\":\"Unauthenticated\"}");
        }
        CallFate::Pass
    });
    setup.write("go", "");
    for id in &asked {
        setup.answer(id).await.expect_ok();
        setup.wait_for_state(id, RequestState::Delivered).await;
        assert_eq!(relay.posts(id).1, 1);
    }
    assert_eq!(
        relay.calls("devices:openSession").len(),
        opened + 1,
        "one refresh for all of them"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f34_a_refused_refresh_is_not_tried_by_each_and_the_outbox_is_kept() {
    let setup = RunnerFixture::new().await;
    setup.configure("unauthorized_ms = 200", "unauthorized_ms = 3600000");
    let relay = Relay::before(&setup.setting.url).await;
    relay.rule(|_, _| CallFate::say("401 Unauthorized", "", "{\"code\":\"Unauthenticated\"}"));
    // The listing of open requests, the poll, the heartbeat and the catalog all start at once.
    let runner = setup.run_at(&relay.url);
    runner.wait_for_log("refuses this device").await;
    runner.wait_for_log("could not be polled").await;
    setup.status().await;
    assert_eq!(
        relay.calls("devices:openSession").len(),
        1,
        "one attempt for all of them"
    );
    assert!(
        relay.calls("events:listForDevice").len() <= 1,
        "the runner polls no further after the refusal"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f35_a_revoked_device_claims_no_more_keeps_its_results_and_does_not_hammer() {
    let setup = RunnerFixture::new().await;
    setup.configure("unauthorized_ms = 200", "unauthorized_ms = 3600000");
    let relay = Relay::before(&setup.setting.url).await;
    let runner = setup.run_at(&relay.url);
    runner.wait_for_log("the catalog is published").await;
    let first = setup.ask(gated_call("first")).await;
    setup.wait_for_line_in("first").await;
    let opened = relay.calls("devices:openSession").len();
    relay.rule(|_, _| CallFate::say("403 Forbidden", "", "{\"code\":\"DeviceRevoked\"}"));
    setup.write("go", "");
    setup.wait_for_state(&first, RequestState::Finished).await;
    runner.wait_for_log("refuses this device").await;
    // The poll that was held since before brings the request. The runner accepts it and no longer claims it.
    let second = setup.ask_bash("echo ran >> second").await;
    setup.wait_for_state(&second, RequestState::Accepted).await;
    let claims = relay.calls("events:claim").len();
    let status = setup.status().await;
    assert_fields!(status, {"/backend/trouble": "refused", "/outbox/pending": 1});
    for _ in 0..3 {
        setup.status().await;
    }
    assert_eq!(relay.calls("events:claim").len(), claims);
    assert_eq!(relay.calls("devices:openSession").len(), opened + 1);
    assert!(
        relay.calls("events:appendResult").len() <= 1,
        "the refused post is not repeated"
    );
    assert_eq!(setup.read("second"), "");
    assert_eq!(setup.state(&first), Some(RequestState::Finished));
    runner.kill();

    // `--once` ends with the exit code for a refusal, and everything stays stored for later.
    let ended = setup.command_at(&relay.url, &["--once"]).await;
    assert_eq!(ended.code, Some(77), "{ended:?}");
    relay.rule(|_, _| CallFate::Pass);
    let _runner = setup.run_at(&relay.url);
    for id in [&first, &second] {
        setup.wait_for_state(id, RequestState::Delivered).await;
        assert_eq!(relay.posts(id).1, 1);
    }
    assert_eq!(setup.read("second"), "ran\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f54_a_clock_ten_minutes_off_is_corrected_from_the_date_and_told() {
    for skew_s in [600, -600] {
        let setup = RunnerFixture::with_skewed_clock(skew_s * 1_000).await;
        setup.faults.plan("*", None, InjectedFault::Date(skew_s));
        let before = setup.faults.calls("devices:heartbeat");
        let fresh = setup.ask_bash("echo ran").await;
        let old = setup
            .ask(ToolCall::bash("echo late").with("deadlineMs", json!(1_000.0)))
            .await;
        setup.once().await;
        setup.answer(&fresh).await.expect_ok();
        setup.answer(&old).await.expect_error("expired");
        // One heartbeat learns the time before a deadline is judged, and one signs off. No signature was refused as
        // stale.
        assert_eq!(setup.faults.calls("devices:heartbeat") - before, 2);
        let skew = setup.status().await["backend"]["clockSkewMs"]
            .as_i64()
            .expect("known");
        assert!((skew - skew_s * 1_000).abs() < 60_000, "{skew}");
        let told = setup.command(&["status"]).await.out;
        let which = if skew_s > 0 { "behind" } else { "ahead of" };
        assert_contains!(told, "clock is", &format!("min {which} the backend's"));
    }
    let setup = RunnerFixture::new().await;
    setup.once().await;
    assert!(
        !setup.command(&["status"]).await.out.contains("clock is"),
        "two clocks that agree are no news"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f66_a_lease_lost_during_an_effect_does_not_kill_it_and_is_said() {
    let setup = RunnerFixture::with_config("[limits]\nlease_renew_ms = 100\n").await;
    let relay = Relay::before(&setup.setting.url).await;
    let runner = setup.run_at(&relay.url);
    let id = setup
        .ask_bash("echo begun > begun; until [ -e go ]; do sleep 0.02; done; echo whole > effect")
        .await;
    setup.wait_for_line_in("begun").await;
    // Another process with this identity claims the request, after our lease ran out unnoticed.
    let claim = relay.calls("events:claim")[0].args.clone();
    relay.rule(|path, _| {
        if path == "events:claim" {
            CallFate::Unheard
        } else {
            CallFate::Pass
        }
    });
    // A renewal that was already under way could still renew after the clock moved. The second one from here on is
    // dropped.
    let renewals = relay.calls("events:claim").len();
    wait_until("two dropped renewals", || {
        relay.calls("events:claim").len() >= renewals + 2
    })
    .await;
    setup.advance_backend(120_000);
    let mut other = claim;
    other["leaseId"] = json!("another-process");
    let body = json!({ "path": "events:claim", "args": other, "format": "json" }).to_string();
    let post = crate::harness::caller::http_client()
        .post(format!("{}/api/mutation", setup.setting.url))
        .body(body);
    let taken = post
        .header("content-type", "application/json")
        .send()
        .await
        .expect("an answer");
    assert_contains!(taken.text().await.expect("a text"), r#""granted":true"#);
    relay.rule(|_, _| CallFate::Pass);
    runner
        .wait_for_log("the lease of a running call was lost")
        .await;
    setup.write("go", "");
    setup.wait_for_state(&id, RequestState::Undeliverable).await;
    assert_eq!(
        setup.read("effect"),
        "whole\n",
        "it was not killed in the middle"
    );
    let posts = relay.calls("events:appendResult");
    assert_eq!(posts.len(), 1);
    let payload: serde_json::Value =
        serde_json::from_str(posts[0].args["payload"].as_str().expect("a payload")).expect("JSON");
    assert_eq!(payload["meta"]["leaseLost"], true, "{payload}");
    assert_eq!(posts[0].answer["errorData"]["code"], "LEASE_LOST");
    assert!(
        setup.caller.result(&id).await.is_none(),
        "the other process answers"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f34_a_session_refused_over_http_is_opened_once() {
    let setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    let _runner = setup.run_at(&relay.url);
    setup.bash("true").await;
    let opened = relay.calls("devices:openSession").len();
    let mut refused = false;
    relay.rule(move |path, _| {
        if path == "events:appendResult" && !std::mem::replace(&mut refused, true) {
            return CallFate::say("401 Unauthorized", "", "{}");
        }
        CallFate::Pass
    });
    let id = setup.ask_bash("echo ran").await;
    setup.wait_for_state(&id, RequestState::Delivered).await;
    wait_until("the session", || {
        relay.calls("devices:openSession").len() == opened + 1
    })
    .await;
    assert_eq!(relay.posts(&id), (2, 1));
}
