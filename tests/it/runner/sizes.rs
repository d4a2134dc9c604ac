//! Results at the size limits of the backend and the network.

use punie_engine::journal::RequestState;
use serde_json::json;

use crate::harness::caller::ToolCall;
use crate::harness::relay::{CallFate, Relay};
use crate::harness::stage::RunnerFixture;

/// Refuses every payload above `limit`, and may name that limit.
fn refuse_above(
    limit: usize,
    named: bool,
) -> impl FnMut(&str, &serde_json::Value) -> CallFate + Send {
    move |path, args| match args["payload"].as_str() {
        Some(payload) if path == "events:appendResult" && payload.len() > limit => {
            let mut data = json!({ "code": "TOO_LARGE" });
            if named {
                data["limit"] = json!(limit);
            }
            CallFate::refuse(&data)
        }
        _ => CallFate::Pass,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_is_too_large_for_the_backend_is_shrunk_once_and_delivered() {
    let setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    relay.rule(refuse_above(5_000, true));
    let _runner = setup.run_at(&relay.url);
    let id = setup.ask_bash("seq 1 4000").await;
    let answer = setup.answer(&id).await;
    assert!(
        answer.raw.len() <= 5_000 && answer.payload["meta"]["truncated"] == true,
        "{answer:?}"
    );
    assert_contains!(answer.text(), "1", "4000"; "head and tail");
    setup.wait_for_state(&id, RequestState::Delivered).await;
    assert_eq!(relay.posts(&id), (2, 1), "shrunk once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backend_that_names_no_limit_gets_less_and_less_until_it_fits() {
    let setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    relay.rule(refuse_above(1_500, false));
    let _runner = setup.run_at(&relay.url);
    let answer = setup.bash("seq 1 4000").await;
    assert!(
        answer.raw.len() <= 1_500 && answer.outcome == "ok",
        "{answer:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn something_on_the_way_that_takes_less_gets_less() {
    let setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    relay.rule(|path, args| match args["payload"].as_str() {
        Some(payload) if path == "events:appendResult" && payload.len() > 9_000 => CallFate::say(
            "413 Content Too Large",
            "content-type: text/html\r\n",
            "<html>413</html>",
        ),
        _ => CallFate::Pass,
    });
    let _runner = setup.run_at(&relay.url);
    let answer = setup.bash("seq 1 4000").await;
    assert!(
        answer.raw.len() <= 9_000 && answer.text().contains("4000"),
        "{answer:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_arguments_and_results_come_through_whole() {
    let setup = RunnerFixture::new().await;
    // Many large requests that grow when they are escaped: more than one page, and a long list of open requests.
    let content: String = "\"quoted\\ and \u{1f980}\"\n".repeat(20_000);
    let mut asked = Vec::new();
    for n in 0..12 {
        let args = json!({ "file_path": format!("big-{n}"), "content": content });
        asked.push(
            setup
                .ask(ToolCall::new("Write", &args).in_conversation("talk"))
                .await,
        );
    }
    let args = json!({ "file_path": "big-0", "max_chars": 200_000 });
    let big = ToolCall::new("Read", &args).in_conversation("talk");
    let big = setup.ask(big).await;
    let pass = setup.once().await;
    assert_fields!(pass, {"polled": 13, "delivered": 13});
    for n in 0..12 {
        assert_eq!(setup.read(&format!("big-{n}")), content);
    }
    for id in &asked {
        setup.answer(id).await.expect_ok();
    }
    assert!(setup.answer(&big).await.raw.len() > 40_000);
}
