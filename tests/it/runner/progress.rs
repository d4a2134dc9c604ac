//! Output of a running command reaches the caller while the command runs. It is masked, and never delays the result.

use serde_json::{Value, json};

use crate::harness::caller::ToolCall;
use crate::harness::process::RunningProgram;
use crate::harness::proxy::{ConnectionFault, FaultyProxy};
use crate::harness::relay::{CallFate, Relay};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::{wait_for_some, wait_until};

/// Prints, waits for a file, and prints again.
const TALK: &str = "echo first words; until [ -e go ]; do sleep 0.02; done; echo last words";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_command_is_seen_before_it_ends() {
    let setup = RunnerFixture::new().await;
    let _runner = setup.run();
    let id = setup
        .ask(ToolCall::bash(TALK).with("progress", json!(true)))
        .await;
    let pieces = wait_for_some("a piece", async || {
        Some(setup.caller.progress_pieces(&id).await).filter(|p| !p.is_empty())
    })
    .await;
    assert_eq!(pieces, [json!({ "text": "first words\n" })]);
    assert!(setup.caller.result(&id).await.is_none(), "it still runs");
    setup.write("go", "");
    assert_eq!(setup.answer(&id).await.text(), "first words\nlast words");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_masked_in_what_is_shown_too() {
    let setup = RunnerFixture::new().await;
    let _runner = setup.run();
    setup.bash("true").await;
    let token = std::fs::read_to_string(setup.setting.tokens().join("device"))
        .expect("there")
        .trim()
        .to_owned();
    // Once unchanged, and once with an escape sequence inside, which the shown text leaves out.
    let (half, rest) = token.split_at(token.len() / 2);
    setup.write(
        "leak.txt",
        &format!(
            "before {token} then {half}\u{1b}[0m{rest} after\n{}\n",
            "x".repeat(300)
        ),
    );
    let id = setup
        .ask(
            ToolCall::bash("cat leak.txt; until [ -e go ]; do sleep 0.02; done")
                .with("progress", json!(true)),
        )
        .await;
    let pieces = wait_for_some("a piece", async || {
        Some(setup.caller.progress_pieces(&id).await).filter(|p| !p.is_empty())
    })
    .await;
    let shown = Value::from(pieces).to_string();
    assert_contains!(shown, "before", "after");
    assert_lacks!(shown, &token);
    setup.write("go", "");
    setup.answer(&id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backend_that_takes_no_progress_delays_no_result() {
    let setup = RunnerFixture::new().await;
    let proxy = FaultyProxy::before(&setup.setting.url);
    proxy.poison_those_with("events:appendProgress", ConnectionFault::BlackHole);
    let _runner = setup.run_at(&proxy.url);
    let id = setup
        .ask(ToolCall::bash(TALK).with("progress", json!(true)))
        .await;
    wait_until("a piece on its way", || proxy.marked_requests() > 0).await;
    setup.write("go", "");
    assert_eq!(setup.answer(&id).await.text(), "first words\nlast words");
    assert_eq!(proxy.marked_requests(), 1, "one at a time, none again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_is_learned_from_the_answer_to_a_piece() {
    let setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    let id = setup
        .ask(
            ToolCall::bash("while :; do echo again; sleep 0.1; done").with("progress", json!(true)),
        )
        .await;
    // Only the first poll gets through, so no poll reports the cancel.
    let mut polls = 0;
    relay.rule(move |path, _| {
        polls += usize::from(path == "events:listForDevice");
        if path == "events:listForDevice" && polls > 1 {
            CallFate::Unheard
        } else {
            CallFate::Pass
        }
    });
    let _runner = setup.run_at(&relay.url);
    wait_until("a piece", || {
        !relay.calls("events:appendProgress").is_empty()
    })
    .await;
    setup.caller.cancel(&id).await;
    assert_eq!(
        setup.answer(&id).await.verdict(),
        ("cancelled", "cancelled")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_told_where_the_owner_wants_none() {
    let setup = RunnerFixture::with_config("[backend]\nprogress_ms = 0\n").await;
    let relay = Relay::before(&setup.setting.url).await;
    let _runner = setup.run_at(&relay.url);
    let answer = setup
        .call(ToolCall::bash("echo a; sleep 1.3; echo b").with("progress", json!(true)))
        .await;
    assert_eq!(answer.text(), "a\nb");
    assert!(relay.calls("events:appendProgress").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn send_shows_it_beside_the_answer() {
    let setup = RunnerFixture::new().await;
    let _runner = setup.run();
    let args = json!({ "command": TALK }).to_string();
    let caller = &setup.caller;
    let variables = [
        ("PUNIE_CALLER_TOKEN", caller.token.as_ref()),
        ("PUNIE_DEVICE", caller.device.as_ref()),
    ];
    let send = RunningProgram::start_with(
        &setup.setting,
        &["--log", "off", "send", "Bash", &args, "--progress"],
        &variables,
    );
    send.wait_for_log("first words\n").await;
    setup.write("go", "");
    let ended = send.end().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.out, "first words\nlast words\n", "{ended:?}");
}

/// Prints often, until a file exists.
const CHATTER: &str = "echo begun > begun; until [ -e go ]; do echo word; sleep 0.02; done";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_told_while_nobody_listens_and_all_of_it_once_somebody_does() {
    let setup = RunnerFixture::with_config("[limits]\nlease_renew_ms = 1000\n").await;
    let relay = Relay::before(&setup.setting.url).await;
    let _runner = setup.run_at(&relay.url);
    let id = setup.ask_bash(CHATTER).await;
    setup.wait_for_line_in("begun").await;
    let told = || relay.calls("events:appendProgress").len();
    // The command has run for longer than any pause between pieces.
    wait_until("renewals of the lease", || {
        relay.calls("events:claim").len() >= 4
    })
    .await;
    assert_eq!(told(), 0, "nobody listens");
    // A query cannot write, so reading the pieces does not register a listener.
    assert!(setup.caller.progress_pieces(&id).await.is_empty());

    assert_eq!(setup.caller.watch_progress(&id).await, "watching");
    let pieces = wait_for_some("a piece", async || {
        Some(setup.caller.progress_pieces(&id).await).filter(|p| !p.is_empty())
    })
    .await;
    assert!(
        pieces[0]["text"]
            .as_str()
            .expect("text")
            .starts_with("word\nword\n"),
        "from the beginning: {pieces:?}"
    );
    wait_until("more pieces", || told() >= 2).await;

    setup.advance_backend(61_000);
    // The reply to a piece or to a renewal of the lease says so, depending on which comes first.
    wait_until("a reply that the caller no longer listens", || {
        ["events:appendProgress", "events:claim"]
            .iter()
            .any(|path| {
                relay
                    .calls(path)
                    .last()
                    .is_some_and(|call| call.answer["value"]["watched"] == false)
            })
    })
    .await;
    let renewed = relay.calls("events:claim").len();
    wait_until("a renewal, by when a piece under way is over", || {
        relay.calls("events:claim").len() > renewed
    })
    .await;
    let before = told();
    wait_until("two more renewals", || {
        relay.calls("events:claim").len() >= renewed + 3
    })
    .await;
    assert_eq!(told(), before, "nobody listens any more");
    setup.write("go", "");
    setup.answer(&id).await.expect_ok();
}
