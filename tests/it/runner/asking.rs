//! The runner asks where a person can answer: at its terminal, at `approvals --watch`, or through a caller that
//! listens. Otherwise it refuses the call at once.

use std::time::Instant;

use serde_json::json;

use crate::harness::caller::ToolCall;
use crate::harness::on_terminal::OnTerminal;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;

const ASKING: &str = "[policy]\nask = [\"executes\"]\n";
const PROMPT: &str = "[d]eny, [s]how (";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_nobody_can_be_asked_a_call_is_refused_at_once_and_says_so() {
    let setup = RunnerFixture::without_listener(ASKING).await;
    let _runner = setup.run();
    let answer = setup.bash("echo ran > effect").await;
    answer.expect_error("policy_denied");
    // After a wait for an answer, the text would name that wait instead.
    assert_contains!(
        answer.text(),
        "nobody can be asked now",
        "`punie-runner approvals --watch`"
    );
    assert_eq!(setup.read("effect"), "");
    let shown = setup.shown_history("@last").await;
    assert_contains!(shown, "Result nobody to ask", "denied nobody to ask");
    // From now on, the runner can ask a caller that reads the questions.
    assert!(setup.caller.questions().await.is_empty());
    let id = setup.ask_bash("echo ran > effect").await;
    let listed = setup.listed_question().await;
    assert_eq!(listed["requestId"], json!(id));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_without_a_terminal_prints_each_call_and_makes_it_wait() {
    let setup = RunnerFixture::without_listener(ASKING).await;
    let _runner = setup.run();
    let watch = setup.watch_approvals().await;
    let id = setup.ask_bash("echo ran > effect").await;
    wait_until("the call in its output", || watch.out().contains(&id)).await;
    let listed = setup.listed_question().await;
    let allowed = setup
        .command(&["approvals", "allow", listed["id"].as_str().expect("an id")])
        .await;
    assert_eq!(allowed.out, "Allowed.\n", "the answer counts");
    setup.answer(&id).await.expect_ok();
    let shown = setup.shown_history("@last").await;
    let words = "allowed by you with a command, after ";
    assert_contains!(shown, words);
    watch.kill();
    let answer = setup.bash("echo ran > effect").await;
    assert_contains!(answer.text(), "nobody can be asked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_on_a_terminal_asks_about_one_call_after_the_other() {
    let setup = RunnerFixture::without_listener(ASKING).await;
    let _runner = setup.run();
    let mut watch = OnTerminal::start(&setup.setting, &["approvals", "--watch"]);
    watch.shows("Waiting for calls that need approval.").await;
    setup.until_asker_announced().await;
    // Text typed before a question does not answer it.
    watch.types("a\n");
    let first = setup
        .ask(ToolCall::bash("echo one > first").in_conversation("one"))
        .await;
    for words in [
        "Bash waits for your approval:\n  command: echo one > first\n",
        &format!("Folder  {}\n", setup.setting.workspace.display()),
        "[a]llow once, [c]onversation, [d]eny, [s]how (",
        " min left): ",
    ] {
        watch.shows(words).await;
    }
    let second = setup
        .ask(ToolCall::bash("echo two > second").in_conversation("two"))
        .await;
    watch.types("yes\n");
    watch.shows("Type a, c, d or s, then Enter.").await;
    assert_eq!(setup.read("first"), "");
    assert_lacks!(watch.shown(), "echo two"; "one at a time");
    watch.types("a\n");
    setup.answer(&first).await.expect_ok();
    watch.shows("echo two > second").await;
    watch.shows_times(PROMPT, 3).await;
    watch.types("d\n");
    watch.shows("Denied.\n").await;
    let answer = setup.answer(&second).await;
    assert_starts_with!(
        answer.expect_error("policy_denied"),
        "The owner of this device denied this call"
    );
    let list = setup.command(&["history", "--failed"]).await.out;
    assert_contains!(list, "denied by you");
    assert_lacks!(list, "policy.ask");
    let shown = setup.shown_history(&second).await;
    assert_contains!(
        shown,
        "Result denied by you",
        "asked by policy.ask in config.toml",
        "denied by you at the terminal, after "
    );
    assert_eq!(setup.read("first"), "one\n");
    assert_eq!(setup.read("second"), "");
    // If the question is answered in another window, the prompt goes away.
    let third = setup.ask_bash("echo three > third").await;
    watch.shows_times(PROMPT, 4).await;
    let listed = setup.listed_question().await;
    setup
        .command(&["approvals", "allow", listed["id"].as_str().expect("an id")])
        .await;
    setup.answer(&third).await.expect_ok();
    watch.shows("This call no longer waits").await;
    watch.types("\u{3}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_terminal_of_a_runner_asks_below_its_log() {
    let setup = RunnerFixture::without_listener(ASKING).await;
    let mut runner = OnTerminal::start(&setup.setting, &["run"]);
    runner.shows("the runner is up").await;
    setup.until_asker_announced().await;
    let id = setup
        .ask(ToolCall::bash("echo one >> effect").in_conversation("talk"))
        .await;
    runner.shows(PROMPT).await;
    let before = runner.shown().len();
    let read = ToolCall::new("Glob", &json!({ "pattern": "*" })).in_conversation("other");
    setup.call(read).await.expect_ok();
    wait_until("a log line, and the prompt again below it", || {
        let shown = runner.shown();
        let since = &shown[before..];
        since.contains("debug: ") && since.contains("  Glob  ") && since.ends_with("left): ")
    })
    .await;
    let shown = runner.shown();
    let line = shown.lines().find(|line| line.contains("  Glob  "));
    let line = line.expect("the line of the call");
    let before_time = &line[..line.find("  Glob").expect("there") - "15:04:05".len()];
    assert!(
        before_time.is_empty() || before_time.ends_with("\r\u{1b}[K"),
        "not behind the prompt: {line:?}"
    );
    runner.types("c\n");
    setup.answer(&id).await.expect_ok();
    let again = ToolCall::bash("echo two >> effect").in_conversation("talk");
    setup.call(again).await.expect_ok();
    assert_eq!(setup.read("effect"), "one\ntwo\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn always_adds_a_rule_for_one_plain_command_only() {
    let setup = RunnerFixture::without_listener(ASKING).await;
    let mut runner = OnTerminal::start(&setup.setting, &["run"]);
    setup.until_asker_announced().await;
    let id = setup.ask_bash("touch one | cat").await;
    runner.shows(PROMPT).await;
    assert_lacks!(runner.shown(), "a[l]ways");
    runner.types("l\n");
    runner.shows("Type a, c, d or s, then Enter.").await;
    runner.types("d\n");
    assert_eq!(setup.answer(&id).await.outcome, "error");
    let id = setup.ask_bash("touch one").await;
    runner
        .shows("Always  adds to policy.toml: allow `touch one ...`")
        .await;
    runner
        .shows("[c]onversation, a[l]ways, [d]eny, [s]how (")
        .await;
    runner.types("l\n");
    setup.answer(&id).await.expect_ok();
    let rules = std::fs::read_to_string(setup.setting.home.join("policy.toml")).expect("rules");
    assert_contains!(rules, "command = [\"touch\", \"one\"]");
    runner
        .shows("The rule allow-touch-one was added to policy.toml.\n")
        .await;
    // The rule also covers another conversation, without a question.
    let again = ToolCall::bash("touch one").in_conversation("another");
    setup.call(again).await.expect_ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_call_is_read_whole_at_the_prompt_before_it_may_be_allowed() {
    let setup = RunnerFixture::without_listener(ASKING).await;
    let _runner = setup.run();
    let mut watch = OnTerminal::start(&setup.setting, &["approvals", "--watch"]);
    setup.until_asker_announced().await;
    let line = |c: &str| format!("echo {} > /dev/null", c.repeat(6_000));
    let command = format!("{}; echo ran > effect; {}", line("a"), line("b"));
    let id = setup.ask_bash(&command).await;
    watch.shows("[s]how all of it, [d]eny (").await;
    assert_lacks!(watch.shown(), "effect");
    watch.types("a\n");
    watch.shows("Type s or d, then Enter.").await;
    watch.types("s\n");
    watch.shows(PROMPT).await;
    assert_contains!(watch.shown(), &command);
    assert_eq!(setup.read("effect"), "");
    watch.types("a\n");
    setup.answer(&id).await.expect_ok();
    assert_eq!(setup.read("effect"), "ran\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_ends_a_minute_before_the_deadline_of_its_call() {
    let setup = RunnerFixture::with_config(ASKING).await;
    let _runner = setup.run();
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970");
    let deadline_ms = now.as_secs_f64() * 1_000.0 + 300_000.0;
    setup
        .ask(ToolCall::bash("true").with("deadlineMs", json!(deadline_ms)))
        .await;
    let listed = setup.listed_question().await;
    let expires = listed["expiresAtMs"].as_f64().expect("a time");
    assert!(
        (expires - (deadline_ms - 60_000.0)).abs() < 30_000.0,
        "{listed}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_list_on_a_terminal_has_columns() {
    let setup = RunnerFixture::with_config(ASKING).await;
    let _runner = setup.run();
    setup.ask_bash("echo ran > effect").await;
    let id = setup.listed_question().await["requestId"].to_string();
    let short = &id[id.len() - 9..id.len() - 1];
    let mut list = OnTerminal::start(&setup.setting, &["approvals"]);
    assert_eq!(list.end().await, Some(0));
    list.shows("show ID prints it all").await;
    let shown = list.shown();
    let lines: Vec<&str> = shown.lines().collect();
    let at = lines
        .iter()
        .position(|line| *line == "ID        TIME LEFT    TOOL  WHAT");
    let row = lines[at.unwrap_or_else(|| panic!("{shown}")) + 1];
    let (left, what) = row.split_at(23);
    assert_starts_with!(left, &format!("{short}  "); "{shown}");
    assert_ends_with!(left.trim_end(), " min"; "{shown}");
    assert_eq!(what, "Bash  echo ran > effect", "{shown}");
    let allowed = setup.command(&["approvals", "allow", short]).await;
    assert_eq!(allowed.code, Some(0), "{allowed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_wait_for_an_answer_is_no_part_of_the_time_that_a_call_took() {
    let setup = RunnerFixture::with_config(ASKING).await;
    let _runner = setup.run();
    let id = setup.ask_bash("true").await;
    setup.listed_question().await;
    let asked_at = Instant::now();
    wait_until("two seconds", || asked_at.elapsed().as_secs() >= 2).await;
    setup.command(&["approvals", "allow", "@last"]).await;
    let answer = setup.answer(&id).await;
    let shown = setup.command(&["history", &id, "--json"]).await.json();
    let request = &shown["request"];
    let time = |key: &str| request[key].as_i64().expect(key);
    assert!(
        time("startedAtMs") - time("receivedAtMs") >= 2_000
            && time("durationMs") <= time("finishedAtMs") - time("startedAtMs") + 1,
        "{request}"
    );
    assert_eq!(request["durationMs"], answer.payload["meta"]["durationMs"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_that_is_open_when_the_runner_stops_is_asked_again() {
    let setup = RunnerFixture::with_config(ASKING).await;
    let runner = setup.run();
    let id = setup.ask_bash("echo ran > effect").await;
    setup.listed_question().await;
    let status = setup.command(&["status"]).await.out;
    assert_contains!(status, "(Bash echo ran > effect)", " min left");
    runner.terminate();
    runner.end().await;
    let list = setup.command(&["approvals"]).await.out;
    let short = &id[id.len() - 8..];
    let again = format!(
        "When the runner starts, it asks again about:\n  {short}  Bash echo ran > effect\n"
    );
    assert_starts_with!(list, &again);
    let status = setup.command(&["status"]).await.out;
    assert_contains!(status, "asks again when it starts");
    let _runner = setup.run();
    setup.listed_question().await;
    let status = setup.command(&["status"]).await.out;
    assert_lacks!(status, "asks again");
    setup.command(&["approvals", "allow", short]).await;
    setup.answer(&id).await.expect_ok();
    assert_eq!(setup.read("effect"), "ran\n");
}
