//! Clocks that are set wrong, and machines that sleep. The backend's clock decides deadlines, and timers do not count
//! sleep. A request that was answered long ago is not run again. The clocks are injected, so no test takes as long as
//! it simulates.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use punie_core::clock::ExpiryClock;
use punie_engine::journal::RequestState;
use punie_engine::runner::Clock;
use punie_tool::request::{ToolEffect, ToolReply};
use punie_tool::{DeclaredAccess, Tool, ToolContext, ToolError, ToolRegistry, ToolSet};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use crate::harness::caller::ToolCall;
use crate::harness::inside::{RunnerInProcess, settings_with};
use crate::harness::relay::{CallFate, Relay};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::{wait_for_some, wait_until};

const POLL: &str = "events:listForDevice";
const MINUTE: i64 = 60_000;
const DAY: i64 = 86_400_000;
const YEAR: i64 = 365 * DAY;

/// Counts its calls, and may then wait until it is cancelled.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CountEffects {
    #[serde(default)]
    waits: bool,
}

#[derive(Default)]
struct CountedEffects(AtomicU32);

impl Tool for CountEffects {
    const NAME: &'static str = "Count";
    const EFFECT: ToolEffect = ToolEffect::Executes;
    type Deps = Arc<CountedEffects>;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::none()
    }

    async fn run(
        self,
        cx: &ToolContext,
        counted: &Arc<CountedEffects>,
    ) -> Result<ToolReply, ToolError> {
        counted.0.fetch_add(1, Ordering::SeqCst);
        if self.waits {
            cx.wait_for_cancel().await;
            return Err(ToolError::call_cancelled("told to stop"));
        }
        Ok(ToolReply::from_text("counted"))
    }
}

/// The offsets of the device's clocks from the true time, in milliseconds.
#[derive(Default)]
struct ClocksAhead {
    time_of_day: AtomicI64,
    since_boot: AtomicI64,
}

impl ClocksAhead {
    fn clock(self: &Arc<Self>) -> Clock {
        let day = Arc::clone(self);
        let boot = Arc::clone(self);
        Clock::from_time_fns(
            move || system_ms() + day.time_of_day.load(Ordering::SeqCst),
            move || system_ms() + boot.since_boot.load(Ordering::SeqCst),
        )
    }

    /// Moves the clocks of the backend and of the device on together.
    fn pass(&self, ms: i64, setup: &RunnerFixture) {
        setup.advance_backend(ms);
        self.since_boot.fetch_add(ms, Ordering::SeqCst);
        self.time_of_day.fetch_add(ms, Ordering::SeqCst);
    }
}

fn system_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970");
    i64::try_from(since.as_millis()).expect("not so far away")
}

/// Starts a device with these clocks behind a relay. It lists all open requests often.
async fn device_ahead(
    ahead: &Arc<ClocksAhead>,
) -> (RunnerFixture, Relay, Arc<CountedEffects>, RunnerInProcess) {
    let mut setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    setup.setting.url.clone_from(&relay.url);
    let counted = Arc::new(CountedEffects::default());
    let runner = start_runner(&setup, ahead, &counted);
    (setup, relay, counted, runner)
}

fn start_runner(
    setup: &RunnerFixture,
    ahead: &Arc<ClocksAhead>,
    counted: &Arc<CountedEffects>,
) -> RunnerInProcess {
    let settings = settings_with(|settings| {
        settings.poll.list_open = Duration::from_millis(50);
        settings.housekeeping_interval = Duration::from_millis(300);
        settings.waits.retry = (Duration::from_millis(20), Duration::from_millis(200));
    });
    let tools = ToolSet::new("test", Arc::clone(counted))
        .with_tool::<CountEffects>()
        .into_entries();
    let tools = ToolRegistry::new([tools]).expect("one tool");
    RunnerInProcess::with_tools(setup, tools, settings, |parts| {
        parts.clock = ahead.clock();
        parts.expiry = ExpiryClock::from_known_time(ahead.clock(), None);
    })
}

fn count_call() -> ToolCall {
    ToolCall::new("Count", &json!({}))
}

