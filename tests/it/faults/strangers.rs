//! Another server answers in the backend's place: with a login page, or with a redirect to an unknown host.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use punie_engine::journal::RequestState;
use punie_engine::runner::RunnerSettings;
use punie_tool::{ToolRegistry, ToolSet};
use serde_json::json;

use super::absence::AwaitFile;
use super::polls_fail;
use crate::harness::caller::ToolCall;
use crate::harness::inside::RunnerInProcess;
use crate::harness::relay::{CallFate, Relay};
use crate::harness::stage::RunnerFixture;
use crate::harness::stepped_time::SteppedTime;
use crate::harness::wait::wait_until;

fn login_page(status: &str) -> CallFate {
    CallFate::say(
        status,
        "content-type: text/html\r\n",
        "<html>Please log in</html>",
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f32_a_login_page_is_not_an_empty_page_and_status_says_so() {
    let setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    // Captive portals answer with all of these.
    for status in [
        "200 OK",
        "403 Forbidden",
        "511 Network Authentication Required",
    ] {
        relay.rule(move |_, _| login_page(status));
        let ended = setup.command_at(&relay.url, &["--once"]).await;
        assert_eq!(
            ended.code,
            Some(69),
            "it did not find nothing to do: {ended:?}"
        );
    }
    relay.rule(|_, _| login_page("200 OK"));
    let looked = setup
        .command_at(&relay.url, &["--json", "status"])
        .await
        .json();
    assert_fields!(looked, {"/backend/trouble": "intercepted", "/backend/reachable": false});

    let runner = setup.run_at(&relay.url);
    let id = setup.ask_bash("echo ran >> effects").await;
    polls_fail(&runner, 3).await;
    wait_until("the runner to say so", || {
        setup.journal_note("backend_trouble").as_deref() == Some("intercepted")
    })
    .await;
    // This `status` could reach the backend itself, and still reports the trouble of the runner.
    let backend = &setup.status().await["backend"];
    assert_fields!(backend, {"trouble": "intercepted", "reachable": false});
    assert_contains!(setup.command(&["status"]).await.out, "intercepted");
    relay.rule(|_, _| CallFate::Pass);
    setup.answer(&id).await.expect_ok();
    setup.wait_for_state(&id, RequestState::Delivered).await;
    wait_until("the trouble to be over", || {
        setup.journal_note("backend_trouble").as_deref() == Some("")
    })
    .await;
    assert_eq!(
        setup.status().await["backend"]["trouble"],
        serde_json::Value::Null
    );
}

type MakeFate = Arc<dyn Fn() -> CallFate + Send + Sync>;

/// The most calls in a minute of an outage: one poll every four seconds, and one other call every 15 seconds.
const MOST_CALLS_A_MINUTE: usize = 25;

#[tokio::test]
async fn five_seconds_after_a_stranger_is_gone_everything_is_answered_and_it_was_asked_seldom() {
    let redirect = |status: &str| CallFate::say(status, "location: http://portal.test/\r\n", "");
    let strangers: [(&str, MakeFate); 4] = cases! {
        ("a login page", Arc::new(|| login_page("200 OK"))),
        ("a redirect", Arc::new(move || redirect("302 Found"))),
        ("a redirect with its body", Arc::new(move || redirect("307 Temporary Redirect"))),
        ("nothing", Arc::new(|| CallFate::Unheard)),
    };
    let step = Duration::from_millis(250);
    for (who, fate) in strangers {
        let setup = RunnerFixture::with_unheld_polls("").await;
        let relay = Relay::before(&setup.setting.url).await;
        let tools = ToolSet::new("test", ())
            .with_tool::<AwaitFile>()
            .into_entries();
        let tools = ToolRegistry::new([tools]).expect("one tool");
        let ask = async |talk: &str| {
            let ask = ToolCall::new("Await", &json!({ "file": setup.file("go") }));
            setup.ask(ask.in_conversation(talk)).await
        };
        let mut time = SteppedTime::stop();
        let settings = RunnerSettings::default();
        let runner = RunnerInProcess::with_stepped_time(
            &setup,
            &relay.url,
            tools,
            settings,
            &mut time,
            |_| {},
        );
        let mut asked = vec![ask("runs").await];
        time.move_until("the call", step, || {
            setup.state(&asked[0]) == Some(RequestState::Started)
        })
        .await;
        let only_claims = Arc::clone(&fate);
        relay.rule(move |path, _| match path {
            "events:claim" => only_claims(),
            _ => CallFate::Pass,
        });
        asked.push(ask("waits-for-its-claim").await);
        time.move_until("the second call", step, || {
            setup.state(&asked[1]) == Some(RequestState::Accepted)
        })
        .await;
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        relay.rule(move |_, _| {
            counted.fetch_add(1, Ordering::Relaxed);
            fate()
        });
        setup.write("go", "");
        for talk in ["sent-first", "sent-second", "sent-third"] {
            asked.push(ask(talk).await);
        }
        time.pass(Duration::from_mins(2), step).await;
        let before = calls.load(Ordering::Relaxed);
        time.pass(Duration::from_mins(1), step).await;
        let made = calls.load(Ordering::Relaxed) - before;
        assert!(made <= MOST_CALLS_A_MINUTE, "{who} was asked {made} times");
        relay.rule(|_, _| CallFate::Pass);
        let took = time
            .move_until("all answers", step, || {
                let is_there = |id: &String| setup.state(id) == Some(RequestState::Delivered);
                asked.iter().all(is_there)
            })
            .await;
        assert!(took <= Duration::from_secs(5), "{who}: {took:?}");
        drop((runner, time));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f36_a_redirect_is_not_followed_and_the_token_not_sent() {
    let setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    let elsewhere = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    elsewhere.set_nonblocking(true).expect("set");
    let address = elsewhere.local_addr().expect("an address");
    // A client that follows a 307 or 308 sends the body along, with the token in it.
    for status in [
        "301 Moved",
        "302 Found",
        "303 See Other",
        "307 Temporary Redirect",
        "308 Permanent Redirect",
    ] {
        let location = format!("location: http://{address}/api/query\r\n");
        relay.rule(move |_, _| CallFate::say(status, &location, ""));
        let ended = setup.command_at(&relay.url, &["--once"]).await;
        assert_eq!(ended.code, Some(69), "{status}: {ended:?}");
        assert_contains!(ended.log, "redirect");
        let came = elsewhere.accept();
        assert!(
            came.is_err_and(|none| none.kind() == std::io::ErrorKind::WouldBlock),
            "{status} was followed"
        );
    }
    let looked = setup
        .command_at(&relay.url, &["--json", "status"])
        .await
        .json();
    assert_eq!(looked["backend"]["trouble"], "intercepted");
    assert!(elsewhere.accept().is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_where_no_backend_ever_answered_is_called_probably_wrong() {
    let setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    relay.rule(|_, _| {
        CallFate::say(
            "404 Not Found",
            "content-type: text/plain\r\n",
            "no such page",
        )
    });
    let ended = setup.command_at(&relay.url, &["--once"]).await;
    let sentence = format!(
        "no event backend answers at {} (from PUNIE_BACKEND_URL): it answered 404. Check the address",
        relay.url
    );
    assert!(
        ended.code == Some(69) && ended.log.contains(&sentence),
        "{ended:?}"
    );
    let without_runner = setup
        .command_at(&relay.url, &["--json", "status"])
        .await
        .json();
    assert_eq!(without_runner["backend"]["trouble"], "no_backend");
    let runner = setup.run_at(&relay.url);
    runner.wait_for_log(&sentence).await;
    wait_until("the runner to say so", || {
        setup.journal_note("backend_trouble").as_deref() == Some("no_backend")
    })
    .await;
    let words = setup.command_at(&relay.url, &["status"]).await.out;
    assert_contains!(words, "404): check the address");
    // Once a backend has answered at this address, a 404 means that it is under repair.
    relay.rule(|_, _| CallFate::Pass);
    wait_until("the trouble to be over", || {
        setup.journal_note("backend_trouble").as_deref() == Some("")
    })
    .await;
    relay.rule(|_, _| CallFate::say("404 Not Found", "", "{}"));
    wait_until("the journal to record a busy backend", || {
        setup.journal_note("backend_trouble").as_deref() == Some("busy")
    })
    .await;
}
