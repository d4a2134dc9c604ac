//! Questions that are refused before a person sees them, and answers that do not count.

use serde_json::{Value, json};

use super::{asked_caller, color_question, listed_questions, question_call};
use crate::harness::stage::RunnerFixture;
use crate::harness::tools::{build_registry, call_tool};
use crate::harness::whole::user_deps;
use punie_handlers::user;
use punie_home::Home;
use punie_tool::ErrorCode;

async fn refusal_text(tool: &str, args: Value) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let home = Home::open_home(&folder.path().join("home")).expect("a home");
    let tools = build_registry(user::tools(user_deps(&home)));
    let error = call_tool(&tools, tool, args).await.expect_err("a refusal");
    let code = error.stable_code();
    assert_eq!(code, ErrorCode::InvalidArgs, "{}", error.model_text());
    error.model_text().to_owned()
}

#[tokio::test]
async fn a_question_that_no_person_can_read_is_refused_in_words() {
    let options: Vec<Value> = (0..1_000)
        .map(|n| json!({ "label": n.to_string() }))
        .collect();
    let same = json!([{ "label": "a" }, { "label": "A" }]);
    let question = |options: Value| json!([{ "question": "Which?", "options": options }]);
    for (questions, words) in cases! {
        (question(json!(options)), "has 1000 options; 20 are allowed"),
        (question(same), "has the option \"A\" twice"),
        (question(json!([{ "label": " " }])), "1 to 200 characters"),
        (json!([]), "ask 1 to 4 questions, not 0"),
        (
            json!([
                color_question(),
                color_question(),
                color_question(),
                color_question(),
                color_question()
            ]),
            "not 5",
        ),
        (json!([{ "question": " \n" }]), "1 to 2000 characters"),
        (json!([{ "question": "x".repeat(2_001) }]), "1 to 2000 characters"),
        (json!([{ "options": [] }]), "question"),
    } {
        let text = refusal_text("AskUserQuestion", json!({ "questions": questions })).await;
        assert_contains!(text, words);
    }
    for (args, words) in cases! {
        (json!({ "name": "../x y", "purpose": "p" }), "is not a secret's name"),
        (json!({ "name": "x", "purpose": " " }), "purpose must have"),
        (json!({ "name": "x", "purpose": "p", "code": "1" }), "code needs the url"),
        (json!({ "name": "x", "purpose": "p", "url": "file:///x" }), "must begin with https://"),
    } {
        let text = refusal_text("RequestCredential", args).await;
        assert_contains!(text, words);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hidden_characters_of_a_question_are_shown_and_hide_nothing() {
    let setup = RunnerFixture::with_config("").await;
    let _runner = setup.run();
    let question = json!({ "question": "Delete\u{202e}txt.\u{1b}[2K\nAll?", "header": "\u{1b}]0;x\u{7}",
        "options": [{ "label": "Y\u{200f}es\n2. No", "description": "\u{9b}31m" }] });
    let id = setup.ask(question_call(&json!([question]))).await;
    let listed = listed_questions(&setup).await;
    let shown = setup.command(&["questions"]).await.out;
    let caller = asked_caller(&setup).await;
    for text in [
        listed.to_string(),
        shown,
        caller["title"].as_str().expect("a title").to_owned(),
    ] {
        let is_hidden = |c: char| "\u{202e}\u{200f}\u{1b}\u{9b}\u{7}".contains(c);
        assert!(!text.contains(is_hidden), "{text:?}");
        assert_contains!(text, "u{202e}");
    }
    // A line break in a label must not look like a second option.
    assert_lacks!(caller["title"].as_str().expect("a title"), "\n2. No");
    setup.command(&["questions", "answer", &id, "1"]).await;
    let answer = setup.answer(&id).await.text();
    assert!(
        answer.lines().count() == 1 && !answer.contains('\u{1b}'),
        "{answer:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_choice_takes_no_yes_and_no_answer_of_another_caller() {
    let setup = RunnerFixture::with_config("").await;
    let _runner = setup.run();
    let id = setup.ask(question_call(&json!([color_question()]))).await;
    let question = asked_caller(&setup).await;
    let mut stranger = setup.caller.clone();
    stranger.token = "wrong".to_owned();
    let refused = stranger.try_answer(&question, "choice-1", None).await;
    assert_eq!(
        refused["errorData"]["code"], "CALLER_UNAUTHORIZED",
        "{refused}"
    );
    let yes = setup.caller.try_answer(&question, "allow_once", None).await;
    assert_eq!(yes["errorData"]["code"], "INVALID_ARGUMENT", "{yes}");
    let long = "x".repeat(5_000);
    let long = setup
        .caller
        .try_answer(&question, "text", Some(&long))
        .await;
    assert_eq!(long["errorData"]["code"], "TOO_LARGE", "{long}");
    // A client that cannot send text may still choose the option for free text.
    for text in [None, Some(""), Some(" ")] {
        let blank = setup.caller.try_answer(&question, "text", text).await;
        assert_eq!(blank["errorData"]["code"], "INVALID_ARGUMENT", "{blank}");
    }
    setup.caller.choose(&question, "reject_once").await;
    assert_eq!(
        setup.answer(&id).await.text(),
        "Which color? -> (refused to answer)"
    );
}
