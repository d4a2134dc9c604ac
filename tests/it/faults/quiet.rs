//! A backend that asks for longer waits: every call of the runner obeys.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use punie_dev_backend::InjectedFault;
use punie_engine::journal::RequestState;

use super::announced_waits;
use crate::harness::relay::{CallFate, Relay};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;

const FUNCTIONS: [&str; 7] = [
    "devices:openSession",
    "devices:heartbeat",
    "events:listForDevice",
    "events:listOpenIds",
    "events:claim",
    "events:appendResult",
    "catalog:upsertMany",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f29_no_call_is_made_again_before_the_time_that_the_backend_named() {
    let setup = RunnerFixture::new().await;
    // At a new address the runner has no session, and must open one.
    let relay = Relay::before(&setup.setting.url).await;
    let mut refused = BTreeSet::new();
    relay.rule(move |path, _| {
        if refused.insert(path.to_owned()) {
            return CallFate::say(
                "429 Too Many Requests",
                "retry-after: 1\r\n",
                "{\"code\":\"TooManyWrites\"}",
            );
        }
        CallFate::Pass
    });
    let _runner = setup.run_at(&relay.url);
    let id = setup.ask_bash("echo ran >> effects").await;
    setup.wait_for_state(&id, RequestState::Delivered).await;
    for function in FUNCTIONS {
        wait_until(&format!("{function} twice"), || {
            relay.calls(function).len() >= 2
        })
        .await;
        let calls = relay.calls(function);
        let waited = calls[1].at.duration_since(calls[0].at);
        assert!(
            waited >= Duration::from_secs(1),
            "{function} came again after {waited:?}"
        );
    }
    assert_eq!(setup.read("effects"), "ran\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f30_the_time_may_be_a_date_or_past_or_absurd() {
    let date = |ahead: i64| {
        let now = SystemTime::now();
        let by = Duration::from_secs(ahead.unsigned_abs());
        let at = if ahead < 0 {
            now.checked_sub(by)
        } else {
            now.checked_add(by)
        };
        httpdate::fmt_http_date(at.expect("a date"))
    };
    // The header, with the least and the most milliseconds until the next poll. The configured back-off ends at 200.
    for (retry_after, least, most) in [
        (date(300), 200_000, 330_000),
        (date(-300), 0, 4 * 200),
        ("99999999".to_owned(), 600_000, 660_000),
        ("99999999999999999999999".to_owned(), 600_000, 660_000),
        (date(86_400 * 3_650), 600_000, 660_000),
        ("whenever".to_owned(), 0, 4 * 200),
    ] {
        let setup = RunnerFixture::new().await;
        let fault = InjectedFault::Status {
            status: 429,
            code: "TooManyWrites".to_owned(),
            retry_after: Some(retry_after.clone()),
        };
        setup.faults.plan("events:listForDevice", 1, fault);
        let runner = setup.run();
        wait_until("a failed poll", || !announced_waits(&runner).is_empty()).await;
        let wait = announced_waits(&runner)[0];
        assert!((least..=most).contains(&wait), "{retry_after:?}: {wait} ms");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f31_an_overloaded_backend_is_asked_seldom_by_everything_together() {
    const CALLS: usize = 12;
    // All calls of one runner share one budget of retries.
    let setup = RunnerFixture::new().await;
    setup.configure("error_cap_ms = 200", "error_cap_ms = 600000");
    let relay = Relay::before(&setup.setting.url).await;
    let runner = setup.run_at(&relay.url);
    runner.wait_for_log("the catalog is published").await;
    let calls = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&calls);
    relay.rule(move |path, _| {
        *counted.lock().expect("not poisoned") += usize::from(path == "events:claim");
        match path {
            "events:claim" => CallFate::say(
                "503 Service Unavailable",
                "",
                "{\"code\":\"WorkerOverloaded\"}",
            ),
            _ => CallFate::Pass,
        }
    });
    let mut asked = Vec::new();
    for n in 0..CALLS {
        asked.push(setup.ask_bash(&format!("echo {n} >> effects")).await);
    }
    for id in &asked {
        setup.wait_for_state(id, RequestState::Accepted).await;
    }
    // Each call asks once. All early retries together stay within the initial budget and a fifth of the successes.
    // Without a budget, each call would retry from 20 ms on, in doubling intervals.
    wait_until("the first claims", || {
        *calls.lock().expect("not poisoned") >= CALLS
    })
    .await;
    for _ in 0..3 {
        setup.status().await;
    }
    let made = *calls.lock().expect("not poisoned");
    assert!(made <= CALLS + 40, "{made} claims");
    assert_eq!(setup.read("effects"), "");
}
