//! Rules that apply to calls of a runner, with real requests, files and commands.

use punie_engine::journal::RequestState;
use serde_json::json;

use super::{NO_TOUCH, write_rules};
use crate::harness::caller::{CallAnswer, ToolCall};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::{wait_for_some, wait_until};

const SHORT: &str = "[policy]\npatience_ms = 1000\n";

async fn expect_denial(setup: &RunnerFixture, ask: ToolCall) -> CallAnswer {
    let answer = setup.call(ask).await;
    answer.expect_error("policy_denied");
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h56_a_denied_command_does_not_run_in_any_shape_of_a_real_call() {
    let setup = RunnerFixture::with_config(SHORT).await;
    write_rules(&setup.setting.home, NO_TOUCH);
    let _runner = setup.run();
    for line in [
        "touch effect",
        &format!("{}touch effect", "true; ".repeat(50)),
        "cat <<E\n$(touch effect)\nE",
        "echo \"$(touch effect)\"",
        "true # comment \\\n/usr/bin/to\\\nuch effect",
    ] {
        let answer = expect_denial(&setup, ToolCall::bash(line)).await;
        let text = answer.text();
        assert_contains!(
            text,
            "Bash was not run",
            "\"no-touch\"",
            "touch effect",
            "files are made by hand",
            "punie-runner policy allow --once no-touch"
        );
    }
    // The runner asks about a line that it cannot analyse, and no person is there to answer.
    for line in [
        "echo dG91Y2ggZWZmZWN0Cg== | base64 -d | sh",
        "$(echo touch) effect",
        "touch$IFS$9effect",
    ] {
        let text = expect_denial(&setup, ToolCall::bash(line)).await.text();
        assert_contains!(text, "cannot be told", "nobody answered"; "{line}");
    }
    let variable = json!({"command": "git fetch", "env": {"GIT_SSH_COMMAND": "touch effect"}});
    let text = expect_denial(&setup, ToolCall::new("Bash", &variable))
        .await
        .text();
    assert_contains!(text, "by the variable GIT_SSH_COMMAND programs run others");
    let program = json!({"command": "touch", "args": ["effect"]});
    expect_denial(&setup, ToolCall::new("run_command", &program)).await;
    // The policy checks the call of a task when it runs.
    let task = json!({"tool": "Bash", "args": {"command": "touch effect"}});
    let begun = setup
        .call(ToolCall::new("Task", &task).in_conversation("t"))
        .await;
    let text = begun.text();
    let id = text
        .split_whitespace()
        .nth(1)
        .unwrap_or_else(|| panic!("a task id: {begun:?}"));
    wait_for_some("the task's end", async || {
        let output = setup
            .call(ToolCall::new("TaskOutput", &json!({ "task_id": id })).in_conversation("t"))
            .await
            .text();
        output.contains("\"no-touch\"").then_some(())
    })
    .await;
    assert!(!setup.file("effect").exists());
    setup.bash("echo touch").await.expect_ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paths_are_denied_to_file_tools_patches_and_redirections() {
    let setup = RunnerFixture::with_config(SHORT).await;
    write_rules(
        &setup.setting.home,
        "[[rule]]\nname = \"keys\"\ndecision = \"deny\"\nreason = \"not yours\"\npaths = [\"keys/**\"]\nmatch = [\"keys/a\"]\n",
    );
    std::fs::create_dir(setup.file("keys")).expect("made");
    setup.write("keys/a", "secret\n");
    std::os::unix::fs::symlink("keys", setup.file("link")).expect("linked");
    let _runner = setup.run();
    for (tool, args) in [
        ("Read", json!({"file_path": "keys/a"})),
        ("Read", json!({"file_path": "link/a"})),
        ("read_file", json!({"path": "./x/../keys/a"})),
        ("Write", json!({"file_path": "keys/b", "content": "x"})),
        (
            "ApplyPatch",
            json!({"patch": "*** Begin Patch\n*** Add File: keys/c\n+x\n*** End Patch\n"}),
        ),
        ("Bash", json!({"command": "echo x > keys/d"})),
        ("Bash", json!({"command": "{ echo x; } >> link/a"})),
    ] {
        let text = expect_denial(&setup, ToolCall::new(tool, &args))
            .await
            .text();
        assert_contains!(text, "\"keys\"", "not yours"; "{tool} {args}");
    }
    // The file is unknown where the folder changes or a word needs expansion.
    for line in [
        "echo x > \"$PWD/dev/null\"",
        "env -C keys bash -c 'echo x > d'",
        "sudo -D keys sh -c 'echo x > d'",
        ". ./free; echo x > d",
    ] {
        let text = expect_denial(&setup, ToolCall::bash(line)).await.text();
        assert_contains!(text, "\"keys\"", "its path is known only when it runs"; "{line}");
    }
    let text = expect_denial(&setup, ToolCall::new("Grep", &json!({"pattern": "secret"})))
        .await
        .text();
    assert_contains!(text, "the rule is about something in that folder");
    assert_eq!(setup.read("keys/a"), "secret\n");
    setup.write("free", "1\n");
    setup
        .call_tool("Read", &json!({"file_path": "free"}))
        .await
        .expect_ok();
    setup.bash("echo x > out").await.expect_ok();
}

const KEYS: &str = "[[rule]]\nname = \"keys\"\ndecision = \"deny\"\npaths = [\"keys/**\"]\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_patch_the_tool_takes_its_files_are_seen() {
    let setup = RunnerFixture::with_config(SHORT).await;
    let _runner = setup.run();
    std::fs::create_dir(setup.file("keys")).expect("made");
    for patch in [
        "*** Begin Patch\n*** Add File:keys/new\n+x\n*** End Patch\n",
        "*** Begin Patch\n*** Delete File:keys/a\n*** End Patch\n",
        "*** Begin Patch\n*** Update File: free\n*** Move to:keys/new\n@@\n-one\n+two\n*** End Patch\n",
        "  *** Update File:keys/a\n@@\n-one\n+two\n",
        "\n   --- a/keys/a\n+++ b/keys/a\n@@ -1 +1 @@\n-one\n+two\n",
        "--- i/keys/a\n+++ w/keys/a\n@@ -1 +1 @@\n-one\n+two\n",
        "--- c/keys/a\n+++ o/keys/a\n@@ -1 +1 @@\n-one\n+two\n",
        "--- \"a/keys/\\303\\244\"\n+++ \"b/keys/\\303\\244\"\n@@ -1 +1 @@\n-one\n+two\n",
        "diff --git a/keys/a b/keys/a\nold mode 100644\nnew mode 100755\n",
        "diff --git a/keys/a b b/keys/a b\nold mode 100644\nnew mode 100755\n",
        "diff --git a/keys/a b/keys/a\ndeleted file mode 100644\n--- a/keys/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n",
        "diff --git a/free b/keys/new\nsimilarity index 100%\nrename from free\nrename to keys/new\n",
        "*** Update File: keys/a\r\n@@\r\n-one\r\n+two\r\n",
    ] {
        for name in ["keys/a", "keys/a b", "keys/\u{e4}", "free"] {
            setup.write(name, "one\n");
        }
        let _ = std::fs::remove_file(setup.file("keys/new"));
        let ask = || ToolCall::new("ApplyPatch", &json!({ "patch": patch }));
        write_rules(&setup.setting.home, KEYS);
        let text = expect_denial(&setup, ask()).await.text();
        assert_contains!(text, "\"keys\""; "{patch}");
        assert!(!setup.file("keys/new").exists(), "{patch}");
        std::fs::remove_file(setup.setting.home.join("policy.toml")).expect("removed");
        let answer = setup.call(ask()).await;
        assert_eq!(
            answer.outcome, "ok",
            "the tool takes it: {patch}: {answer:?}"
        );
        assert_contains!(answer.text(), "keys/"; "{patch}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn places_are_those_that_the_tool_goes_to() {
    let setup = RunnerFixture::with_config(SHORT).await;
    write_rules(&setup.setting.home, KEYS);
    std::fs::create_dir(setup.file("keys")).expect("made");
    std::fs::create_dir(setup.file("free")).expect("made");
    setup.write("keys/tool", "#!/bin/sh\n");
    let outside = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(outside.path(), setup.file("out")).expect("linked");
    std::os::unix::fs::symlink(setup.file("keys"), outside.path().join("back")).expect("linked");
    let _runner = setup.run();
    for (tool, args) in cases! {
        ("OpenApp", json!({"app": " keys/tool "})),
        ("OpenApp", json!({"app": "tool", "working_directory": "keys"})),
        ("Glob", json!({"pattern": "keys/*"})),
        ("Glob", json!({"pattern": "../keys/*", "path": "free"})),
        ("Glob", json!({"pattern": format!("{}/*", setup.file("keys").display()), "path": "free"})),
        ("Bash", json!({"command": "echo x > out/back/b"})),
    } {
        let text = expect_denial(&setup, ToolCall::new(tool, &args))
            .await
            .text();
        assert_contains!(text, "\"keys\""; "{tool} {args}");
    }
    setup
        .call_tool("Glob", &json!({"pattern": "free/*"}))
        .await
        .expect_ok();
    setup.bash("echo x > out/c").await.expect_ok();
    assert!(!setup.file("keys/b").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_no_program_can_be_given_is_not_read() {
    let setup = RunnerFixture::with_config(SHORT).await;
    write_rules(&setup.setting.home, NO_TOUCH);
    let _runner = setup.run();
    let line = format!("echo {}; touch effect", "$(".repeat(100_000));
    setup.bash(&line).await.expect_error("too_large");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_that_asks_says_why_and_one_that_allows_spares_the_question() {
    let setup = RunnerFixture::with_config("[policy]\nask = [\"executes\"]\n").await;
    write_rules(
        &setup.setting.home,
        "[[rule]]\nname = \"echo\"\ndecision = \"allow\"\ncommand = [\"echo\"]\n\n[[rule]]\nname = \"mk\"\ndecision = \
         \"ask\"\nreason = \"who wants it?\"\ncommand = [[\"mkdir\", \"touch\"]]\n",
    );
    let _runner = setup.run();
    assert_eq!(
        setup.bash("echo a && echo b").await.outcome,
        "ok",
        "nobody is asked"
    );
    let id = setup
        .ask(ToolCall::bash("mkdir made").in_conversation("c"))
        .await;
    let question = setup.caller.next_question().await;
    let title = question["title"].as_str().expect("a title");
    assert_contains!(title, "the owner's rule \"mk\"", "who wants it?");
    setup.caller.choose(&question, "allow_always").await;
    setup.answer(&id).await.expect_ok();
    // The approval holds for this rule, and for no other call of the tool.
    setup
        .call(ToolCall::bash("touch more").in_conversation("c"))
        .await
        .expect_ok();
    let other = setup.ask(ToolCall::bash("ls").in_conversation("c")).await;
    let question = setup.caller.next_question().await;
    setup.caller.choose(&question, "reject_once").await;
    setup.answer(&other).await.expect_error("policy_denied");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_yes_for_the_conversation_is_for_the_whole_line_and_no_other() {
    let setup = RunnerFixture::new().await;
    write_rules(&setup.setting.home, "default = \"ask\"\n");
    let _runner = setup.run();
    let long = "x".repeat(200);
    for (line, other) in cases! {
        ("echo one >> effect", "echo one >> effect; echo evil | tee -a effect"),
        (&format!("true {long} a"), &format!("true {long} b")),
        ("cat <<E\none\nE", "cat <<E\ntwo\nE"),
    } {
        let first = setup.ask(ToolCall::bash(line).in_conversation("c")).await;
        let question = setup.caller.next_question().await;
        setup.caller.choose(&question, "allow_always").await;
        setup.answer(&first).await.expect_ok();
        assert_eq!(
            setup
                .call(ToolCall::bash(line).in_conversation("c"))
                .await
                .outcome,
            "ok",
            "{line}"
        );
        let id = setup.ask(ToolCall::bash(other).in_conversation("c")).await;
        let question = setup.caller.next_question().await;
        setup.caller.choose(&question, "reject_once").await;
        assert_eq!(
            setup.answer(&id).await.verdict(),
            ("error", "policy_denied"),
            "{other}"
        );
    }
    assert_eq!(setup.read("effect"), "one\none\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_yes_is_for_what_was_there_when_it_was_asked_for() {
    let setup = RunnerFixture::with_config("[policy]\nask = [\"executes\"]\n").await;
    setup.write("script.sh", "echo good > effect\n");
    let _runner = setup.run();
    for (change, expect) in [(true, "error"), (false, "ok")] {
        let id = setup.ask_bash("bash script.sh").await;
        let question = setup.caller.next_question().await;
        if change {
            setup.write("script.sh", "echo bad > effect\n");
        }
        setup.caller.choose(&question, "allow_once").await;
        let answer = setup.answer(&id).await;
        assert_eq!(answer.outcome, expect, "{answer:?}");
        if change {
            assert_contains!(
                answer.expect_error("policy_denied"),
                "script.sh changed after a person had said yes"
            );
            assert_eq!(setup.read("effect"), "");
        }
    }
    assert_eq!(
        setup.read("effect"),
        "bad\n",
        "the approved second call runs the changed script"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_yes_is_for_the_script_behind_a_change_of_the_folder_too() {
    let setup = RunnerFixture::with_config("[policy]\nask = [\"executes\"]\n").await;
    std::fs::create_dir_all(setup.file("a/b")).expect("made");
    setup.write("a/b/run.sh", "echo good > ../../effect\n");
    let _runner = setup.run();
    let id = setup.ask_bash("cd a && cd b && bash run.sh").await;
    let question = setup.caller.next_question().await;
    setup.write("a/b/run.sh", "echo bad > ../../effect\n");
    setup.caller.choose(&question, "allow_once").await;
    let answer = setup.answer(&id).await;
    assert_contains!(
        answer.expect_error("policy_denied"),
        "run.sh changed after a person had said yes"
    );
    assert_eq!(setup.read("effect"), "");
    // The question says that the program was not found, and an approval holds only for this one call.
    let ask = || ToolCall::bash("cd a; cd -; ./later.sh").in_conversation("c");
    for _ in 0..2 {
        let id = setup.ask(ask()).await;
        let question = setup.caller.next_question().await;
        assert!(
            question["title"]
                .as_str()
                .is_some_and(|title| title.contains("which file `./later.sh` is"))
        );
        setup.caller.choose(&question, "allow_always").await;
        setup.answer(&id).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_hold_from_the_next_call_on_and_broken_ones_close_what_changes_things() {
    let setup = RunnerFixture::with_config(SHORT).await;
    let runner = setup.run();
    setup.bash("touch first").await.expect_ok();
    write_rules(&setup.setting.home, NO_TOUCH);
    expect_denial(&setup, ToolCall::bash("touch second")).await;
    write_rules(
        &setup.setting.home,
        &NO_TOUCH.replace("no_match = [\"echo touch\"]", "no_match = [\"touch y\"]"),
    );
    for ask in [
        ToolCall::bash("echo fine"),
        ToolCall::new("Write", &json!({"file_path": "third", "content": "x"})),
    ] {
        let text = expect_denial(&setup, ask).await.text();
        assert_contains!(text, "policy.toml, line 1", "\"touch y\"");
    }
    runner
        .wait_for_log("the owner's rules cannot be read")
        .await;
    setup
        .call_tool("Read", &json!({"file_path": "first"}))
        .await
        .expect_ok();
    let status = setup.status().await;
    assert!(
        status["degraded"]
            .as_array()
            .is_some_and(|words| words.contains(&json!("policy"))),
        "{status}"
    );
    assert!(
        status["policy"]["broken"]
            .as_str()
            .is_some_and(|why| why.contains("line 1")),
        "{status}"
    );
    std::fs::remove_file(setup.setting.home.join("policy.toml")).expect("removed");
    setup.bash("touch fourth").await.expect_ok();
    assert!(!setup.file("second").exists() && !setup.file("third").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_does_not_start_with_rules_that_it_cannot_read() {
    let setup = RunnerFixture::new().await;
    write_rules(
        &setup.setting.home,
        "default = \"ask\"\n\n[[rule]]\nname = \"x\"\ndecision = \"deny\"\ncommand = [\"a b\"]\n",
    );
    let ended = setup.command(&["run"]).await;
    assert_eq!(ended.code, Some(78), "{ended:?}");
    assert_contains!(
        ended.log,
        "policy.toml, line 3: the rule \"x\": command is a list of single words"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_is_heeded_by_its_file_alone_and_what_comes_then_does_not_begin() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    setup.bash("true").await.expect_ok();
    // An empty file, as a person would make it without the program.
    std::fs::write(setup.setting.home.join("state/switches/paused"), "").expect("written");
    wait_until("the pause to take effect", || {
        runner.log().contains("nothing new is begun")
    })
    .await;
    let id = setup.ask_bash("echo x > effect").await;
    setup.wait_for_state(&id, RequestState::Accepted).await;
    assert_eq!(setup.read("effect"), "");
    assert_eq!(setup.command(&["resume"]).await.code, Some(0));
    setup.answer(&id).await.expect_ok();
    assert_eq!(setup.read("effect"), "x\n");
}
