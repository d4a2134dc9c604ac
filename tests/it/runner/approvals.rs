//! Calls that wait for approval. The caller's side or the person at the device decides, the first answer counts, and no
//! answer is a denial.

use serde_json::json;

use crate::harness::caller::ToolCall;
use crate::harness::process::RunningProgram;
use crate::harness::relay::{CallFate, Relay};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_for_some;

const ASKING: &str = "[policy]\nask = [\"executes\"]\n";

/// Waits for the only open question, and returns it as the caller's side sees it.
async fn await_question(setup: &RunnerFixture) -> serde_json::Value {
    wait_for_some("a question", async || {
        let open = setup.caller.questions().await;
        Some(open)
            .filter(|open| open.len() == 1)
            .map(|mut open| open.remove(0))
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_caller_s_side_lets_a_call_run_and_sees_what_it_is() {
    let setup = RunnerFixture::with_config(ASKING).await;
    let _runner = setup.run();
    let id = setup.ask_bash("echo ran > effect").await;
    let question = await_question(&setup).await;
    assert_eq!(question["requestId"], json!(id));
    assert_contains!(
        question["title"].as_str().expect("a title"),
        "echo ran > effect"
    );
    assert_eq!(setup.read("effect"), "", "nothing runs before the word");
    // Reads need no approval.
    let read = setup.call_tool("Glob", &json!({ "pattern": "*" })).await;
    read.expect_ok();
    assert_eq!(
        setup.caller.choose(&question, "allow_once").await["accepted"],
        true
    );
    setup.answer(&id).await.expect_ok();
    assert_eq!(setup.read("effect"), "ran\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_says_whose_it_is_and_what_to_do() {
    let setup = RunnerFixture::with_config(ASKING).await;
    let runner = setup.run();
    let id = setup.ask_bash("echo ran > effect").await;
    let asked = await_question(&setup).await;
    setup.caller.choose(&asked, "reject_once").await;
    let answer = setup.answer(&id).await;
    let shown = setup.shown_history(&id).await;
    assert_contains!(
        shown,
        "Result denied by the caller",
        "denied by the caller's side, after "
    );
    assert_contains!(
        answer.expect_error("policy_denied"),
        "The caller's side denied this call"
    );

    let id = setup.ask_bash("echo ran > effect").await;
    await_question(&setup).await;
    let listed = setup.listed_question().await;
    let denied = setup
        .command(&["approvals", "deny", listed["id"].as_str().expect("an id")])
        .await;
    assert_eq!(denied.code, Some(0), "{denied:?}");
    let answer = setup.answer(&id).await;
    runner
        .wait_for_log("code=\"policy_denied\" rule=\"policy.ask\" denial=\"command\"")
        .await;
    assert_contains!(
        answer.expect_error("policy_denied"),
        "The owner of this device denied this call"
    );
    assert_eq!(setup.read("effect"), "");
    assert!(setup.caller.questions().await.is_empty());
    let list = setup.command(&["approvals"]).await;
    assert_eq!(list.out, "No calls are waiting for approval.\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_person_at_the_device_sees_and_allows_it() {
    let setup = RunnerFixture::with_config(ASKING).await;
    let _runner = setup.run();
    let id = setup.ask_bash("echo ran > effect").await;
    let asked = await_question(&setup).await;
    let listed = setup.listed_question().await;
    assert_fields!(listed, {"id": asked["permissionId"], "requestId": id});
    let shown = setup.command(&["approvals"]).await.out;
    assert_contains!(shown, "Bash {\"command\":\"echo ran > effect\"}");
    let unknown = setup
        .command(&["approvals", "allow", "nothing-like-it"])
        .await;
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
    let which = listed["id"].as_str().expect("an id").to_owned();
    assert_eq!(
        setup.command(&["approvals", "allow", &which]).await.code,
        Some(0)
    );
    setup.answer(&id).await.expect_ok();
    assert_eq!(
        setup.caller.choose(&asked, "reject_once").await["accepted"],
        false,
        "the first answer stands"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_in_how_a_call_is_written_hides_what_it_does() {
    let setup = RunnerFixture::with_config(ASKING).await;
    let _runner = setup.run();
    let args = format!(
        "{{{}\n\"command\": \"\\u0065cho ran > effect\"}}",
        " ".repeat(10_000)
    );
    let id = setup
        .ask(ToolCall::bash("").with("args", json!(args)))
        .await;
    let asked = await_question(&setup).await;
    assert_eq!(asked["title"], "Bash {\"command\":\"echo ran > effect\"}");
    setup.caller.choose(&asked, "reject_once").await;
    setup.answer(&id).await.expect_error("policy_denied");
}

/// Returns a command whose middle does not fit into a title.
fn long_command() -> String {
    let line = |c: &str| format!("echo {} > /dev/null", c.repeat(6_000));
    format!("{}; echo ran > effect; {}", line("a"), line("b"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_the_list_cuts_is_shown_whole_before_it_is_allowed() {
    let setup = RunnerFixture::with_config(ASKING).await;
    let _runner = setup.run();
    let many_lines = "true\n".repeat(800) + "echo ran > effect\n" + &"true\n".repeat(800);
    for (command, shown) in [
        (long_command(), format!("\ncommand: {}\n", long_command())),
        (
            many_lines.clone(),
            format!("\ncommand:\n    {}\n", many_lines.replace('\n', "\n    ")),
        ),
    ] {
        setup.write("effect", "");
        let id = setup.ask_bash(&command).await;
        let listed = setup.listed_question().await;
        let which = &listed["requestId"];
        let title = &listed["title"];
        let which = which.as_str().expect("an id");
        assert_lacks!(title.to_string(), "effect");
        let show = format!("punie-runner approvals show {which}");
        assert_contains!(title.to_string(), &show);
        for args in [
            &["approvals", "allow", which][..],
            &["approvals", "allow", "--conversation", which],
        ] {
            let refused = setup.command(args).await;
            assert_eq!(refused.code, Some(1), "{refused:?}");
            let show = format!("punie-runner approvals show {}", &which[which.len() - 8..]);
            assert_contains!(refused.log, &show);
        }
        // Details that could not be printed do not count as shown.
        let show_args = ["approvals", "show", which];
        let unseen = RunningProgram::start_after(&setup.setting, "exec > /dev/full", &show_args);
        assert_eq!(unseen.end().await.code, Some(1));
        let refused = setup.command(&["approvals", "allow", which]).await;
        assert_eq!(refused.code, Some(1), "{refused:?}");
        let whole = setup.command(&["approvals", "show", &which[20..]]).await;
        assert_eq!(whole.code, Some(0), "{whole:?}");
        assert_contains!(whole.out, &shown, "Other files that it reads");
        assert_eq!(setup.read("effect"), "", "nothing runs before the word");
        let allowed = setup.command(&["approvals", "allow", which]).await;
        assert_eq!(allowed.code, Some(0), "{allowed:?}");
        setup.answer(&id).await.expect_ok();
        assert_eq!(setup.read("effect"), "ran\n");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_of_many_lines_is_shown_whole_before_it_is_allowed() {
    let setup = RunnerFixture::with_config(ASKING).await;
    let _runner = setup.run();
    let id = setup.ask_bash(&"true\n".repeat(30)).await;
    let listed = setup.listed_question().await;
    assert_eq!(listed["isCut"], false, "{listed}");
    let refused = setup.command(&["approvals", "allow", &id]).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let show = format!("punie-runner approvals show {}", &id[id.len() - 8..]);
    assert_contains!(refused.log, &show);
    setup.command(&["approvals", "show", &id]).await;
    let allowed = setup.command(&["approvals", "allow", &id]).await;
    assert_eq!(allowed.code, Some(0), "{allowed:?}");
    setup.answer(&id).await.expect_ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_the_list_cuts_can_be_denied_unread() {
    let setup = RunnerFixture::with_config(ASKING).await;
    let _runner = setup.run();
    let id = setup.ask_bash(&long_command()).await;
    let listed = setup.listed_question().await;
    let which = listed["id"].as_str().expect("an id");
    let denied = setup.command(&["approvals", "deny", which]).await;
    assert_eq!(denied.code, Some(0), "{denied:?}");
    setup.answer(&id).await.expect_error("policy_denied");
    let none = setup.command(&["approvals", "show", which]).await;
    assert_eq!(none.code, Some(1), "{none:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_caller_s_side_cannot_allow_what_its_question_cuts() {
    let setup = RunnerFixture::with_config(ASKING).await;
    let _runner = setup.run();
    for (option, words) in [
        ("allow_once", "Only the person at the device can allow it"),
        ("allow_always", "Only the person at the device can allow it"),
        ("reject_once", "The caller's side denied this call"),
    ] {
        let id = setup
            .ask(ToolCall::bash(&long_command()).in_conversation("talk"))
            .await;
        let asked = await_question(&setup).await;
        let title = asked["title"].as_str().expect("a title");
        assert!(
            title.len() <= 4_096 && title.contains("only a part of the call"),
            "{title}"
        );
        assert_eq!(asked["options"][0]["name"], "Allow (only at the device)");
        setup.caller.choose(&asked, option).await;
        let answer = setup.answer(&id).await;
        assert_eq!(answer.verdict(), ("error", "policy_denied"), "{option}");
        assert_contains!(answer.text(), words; "{option}");
    }
    assert_eq!(setup.read("effect"), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backend_cannot_claim_that_the_person_here_allowed_what_they_did_not_see() {
    let setup = RunnerFixture::with_config(ASKING).await;
    let relay = Relay::before(&setup.setting.url).await;
    relay.rule(|path, _| match path {
        "permissions:ask" => CallFate::Alter(|reply| {
            reply["value"]["answer"] =
                json!({ "optionId": "allow_once", "by": "device", "answeredAtMs": 1.0 });
        }),
        _ => CallFate::Pass,
    });
    let _runner = setup.run_at(&relay.url);
    let id = setup.ask_bash(&long_command()).await;
    setup.answer(&id).await.expect_error("policy_denied");
    assert_eq!(setup.read("effect"), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_wait_hold_up_no_other_conversation() {
    let setup =
        RunnerFixture::with_config(&format!("{ASKING}[limits]\ntotal = 2\nreads = 1\n")).await;
    let _runner = setup.run();
    for n in 0..3 {
        setup
            .ask(ToolCall::bash("true").in_conversation(&format!("talk-{n}")))
            .await;
    }
    wait_for_some("three questions", async || {
        (setup.caller.questions().await.len() == 3).then_some(())
    })
    .await;
    setup
        .call_tool("Glob", &json!({ "pattern": "*" }))
        .await
        .expect_ok();
    // The waiting calls go on, and no slot for running calls is lost.
    for asked in setup.caller.questions().await {
        setup.caller.choose(&asked, "allow_once").await;
        setup
            .answer(asked["requestId"].as_str().expect("an id"))
            .await;
    }
    setup
        .call_tool("Glob", &json!({ "pattern": "*" }))
        .await
        .expect_ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_is_asked_about_once() {
    let setup = RunnerFixture::with_config(ASKING).await;
    let _runner = setup.run();
    let args = json!({ "tool": "Bash", "args": { "command": "echo ran > effect" } });
    let id = setup.ask(ToolCall::new("Task", &args)).await;
    let asked = await_question(&setup).await;
    assert_contains!(
        asked["title"].as_str().expect("a title"),
        "echo ran > effect"
    );
    setup.caller.choose(&asked, "allow_once").await;
    setup.answer(&id).await.expect_ok();
    assert_eq!(setup.wait_for_line_in("effect").await, "ran");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_nobody_saw_is_asked_about_when_it_runs() {
    let setup = RunnerFixture::with_config(ASKING).await;
    let _runner = setup.run();
    // The caller's side does not know the request that a task makes, so a person at the device must answer.
    let _watch = setup.watch_approvals().await;
    let task = |line: &str| {
        ToolCall::new(
            "Task",
            &json!({ "tool": "Bash", "args": { "command": line } }),
        )
        .in_conversation("talk")
    };
    let first = setup.ask(task("echo one > one")).await;
    setup
        .caller
        .choose(&await_question(&setup).await, "allow_always")
        .await;
    setup.answer(&first).await.expect_ok();
    assert_eq!(setup.wait_for_line_in("one").await, "one");
    // The approval of the first task also covers starting the second, but no person has seen its command.
    setup.call(task("echo two > two")).await.expect_ok();
    let open = wait_for_some("a question about the task's own call", async || {
        let listed = setup.command(&["--json", "approvals"]).await;
        Some(listed.out).filter(|text| text.contains("echo two"))
    })
    .await;
    assert_contains!(open, "Bash");
    assert!(!setup.file("two").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_shell_can_be_ended_without_a_word() {
    let setup = RunnerFixture::with_config(ASKING).await;
    let _runner = setup.run();
    let answer = setup
        .call_tool("KillShell", &json!({ "shell_id": "none" }))
        .await;
    assert_eq!(
        answer.verdict(),
        ("error", "not_found"),
        "it came to the tool: {answer:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_is_a_no() {
    let setup =
        RunnerFixture::with_config("[policy]\nask = [\"Bash\"]\npatience_ms = 1000\n").await;
    let _runner = setup.run();
    assert_contains!(
        setup
            .bash("echo ran > effect")
            .await
            .expect_error("policy_denied"),
        "nobody answered within 1 s"
    );
    let shown = setup.shown_history("@last").await;
    assert_contains!(
        shown,
        "Result nobody answered",
        "denied nobody answered in 1 s"
    );
    assert_eq!(setup.read("effect"), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn always_is_for_the_tool_and_the_conversation() {
    let setup = RunnerFixture::with_config(ASKING).await;
    let _runner = setup.run();
    let first = setup
        .ask(ToolCall::bash("echo one >> effect").in_conversation("talk"))
        .await;
    setup
        .caller
        .choose(&await_question(&setup).await, "allow_always")
        .await;
    setup.answer(&first).await;
    setup
        .call(ToolCall::bash("echo two >> effect").in_conversation("talk"))
        .await;
    assert_eq!(setup.read("effect"), "one\ntwo\n");
    let other = setup
        .ask(ToolCall::bash("echo three >> effect").in_conversation("other"))
        .await;
    setup
        .caller
        .choose(&await_question(&setup).await, "reject_always")
        .await;
    setup.answer(&other).await.expect_error("policy_denied");
    assert_contains!(
        setup
            .call(ToolCall::bash("echo four >> effect").in_conversation("other"))
            .await
            .expect_error("policy_denied"),
        "for the rest of this conversation"
    );
    assert_eq!(setup.read("effect"), "one\ntwo\n");
}

/// Checks that an approval for a request does not cover a conversation of that name: the caller chooses both names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn always_is_not_for_who_names_the_call_or_is_named_like_the_conversation() {
    let setup = RunnerFixture::with_config(ASKING).await;
    let _runner = setup.run();
    let effect = || ToolCall::bash("echo ran >> effect");
    let alone = setup.ask(effect()).await;
    let shown = await_question(&setup).await;
    setup.caller.choose(&shown, "allow_always").await;
    setup.answer(&alone).await.expect_ok();
    let talk = setup.ask(effect().in_conversation("talk")).await;
    let shown = await_question(&setup).await;
    setup.caller.choose(&shown, "allow_always").await;
    setup.answer(&talk).await.expect_ok();
    for others in [
        effect().in_conversation(&alone),
        effect().with("requestId", json!("talk")),
    ] {
        let id = setup.ask(others).await;
        let asked = await_question(&setup).await;
        assert_eq!(asked["requestId"], json!(id));
        setup.caller.choose(&asked, "reject_once").await;
        setup.answer(&id).await.expect_error("policy_denied");
    }
    assert_eq!(setup.read("effect"), "ran\nran\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_waits_can_be_taken_back() {
    let setup = RunnerFixture::with_config(ASKING).await;
    let _runner = setup.run();
    let id = setup.ask_bash("echo ran > effect").await;
    await_question(&setup).await;
    setup.caller.cancel(&id).await;
    assert_eq!(
        setup.answer(&id).await.verdict(),
        ("cancelled", "cancelled")
    );
    assert_eq!(setup.read("effect"), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_waits_when_the_runner_ends_is_asked_about_by_the_next_one() {
    let setup = RunnerFixture::with_config(ASKING).await;
    let runner = setup.run();
    let id = setup.ask_bash("echo ran >> effect").await;
    let first = await_question(&setup).await;
    runner.kill();
    let _runner = setup.run();
    let second = wait_for_some("the next question", async || {
        setup
            .caller
            .questions()
            .await
            .into_iter()
            .find(|asked| asked["expiresAtMs"] != first["expiresAtMs"])
    })
    .await;
    assert_eq!(second["permissionId"], first["permissionId"]);
    assert!(setup.caller.result(&id).await.is_none());
    setup.caller.choose(&second, "allow_once").await;
    setup.answer(&id).await.expect_ok();
    assert_eq!(setup.read("effect"), "ran\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_person_here_needs_no_backend_that_knows_permissions() {
    let setup = RunnerFixture::with_config(ASKING).await;
    let relay = Relay::before(&setup.setting.url).await;
    relay.rule(|path, _| {
        if path.starts_with("permissions:") {
            CallFate::Unheard
        } else {
            CallFate::Pass
        }
    });
    let _runner = setup.run_at(&relay.url);
    let _watch = setup.watch_approvals().await;
    let id = setup.ask_bash("echo ran > effect").await;
    let list = async || setup.command(&["approvals", "--json"]).await.out;
    let listed = wait_for_some("the question here", async || {
        serde_json::from_str(&list().await).ok()
    })
    .await;
    let listed: serde_json::Value = listed;
    let id_here = listed["id"].as_str().expect("an id");
    assert_eq!(
        setup
            .command(&["approvals", "allow", &id_here[20..]])
            .await
            .code,
        Some(0)
    );
    setup.answer(&id).await.expect_ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_asks_about_nothing_that_exists_is_a_mistake() {
    let setup = RunnerFixture::with_config("[policy]\nask = [\"Bahs\"]\n").await;
    let runner = setup.run();
    let ended = runner.end().await;
    assert_eq!(ended.code, Some(78), "{ended:?}");
    assert_contains!(ended.log, "policy.ask holds \"Bahs\"");
}
