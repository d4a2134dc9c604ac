//! The rights of callers and the profile of the device: the refused calls, with their code and text.

use serde_json::{Value, json};

use crate::harness::caller::{CallAnswer, ToolCall};
use crate::harness::process::RunningProgram;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_for_some;

fn read_call(path: &str) -> ToolCall {
    ToolCall::new("Read", &json!({ "file_path": path }))
}

fn write_call(path: &str) -> ToolCall {
    ToolCall::new("Write", &json!({ "file_path": path, "content": "new\n" }))
}

/// Checks that a call was refused with this code, and that its text has these words.
fn assert_refused(answer: &CallAnswer, code: &str, words: &[&str]) {
    answer.expect_error(code);
    for word in words {
        assert_contains!(answer.text(), word);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_calls_only_the_tools_of_its_rights() {
    let rights = "
[policy]
ask = [\"Write\"]
[callers.reader]
tools = [\"reads\", \"Task\", \"TaskOutput\"]
[callers.coder]
profile = \"minimal\"
";
    let setup = RunnerFixture::with_config(rights).await;
    setup.write("a.txt", "old\n");
    let runner = setup.run();
    let reader = setup.caller_named("reader");
    let coder = setup.caller_named("coder");
    assert_contains!(reader.call_and_wait(read_call("a.txt")).await.text(), "old");

    // The denial comes without a question.
    let denied = reader.ask(write_call("a.txt")).await;
    let answer = reader.answer(&denied).await;
    let words = [
        "Write was not run",
        "tools: reads, Task, TaskOutput",
        "`tools` and `profile` under [callers.reader]",
    ];
    assert_refused(&answer, "policy_denied", &words);
    assert!(setup.caller.questions().await.is_empty());
    assert_eq!(setup.read("a.txt"), "old\n");
    let shown = setup.shown_history(&denied).await;
    assert_contains!(shown, "callers.reader");

    // A task has the rights of the caller that started it.
    let args = json!({ "tool": "Bash", "args": { "command": "echo ran > ran" } });
    let started = reader.call_and_wait(ToolCall::new("Task", &args)).await;
    let text = started.text();
    let task = text.split_whitespace().nth(1).expect("a task");
    wait_for_some("the refusal of the task", async || {
        let output = ToolCall::new("TaskOutput", &json!({ "task_id": task }));
        let answer = reader.call_and_wait(output).await;
        answer.text().contains("[callers.reader]").then_some(answer)
    })
    .await;
    assert_eq!(setup.read("ran"), "");

    coder
        .call_and_wait(ToolCall::bash("echo hi"))
        .await
        .expect_ok();
    let answer = coder
        .call_and_wait(ToolCall::new("GitStatus", &json!({})))
        .await;
    assert_refused(
        &answer,
        "policy_denied",
        &["profile: minimal", "[callers.coder]"],
    );
    // A caller without rights of its own may do everything.
    setup.bash("echo more > b.txt").await.expect_ok();

    let rows = setup.command(&["--json", "audit"]).await.out;
    let of_denied = |row: &Value| row["requestId"] == *denied && row["event"] == "answered";
    let row: Value = rows
        .lines()
        .filter_map(|row| serde_json::from_str(row).ok())
        .find(of_denied)
        .unwrap_or_else(|| panic!("a row of the denial: {rows}"));
    let facts = [&row["caller"], &row["decision"], &row["rule"]];
    assert_eq!(facts, ["reader", "denied", "callers.reader"]);

    let shown = setup.command(&["tools", "--caller", "reader"]).await.out;
    assert_contains!(shown, "Grep");
    assert_lacks!(shown, "\nBash");
    assert_contains!(shown, "[callers.reader]");
    runner.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rights_of_other_callers_hold_from_the_next_call_and_a_nameless_request_has_none() {
    let setup = RunnerFixture::with_config("[callers.ci]\nrate = 1000\n").await;
    setup.write("a.txt", "old\n");
    let nameless = setup.ask(read_call("a.txt")).await;
    let named = setup.database();
    let cleared = named.execute("UPDATE requests SET caller_name = NULL", []);
    assert_eq!(cleared.expect("changed"), 1);
    let runner = setup.run();
    let words = ["does not name the caller", "[callers.default]"];
    assert_refused(&setup.answer(&nameless).await, "policy_denied", &words);
    setup.call(write_call("b.txt")).await.expect_ok();

    setup.configure(
        "[callers.ci]",
        "[callers.default]\ntools = [\"reads\"]\n[callers.ci]",
    );
    let words = ["tools: reads", "under [callers.default]"];
    assert_refused(
        &setup.call(write_call("c.txt")).await,
        "policy_denied",
        &words,
    );
    setup
        .caller_named("ci")
        .call_and_wait(write_call("c.txt"))
        .await
        .expect_ok();
    runner.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_above_the_rate_of_its_caller_is_refused_with_the_time_of_the_next() {
    let setup = RunnerFixture::with_config("[callers.test]\nrate = 2\n").await;
    setup.write("a.txt", "old\n");
    // All requests come in one page, so that no time passes between them.
    let mut asked = Vec::new();
    for n in 0..3 {
        asked.push(
            setup
                .ask(read_call("a.txt").in_conversation(&format!("talk-{n}")))
                .await,
        );
    }
    let runner = setup.run();
    let mut answers = Vec::new();
    for id in &asked {
        answers.push(setup.answer(id).await);
    }
    let (allowed, refused): (Vec<_>, Vec<_>) =
        answers.iter().partition(|answer| answer.outcome == "ok");
    assert_eq!((allowed.len(), refused.len()), (2, 1), "{answers:?}");
    let answer = refused[0];
    let words = [
        "try again in",
        "2 calls a minute",
        "`rate` under [callers.test]",
    ];
    assert_refused(answer, "busy", &words);
    assert_eq!(answer.payload["meta"]["retryable"], true);
    setup
        .caller_named("other")
        .call_and_wait(read_call("a.txt"))
        .await
        .expect_ok();
    runner.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_reaches_only_its_workspaces_and_runs_no_commands() {
    let setup = RunnerFixture::with_config("[callers.ci]\nworkspaces = [\"../mine\"]\n").await;
    let mine = setup.setting.home.with_file_name("mine");
    std::fs::create_dir(&mine).expect("made");
    setup.write("other.txt", "secret of another\n");
    std::fs::write(mine.join("a.txt"), "old\n").expect("written");
    std::os::unix::fs::symlink(setup.file("other.txt"), mine.join("link")).expect("made");
    let mine = mine.display().to_string();
    let work = setup.setting.workspace.display().to_string();
    let args = ["run", "--workspace", &work, "--workspace", &mine];
    let runner = RunningProgram::start(&setup.setting, &args);
    let ci = setup.caller_named("ci");
    let old = ci.call_and_wait(read_call(&format!("{mine}/a.txt"))).await;
    assert_contains!(old.text(), "old");
    ci.call_and_wait(write_call(&format!("{mine}/b.txt")))
        .await
        .expect_ok();
    let grep = ToolCall::new("Grep", &json!({ "pattern": "o", "path": mine }));
    ci.call_and_wait(grep).await.expect_ok();

    let outside = [
        "other.txt".to_owned(),
        format!("{work}/other.txt"),
        format!("{mine}/link"),
    ];
    for path in outside {
        let words = ["other.txt is outside", "[callers.ci]", &mine];
        assert_refused(
            &ci.call_and_wait(read_call(&path)).await,
            "outside_workspace",
            &words,
        );
    }
    assert_refused(
        &ci.call_and_wait(write_call("c.txt")).await,
        "outside_workspace",
        &["c.txt"],
    );
    let whole = ToolCall::new("Grep", &json!({ "pattern": "secret" }));
    assert_refused(
        &ci.call_and_wait(whole).await,
        "outside_workspace",
        &["name a path"],
    );
    for command in ["cat other.txt", "true"] {
        let answer = ci.call_and_wait(ToolCall::bash(command)).await;
        assert_refused(&answer, "outside_workspace", &["no commands"]);
    }
    assert_eq!(setup.read("c.txt"), "");
    let seen = setup.call(read_call("other.txt")).await;
    assert_contains!(seen.text(), "secret");
    runner.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_has_the_tools_of_its_profile_and_no_others() {
    let setup = RunnerFixture::with_config("[tools]\nprofile = \"minimal\"\n").await;
    let runner = setup.run();
    setup.call(write_call("a.txt")).await.expect_ok();
    for tool in ["GitStatus", "read_file"] {
        let answer = setup.call_tool(tool, &json!({})).await;
        assert_refused(&answer, "policy_denied", &["\"minimal\"", "[tools]"]);
    }
    let published = wait_for_some("the catalog", async || {
        let tools = setup.caller.tools().await;
        (!tools.is_empty()).then_some(tools)
    })
    .await;
    let names: Vec<&str> = published.iter().map(|(name, _)| name.as_str()).collect();
    let minimal = [
        "Bash",
        "Edit",
        "Glob",
        "Grep",
        "Read",
        "ReadOutput",
        "Write",
    ];
    assert_eq!(names, minimal);
    let called = setup.command(&["call", "GitStatus"]).await;
    assert_ne!(called.code, Some(0), "{called:?}");
    assert!(
        [&called.log, &called.out]
            .iter()
            .any(|text| text.contains("[tools]")),
        "{called:?}"
    );
    runner.kill();
}
