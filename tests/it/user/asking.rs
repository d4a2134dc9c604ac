//! AskUserQuestion through the terminal, the command and the caller's side: answer, refusal, silence, cancel, and a
//! runner that is killed while it waits.

use serde_json::{Value, json};

use rustix::process::Signal;

use super::{asked_caller, color_question, listed_questions, question_call};
use crate::harness::on_terminal::OnTerminal;
use crate::harness::process::RunningProgram;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::{wait_for_some, wait_until};

const PROMPT: &str = "1 to 2, or your own words ([r]efuse): ";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_is_asked_and_answered_on_the_runner_s_terminal() {
    let setup = RunnerFixture::without_listener("").await;
    let mut runner = OnTerminal::start(&setup.setting, &["run"]);
    setup.until_asker_announced().await;
    let several = json!({ "question": "Which days?", "multiSelect": true,
        "options": ["Monday", "Tuesday", "Friday"] });
    let own = json!({ "question": "Which name?" });
    let id = setup
        .ask(question_call(&json!([color_question(), several, own])))
        .await;
    runner.shows(PROMPT).await;
    assert_contains!(
        runner.shown(),
        "AskUserQuestion asks you:\n  Color: Which color?\n",
        "1. Red: like a rose\n",
        "2. Blue\n"
    );
    runner.types("7\n");
    runner.shows("there is no option 7").await;
    runner.types("2\n");
    runner
        .shows("1 to 3, several as in 1,2, or your own words")
        .await;
    runner.types("3, 1\n");
    runner.shows("Your answer ([r]efuse): ").await;
    runner.types("Zoë's \"fox\"\n");
    let answer = setup.answer(&id).await;
    assert_eq!(
        answer.text(),
        "Which color? -> Blue\nWhich days? -> Friday, Monday\nWhich name? -> Zoë's \"fox\"",
        "{answer:?}"
    );
    let shown = setup.shown_history(&id).await;
    assert_contains!(
        shown,
        "asked Color: Which color?",
        "answered by you at the terminal, after "
    );
    // A refusal ends the other questions. Three options make this prompt unique, because a log line redraws the earlier
    // prompt.
    let first = json!({ "question": "Which color?", "options": ["Red", "Blue", "Green"] });
    let id = setup
        .ask(question_call(&json!([first, color_question()])))
        .await;
    runner.shows("1 to 3, or your own words ([r]efuse): ").await;
    runner.types("r\n");
    runner.shows("Refused.").await;
    assert_eq!(
        setup.answer(&id).await.text(),
        "Which color? -> (refused to answer)\nWhich color? -> (not asked)"
    );
    // A cancelled question disappears from the terminal.
    let last = json!({ "question": "Which color?", "options": ["Red", "Blue", "Green", "Grey"] });
    let id = setup.ask(question_call(&json!([last]))).await;
    runner.shows("1 to 4, or your own words ([r]efuse): ").await;
    setup.caller.cancel(&id).await;
    assert_eq!(setup.answer(&id).await.outcome, "cancelled");
    runner.shows("This question no longer waits").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_lists_and_answers_and_says_how() {
    let setup = RunnerFixture::with_config("").await;
    let _runner = setup.run();
    let none = setup.command(&["questions"]).await.out;
    assert_eq!(none, "The agent asks nothing now.\n");
    let id = setup.ask(question_call(&json!([color_question()]))).await;
    let question = listed_questions(&setup).await;
    assert_eq!(question["requestId"], json!(id));
    assert_eq!(question["title"], "Color: Which color?");
    assert_eq!(question["input"]["options"][1]["label"], "Blue");
    let short = &id[id.len() - 8..];
    let list = setup.command(&["questions"]).await.out;
    assert_contains!(
        list,
        &format!("{short}  AskUserQuestion ("),
        " min left)\n",
        &format!("punie-runner questions answer {short} NUMBER")
    );
    let approvals = setup.command(&["approvals"]).await.out;
    assert_starts_with!(approvals, "No calls are waiting for approval.\n");
    assert_contains!(approvals, "questions");
    let allowed = setup.command(&["approvals", "allow", short]).await;
    assert_eq!(
        allowed.code,
        Some(1),
        "a question is not a call: {allowed:?}"
    );
    let status = setup.command(&["status"]).await.out;
    assert_contains!(status, "the agent asks you: Color: Which color?");
    let wrong = setup.command(&["questions", "answer", short, "3"]).await;
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert_contains!(wrong.log, "there is no option 3");
    let given = setup
        .command(&["questions", "answer", short, "blue", "--json"])
        .await
        .json();
    assert_fields!(given, {"answer": "Blue", "accepted": true, "counts": true});
    assert_eq!(setup.answer(&id).await.text(), "Which color? -> Blue");
    let late = setup.command(&["questions", "answer", short, "1"]).await;
    assert_eq!(late.code, Some(1), "{late:?}");
    let id = setup.ask(question_call(&json!([color_question()]))).await;
    listed_questions(&setup).await;
    let refused = setup.command(&["questions", "refuse", &id]).await;
    assert_eq!(refused.out, "Refused.\n", "{refused:?}");
    assert_eq!(
        setup.answer(&id).await.text(),
        "Which color? -> (refused to answer)"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_caller_s_side_sees_the_options_and_its_first_answer_counts() {
    let setup = RunnerFixture::with_config("").await;
    let _runner = setup.run();
    let id = setup.ask(question_call(&json!([color_question()]))).await;
    let question = asked_caller(&setup).await;
    assert_eq!(
        question["title"],
        "Color: Which color?\n1. Red: like a rose\n2. Blue"
    );
    let options = question["options"].as_array().expect("options");
    let ids: Vec<&Value> = options.iter().map(|option| &option["optionId"]).collect();
    assert_eq!(ids, ["choice-1", "choice-2", "text", "reject_once"]);
    let chosen = setup.caller.choose(&question, "choice-2").await;
    assert_eq!(chosen["accepted"], true);
    let second = setup.caller.choose(&question, "choice-1").await;
    assert_eq!(second["accepted"], false, "the first answer counts");
    assert_eq!(second["answer"]["optionId"], "choice-2");
    assert_eq!(setup.answer(&id).await.text(), "Which color? -> Blue");
    let late = setup.caller.choose(&question, "choice-2").await;
    assert_eq!(late["answer"]["optionId"], "choice-2", "{late}");
    // Free text may be an option's number, or contain hidden characters.
    for (text, answer) in cases! {
        ("1", "Red"),
        ("\u{645}\u{6cc}\u{200c}\u{62e}", "\u{645}\u{6cc}\u{200c}\u{62e}"),
        ("neither\u{202e}\n of\u{1b}[2J", "neither\\u{202e}\\n of\\u{1b}[2J"),
    } {
        let id = setup.ask(question_call(&json!([color_question()]))).await;
        let question = asked_caller(&setup).await;
        let given = setup.caller.answer_with_text(&question, text).await;
        assert_eq!(given["answer"]["text"], text, "{given}");
        let answered = setup.answer(&id).await.text();
        assert_eq!(answered, format!("Which color? -> {answer}"));
    }
    let id = setup.ask(question_call(&json!([color_question()]))).await;
    let question = asked_caller(&setup).await;
    setup.caller.choose(&question, "reject_once").await;
    assert_eq!(
        setup.answer(&id).await.text(),
        "Which color? -> (refused to answer)"
    );
    // An answer at the device reaches the caller's side as text.
    let id = setup.ask(question_call(&json!([color_question()]))).await;
    let question = asked_caller(&setup).await;
    listed_questions(&setup).await;
    setup
        .command(&["questions", "answer", &id, "--text", "Green"])
        .await;
    assert_eq!(setup.answer(&id).await.text(), "Which color? -> Green");
    let late = setup.caller.choose(&question, "choice-1").await;
    assert_fields!(late, {"accepted": false, "/answer/text": "Green"});
    assert!(setup.caller.questions().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_is_told_with_its_time_and_with_the_owner_s_default() {
    let setup = RunnerFixture::with_config("[questions]\npatience_ms = 1000\n").await;
    let runner = setup.run();
    let silent = setup
        .call(question_call(&json!([color_question(), color_question()])))
        .await;
    silent.expect_ok();
    let line = "Which color? -> (nobody answered within 1 s)";
    assert_eq!(silent.text(), format!("{line}\n{line}"));
    runner.terminate();
    runner.end().await;
    setup.configure(
        "[questions]\n",
        "[questions]\ndefault = \"decide yourself\"\n",
    );
    let _runner = setup.run();
    let silent = setup.call(question_call(&json!([color_question()]))).await;
    assert_eq!(
        silent.text(),
        "Which color? -> decide yourself (the owner's default: nobody answered within 1 s)"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_nobody_can_be_asked_the_model_is_told_at_once() {
    let setup = RunnerFixture::without_listener("").await;
    let _runner = setup.run();
    assert_contains!(
        setup
            .call(question_call(&json!([color_question()])))
            .await
            .expect_error("policy_denied"),
        "Nobody can be asked now"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_is_asked_one_question_at_a_time_and_its_other_calls_go_on() {
    let setup = RunnerFixture::with_config("[policy]\nask = [\"executes\"]\n").await;
    let _runner = setup.run();
    let question =
        |text: &str| question_call(&json!([{ "question": text }])).in_conversation("one");
    let first = setup.ask(question("First?")).await;
    let asked = listed_questions(&setup).await;
    assert_eq!(asked["title"], "First?");
    let second = setup.ask(question("Second?")).await;
    // An approval and a question of another conversation do not wait.
    let bash = crate::harness::caller::ToolCall::bash("echo ran > effect").in_conversation("one");
    let bash = setup.ask(bash).await;
    let call = setup.listed_question().await;
    assert_eq!(call["tool"], "Bash");
    setup.command(&["approvals", "allow", &bash]).await;
    setup.answer(&bash).await.expect_ok();
    let other = setup
        .ask(question_call(&json!([{ "question": "Other?" }])).in_conversation("other"))
        .await;
    let out = wait_for_some("the other's question", async || {
        let out = setup.command(&["questions"]).await.out;
        out.contains("Other?").then_some(out)
    })
    .await;
    assert_lacks!(out, "Second?");
    for (id, answer) in [(&first, "1st"), (&other, "3rd")] {
        setup.command(&["questions", "answer", id, answer]).await;
        setup.answer(id).await;
    }
    let asked = listed_questions(&setup).await;
    assert_eq!(asked["title"], "Second?");
    setup
        .command(&["questions", "answer", &second, "2nd"])
        .await;
    assert_eq!(setup.answer(&second).await.text(), "Second? -> 2nd");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_of_a_killed_runner_is_asked_again() {
    let setup = RunnerFixture::with_config("").await;
    let runner = setup.run();
    let id = setup.ask(question_call(&json!([color_question()]))).await;
    let before = listed_questions(&setup).await;
    runner.kill();
    // A process that the runner was starting may hold the runner's lock a moment longer.
    wait_for_some("the command to name the next runner", async || {
        let out = setup.command(&["questions"]).await.out;
        out.contains("(asked again when the runner starts)")
            .then_some(())
    })
    .await;
    let _runner = setup.run();
    let again = wait_for_some("the question again", async || {
        let again = listed_questions(&setup).await;
        (again["askedAtMs"] != before["askedAtMs"]).then_some(again)
    })
    .await;
    assert_fields!(again, {"requestId": id, "id": before["id"]});
    setup.command(&["questions", "answer", &id, "1"]).await;
    assert_eq!(setup.answer(&id).await.text(), "Which color? -> Red");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_answered_while_the_runner_is_down_counts_after_its_start() {
    let setup = RunnerFixture::with_config("[policy]\nask = [\"executes\"]\n").await;
    for is_killed in [true, false] {
        let runner = setup.run();
        // A restart must not extend the question's time.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let deadline = now.expect("after 1970").as_secs_f64() * 1_000.0 + 120_000.0;
        let question =
            question_call(&json!([color_question()])).with("deadlineMs", json!(deadline));
        let id = setup.ask(question).await;
        let bash = setup
            .ask(crate::harness::caller::ToolCall::bash("echo ran"))
            .await;
        let asked = wait_for_some("both questions", async || {
            let asked = setup.caller.questions().await;
            (asked.len() == 2).then_some(asked)
        })
        .await;
        if is_killed {
            runner.kill();
        } else {
            runner.terminate();
            runner.end().await;
        }
        for question in &asked {
            let is_call = question["requestId"] == json!(bash);
            let option = if is_call { "allow_once" } else { "choice-2" };
            let given = setup.caller.choose(question, option).await;
            assert_eq!(given["accepted"], true, "{given}");
        }
        let runner = setup.run();
        assert_eq!(setup.answer(&id).await.text(), "Which color? -> Blue");
        setup.answer(&bash).await.expect_ok();
        assert!(setup.caller.questions().await.is_empty());
        runner.terminate();
        runner.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_person_who_types_a_call_answers_its_question_without_a_runner() {
    let setup = RunnerFixture::without_listener("").await;
    let arguments = json!({ "questions": [color_question()] }).to_string();
    let words = ["call", "AskUserQuestion", &arguments];
    let mut call = OnTerminal::start(&setup.setting, &words);
    call.shows(PROMPT).await;
    call.types("2\n");
    call.shows("Which color? -> Blue").await;
    assert_eq!(call.end().await, Some(0));
    assert_lacks!(call.shown(), "No runner runs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_answered_by_command_while_no_runner_runs_counts_after_its_start() {
    let setup = RunnerFixture::with_config("[policy]\nask = [\"executes\"]\n").await;
    let bash = |talk: &str| {
        let call = crate::harness::caller::ToolCall::bash(&format!("echo {talk} >> ran"));
        call.in_conversation(talk)
    };
    for is_killed in [true, false] {
        let runner = setup.run();
        let question = setup.ask(question_call(&json!([color_question()]))).await;
        let allowed = setup.ask(bash("yes")).await;
        let denied = setup.ask(bash("no")).await;
        let listed = async |word: &str, count: usize| {
            wait_for_some("the questions on the list", async || {
                let out = setup.command(&[word, "--json"]).await.out;
                (out.lines().count() == count).then_some(())
            })
            .await;
        };
        listed("questions", 1).await;
        listed("approvals", 2).await;
        if is_killed {
            runner.kill();
        } else {
            runner.terminate();
            runner.end().await;
        }
        wait_for_some("the command to name the next runner", async || {
            let status = setup.command(&["status"]).await.out;
            status
                .contains("Which color? (asked again when the runner starts)")
                .then_some(())
        })
        .await;
        for words in [
            ["questions", "answer", &question, "2"].as_slice(),
            &["approvals", "allow", &allowed],
            &["approvals", "deny", &denied],
        ] {
            let given = setup.command(words).await;
            assert!(
                given.code == Some(0) && given.out.contains("this counts when the next one asks"),
                "{words:?}: {given:?}"
            );
            let again = setup.command(words).await;
            assert_eq!(again.code, Some(1), "{words:?}: {again:?}");
        }
        let runner = setup.run();
        assert_eq!(setup.answer(&question).await.text(), "Which color? -> Blue");
        setup.answer(&allowed).await.expect_ok();
        setup.answer(&denied).await.expect_error("policy_denied");
        runner.terminate();
        runner.end().await;
    }
    assert_eq!(setup.read("ran"), "yes\nyes\n");
    // The command waits for a question that the next runner has not asked again yet.
    let runner = setup.run();
    let id = setup.ask(question_call(&json!([color_question()]))).await;
    listed_questions(&setup).await;
    runner.terminate();
    runner.end().await;
    setup.command(&["pause"]).await;
    let runner = setup.run();
    runner.wait_for_log("the runner is up").await;
    let command = RunningProgram::start(&setup.setting, &["questions", "answer", &id, "1"]);
    setup.command(&["resume"]).await;
    let given = command.end().await;
    assert!(
        given.code == Some(0) && given.out.starts_with("Answered."),
        "{given:?}"
    );
    assert_eq!(setup.answer(&id).await.text(), "Which color? -> Red");
    runner.terminate();
    runner.end().await;
    // If the caller cancels a question while no runner runs, the next runner reports it as cancelled.
    let runner = setup.run();
    let id = setup.ask(question_call(&json!([color_question()]))).await;
    listed_questions(&setup).await;
    runner.terminate();
    runner.end().await;
    setup.caller.cancel(&id).await;
    setup.command(&["questions", "answer", &id, "1"]).await;
    let _runner = setup.run();
    assert_eq!(setup.answer(&id).await.outcome, "cancelled");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_to_a_question_that_was_answered_elsewhere_meanwhile_is_told_that_it_came_too_late()
 {
    let setup = RunnerFixture::with_config("[policy]\nask = [\"executes\"]\n").await;
    let runner = setup.run();
    let question = setup.ask(question_call(&json!([color_question()]))).await;
    listed_questions(&setup).await;
    let asked = asked_caller(&setup).await;
    // The runner is suspended while both sides answer, the caller first.
    runner.signal(Signal::STOP);
    let given = setup.caller.choose(&asked, "choice-2").await;
    assert_eq!(given["accepted"], true, "{given}");
    let words = ["questions", "answer", &question, "1"];
    let command = RunningProgram::start(&setup.setting, &words);
    let stored = setup.setting.home.join("state/approvals");
    wait_until("the answer to be stored at the device", || {
        let files = std::fs::read_dir(&stored).expect("a folder").flatten();
        files
            .into_iter()
            .any(|file| file.path().extension().is_some_and(|end| end == "answer"))
    })
    .await;
    runner.signal(Signal::CONT);
    let told = command.end().await;
    assert!(
        told.code == Some(1) && told.out.starts_with("Too late"),
        "{told:?}"
    );
    assert_eq!(setup.answer(&question).await.text(), "Which color? -> Blue");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_that_is_stopped_leaves_its_question_for_the_next_one() {
    let setup = RunnerFixture::without_listener("").await;
    let mut runner = OnTerminal::start(&setup.setting, &["run"]);
    setup.until_asker_announced().await;
    let id = setup.ask(question_call(&json!([color_question()]))).await;
    runner.shows(PROMPT).await;
    let before = listed_questions(&setup).await;
    runner.interrupt();
    assert_eq!(runner.end().await, Some(0));
    // No caller listens for questions now, but this one is an old question.
    let next = setup.run();
    let again = wait_for_some("the question again", async || {
        let again = listed_questions(&setup).await;
        (again["askedAtMs"] != before["askedAtMs"]).then_some(again)
    })
    .await;
    assert_eq!(again["requestId"], json!(id));
    setup.command(&["questions", "answer", &id, "2"]).await;
    assert_eq!(setup.answer(&id).await.text(), "Which color? -> Blue");
    next.terminate();
    next.end().await;
}