/// Waits until the runner has listed all open requests once more, from beginning to end.
async fn a_round(relay: &Relay) {
    let before = relay.calls("events:listOpenIds").len();
    wait_until("two more listings of open requests", || {
        relay.calls("events:listOpenIds").len() >= before + 2
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f39_what_is_offered_again_29_days_later_is_known_and_after_30_it_is_forgotten() {
    let ahead = Arc::new(ClocksAhead::default());
    let (setup, relay, counted, runner) = device_ahead(&ahead).await;
    let id = setup.ask(count_call()).await;
    setup.wait_for_state(&id, RequestState::Delivered).await;
    let pages = relay.calls(POLL);
    let events = pages.iter().flat_map(|page| {
        page.answer["value"]["events"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    });
    let request = events
        .map(|event| event["request"].clone())
        .find(|request| request["requestId"] == id.as_str());
    let again =
        json!({ "status": "success", "value": [request.expect("it was offered")] }).to_string();
    ahead.pass(29 * DAY, &setup);
    relay.rule(move |path, _| match path {
        "events:listOpenIds" => CallFate::say("200 OK", "", &again),
        _ => CallFate::Pass,
    });
    a_round(&relay).await;
    a_round(&relay).await;
    // The stop also ends a listing under way. One that arrived after the request is forgotten would bring it back as
    // new.
    runner.stop().await;
    relay.rule(|_, _| CallFate::Pass);
    assert_eq!(
        setup.state(&id),
        Some(RequestState::Delivered),
        "it is remembered"
    );
    assert_eq!(
        (counted.0.load(Ordering::SeqCst), relay.posts(&id)),
        (1, (1, 1)),
        "it is neither run nor posted"
    );
    ahead.pass(2 * DAY, &setup);
    let runner = start_runner(&setup, &ahead, &counted);
    wait_until("it to be forgotten", || setup.state(&id).is_none()).await;
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f52_after_a_sleep_it_polls_at_once_and_what_has_expired_is_not_run() {
    let ahead = Arc::new(ClocksAhead::default());
    let (setup, relay, counted, runner) = device_ahead(&ahead).await;
    runner.stop().await;
    // The backend may still hold a poll of the stopped runner. The relay records it only with its answer, but under its
    // old time.
    let since = Instant::now();
    let arrived = Arc::new(AtomicUsize::new(0));
    let answered = || {
        let polls = relay.calls(POLL);
        polls.iter().filter(|poll| poll.at > since).count()
    };
    let seen = Arc::clone(&arrived);
    // The relay drops every claim, so that the request waits for one.
    relay.rule(move |path, _| {
        seen.fetch_add(usize::from(path == POLL), Ordering::SeqCst);
        if path == "events:claim" {
            CallFate::Unheard
        } else {
            CallFate::Pass
        }
    });
    let runner = start_runner(&setup, &ahead, &counted);
    let late = setup.ask(count_call().in_conversation("late")).await;
    setup.wait_for_state(&late, RequestState::Accepted).await;
    let polls = || arrived.load(Ordering::SeqCst);
    // A held poll is like a connection that dies during the sleep: no answer comes, since the backend holds polls for
    // 25 s.
    wait_until("a poll that is held", || polls() == answered() + 1).await;
    let before = polls();
    ahead.pass(11 * MINUTE, &setup);
    wait_until("a poll after the sleep", || polls() > before).await;
    relay.rule(|_, _| CallFate::Pass);
    let answer = setup.answer(&late).await;
    let life = setup.command(&["--json", "history", &late]).await.out;
    assert_eq!(answer.verdict(), ("error", "expired"), "{answer:?} {life}");
    assert_eq!(counted.0.load(Ordering::SeqCst), 0, "it was not run");
    setup.call(count_call()).await.expect_ok();
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f52_a_call_that_runs_is_over_at_its_deadline_and_not_because_of_the_sleep() {
    let ahead = Arc::new(ClocksAhead::default());
    let (setup, _relay, counted, runner) = device_ahead(&ahead).await;
    let waits =
        |talk: &str| ToolCall::new("Count", &json!({ "waits": true })).in_conversation(talk);
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let deadline = (system_ms() + 5 * MINUTE) as f64;
    let dated = setup
        .ask(waits("dated").with("deadlineMs", json!(deadline)))
        .await;
    let free = setup.ask(waits("free")).await;
    wait_until("both to run", || counted.0.load(Ordering::SeqCst) == 2).await;
    // Longer than the longest time limit of a call, if sleep counted.
    ahead.pass(90 * MINUTE, &setup);
    setup.answer(&dated).await.expect_error("timeout");
    assert_eq!(
        setup.state(&free),
        Some(RequestState::Started),
        "it was awake for seconds only"
    );
    setup.caller.cancel(&free).await;
    assert_eq!(setup.answer(&free).await.outcome, "cancelled");
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f53_a_clock_that_is_set_wrong_expires_nothing_and_forgets_nothing() {
    let ahead = Arc::new(ClocksAhead::default());
    let (setup, relay, counted, runner) = device_ahead(&ahead).await;
    let mut known = vec![setup.ask(count_call()).await];
    setup
        .wait_for_state(&known[0], RequestState::Delivered)
        .await;
    for moved in [YEAR, -DAY, -YEAR] {
        ahead.time_of_day.store(moved, Ordering::SeqCst);
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        let deadline = |ms: i64| json!((system_ms() + ms) as f64);
        let before = counted.0.load(Ordering::SeqCst);
        for ask in [
            count_call(),
            count_call().with("deadlineMs", deadline(MINUTE)),
        ] {
            let id = setup.ask(ask).await;
            assert_eq!(setup.answer(&id).await.outcome, "ok", "moved by {moved} ms");
            setup.wait_for_state(&id, RequestState::Delivered).await;
            known.push(id);
        }
        let past = setup
            .ask(count_call().with("deadlineMs", deadline(-MINUTE)))
            .await;
        assert_eq!(
            setup.answer(&past).await.verdict(),
            ("error", "expired"),
            "moved by {moved} ms"
        );
        assert_eq!(counted.0.load(Ordering::SeqCst), before + 2);
        a_round(&relay).await;
        for id in &known {
            assert_eq!(
                setup.state(id),
                Some(RequestState::Delivered),
                "forgotten, moved by {moved} ms"
            );
        }
    }
    // A new process starts while the clock is still wrong.
    runner.stop().await;
    let runner = start_runner(&setup, &ahead, &counted);
    let id = setup.ask(count_call()).await;
    setup.answer(&id).await.expect_ok();
    a_round(&relay).await;
    assert_eq!(setup.state(&known[0]), Some(RequestState::Delivered));
    wait_for_some("the clock skew in the health", async || {
        let health = setup.caller.health().await;
        (health["degraded"] == json!(["clock_skew"])).then_some(())
    })
    .await;
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_is_given_up_a_week_after_its_request_expired_and_not_before() {
    let ahead = Arc::new(ClocksAhead::default());
    let (setup, relay, _counted, runner) = device_ahead(&ahead).await;
    relay.rule(|path, _| {
        if path == "events:appendResult" {
            CallFate::Unheard
        } else {
            CallFate::Pass
        }
    });
    let id = setup.ask(count_call()).await;
    setup.wait_for_state(&id, RequestState::Finished).await;
    ahead.pass(7 * DAY, &setup);
    a_round(&relay).await;
    assert_eq!(
        setup.state(&id),
        Some(RequestState::Finished),
        "its ten minutes come before the week"
    );
    ahead.pass(11 * MINUTE, &setup);
    setup.wait_for_state(&id, RequestState::Undeliverable).await;
    let status = setup.command(&["--json", "status"]).await.json();
    assert_fields!(status, {"/outbox/undeliverable": 1, "/outbox/pending": 0});
    let life = setup.command(&["--json", "history", &id]).await.json();
    assert_eq!(life["request"]["state"], "undeliverable");
    assert!(
        life["request"]["failedPosts"]
            .as_u64()
            .is_some_and(|posts| posts > 0),
        "{life}"
    );
    let failed: Vec<_> = life["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .filter(|s| s["what"] == "post failed")
        .collect();
    assert_eq!(
        failed.len(),
        1,
        "the same again and again is one step: {life}"
    );
    runner.stop().await;
}

#[tokio::test]
async fn f52_connections_of_before_a_sleep_are_not_used_again() {
    use punie_engine::backend::{FunctionKind, HttpFunctions, TransportOptions};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
        .await
        .expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let opened = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&opened);
    let mut serving = tokio::task::JoinSet::new();
    serving.spawn(async move {
        let mut open = tokio::task::JoinSet::new();
        while let Ok((mut socket, _)) = listener.accept().await {
            counting.fetch_add(1, Ordering::SeqCst);
            open.spawn(async move {
                let mut seen = Vec::new();
                // The body of every call ends with these bytes. The connection stays open.
                while let Ok(byte) = socket.read_u8().await {
                    seen.push(byte);
                    if seen.ends_with(b"\"format\":\"json\"}") {
                        seen.clear();
                        let body = r#"{"status":"success","value":1}"#;
                        let answer = format!(
                            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
                            body.len()
                        );
                        socket.write_all(answer.as_bytes()).await.expect("sent");
                    }
                }
            });
        }
    });
    let functions = HttpFunctions::new(&url, TransportOptions::default()).expect("an address");
    let call = async || {
        functions
            .call_function(FunctionKind::Query, "a:b", &json!({}), Duration::ZERO)
            .await
            .expect("answered")
    };
    call().await;
    call().await;
    assert_eq!(opened.load(Ordering::SeqCst), 1, "a connection is kept");
    functions.clone().refresh_connections();
    call().await;
    assert_eq!(
        opened.load(Ordering::SeqCst),
        2,
        "and forgotten after a sleep"
    );
}
