//! AskUserQuestion in an editor that follows the call: a single choice is shown there, and whoever answers first counts.

use serde_json::{Value, json};

use super::{asking, color, listed};
use crate::harness::editor::{Editor, Reaction, choosing};
use crate::harness::stage::Stage;
use crate::harness::wait::{eventually, until};

const REQUEST: &str = "session/request_permission";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_choice_is_answered_or_refused_in_the_editor() {
    let stage = Stage::without_listener("").await;
    for (option, answer) in [
        ("1", "Blue"),
        ("refuse", "(refused to answer)"),
        ("7", "(refused to answer)"),
    ] {
        let mut editor = Editor::launch(&stage.setting, choosing(option));
        let (session, _) = editor.attached(&json!({}), &stage.setting).await;
        let id = stage.ask(asking(&json!([color()]))).await;
        let answered = stage.answer(&id).await.text();
        assert_eq!(answered, format!("Which color? -> {answer}"));
        editor.shows(&session, &id, "completed").await;
        let asked = &editor.requests(REQUEST)[0];
        assert_eq!(asked["toolCall"]["title"], "Color: Which color?");
        let options = asked["options"].as_array().expect("options");
        let names: Vec<&Value> = options.iter().map(|option| &option["name"]).collect();
        assert_eq!(names, ["Red", "Blue", "Refuse to answer"]);
        editor.close();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_editor_leaves_it_to_others_and_ends_with_the_time_or_the_call() {
    let stage = Stage::with("[questions]\npatience_ms = 2000\n").await;
    let mut editor = Editor::launch(&stage.setting, |_, _| Reaction::Silence);
    editor.attached(&json!({}), &stage.setting).await;
    let asked = |editor: &Editor| editor.requests(REQUEST).len();
    let long = |questions: &Value| {
        let args = json!({ "questions": questions, "timeout": 600 });
        crate::harness::caller::Ask::new("AskUserQuestion", &args)
    };
    let silent = stage.caller.have(asking(&json!([color()]))).await.text();
    assert_eq!(silent, "Which color? -> (nobody answered within 2 s)");
    until("the question in the editor", || asked(&editor) == 1).await;
    // Several choices and own words are not asked there.
    let id = stage.ask(long(&json!([{ "question": "Name?" }]))).await;
    listed(&stage).await;
    assert_eq!(asked(&editor), 1);
    stage.command(&["questions", "answer", &id, "Fox"]).await;
    assert_eq!(stage.answer(&id).await.text(), "Name? -> Fox");
    let id = stage.ask(long(&json!([color()]))).await;
    until("the question in the editor", || asked(&editor) == 2).await;
    listed(&stage).await;
    stage.command(&["questions", "answer", &id, "1"]).await;
    assert_eq!(stage.answer(&id).await.text(), "Which color? -> Red");
    let id = stage.ask(long(&json!([color()]))).await;
    until("the question in the editor", || asked(&editor) == 3).await;
    stage.caller.cancel(&id).await;
    assert_eq!(stage.answer(&id).await.outcome, "cancelled");
    let is_empty = async || {
        let list = stage.command(&["questions"]).await.out;
        (list == "The agent asks nothing now.\n").then_some(())
    };
    eventually("an empty list", is_empty).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_in_an_editor_alone_is_listed_and_stays_when_the_editor_goes() {
    let stage = Stage::without_listener("").await;
    let _runner = stage.run();
    let mut editor = Editor::launch(&stage.setting, |_, _| Reaction::Silence);
    editor.attached(&json!({}), &stage.setting).await;
    let id = stage.ask(asking(&json!([color()]))).await;
    until("the question in the editor", || {
        editor.requests(REQUEST).len() == 1
    })
    .await;
    let question = listed(&stage).await;
    assert_eq!(question["requestId"], json!(id));
    editor.close();
    stage.command(&["questions", "answer", &id, "2"]).await;
    assert_eq!(stage.answer(&id).await.text(), "Which color? -> Blue");
}
