//! AskUserQuestion in an editor that follows the call: a single choice is shown there, and the first answer counts.

use serde_json::{Value, json};

use super::{color_question, listed_questions, question_call};
use crate::harness::editor::{EditorProcess, EditorReaction, choose_option};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::{wait_for_some, wait_until};

const REQUEST: &str = "session/request_permission";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_choice_is_answered_or_refused_in_the_editor() {
    let setup = RunnerFixture::without_listener("").await;
    for (option, answer) in [
        ("1", "Blue"),
        ("refuse", "(refused to answer)"),
        ("7", "(refused to answer)"),
    ] {
        let mut editor = EditorProcess::launch(&setup.setting, choose_option(option));
        let (session, _) = editor.attached(&json!({}), &setup.setting).await;
        let id = setup.ask(question_call(&json!([color_question()]))).await;
        let answered = setup.answer(&id).await.text();
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
    let setup = RunnerFixture::with_config("[questions]\npatience_ms = 2000\n").await;
    let mut editor = EditorProcess::launch(&setup.setting, |_, _| EditorReaction::Silence);
    editor.attached(&json!({}), &setup.setting).await;
    let asked = |editor: &EditorProcess| editor.requests(REQUEST).len();
    let long = |questions: &Value| {
        let args = json!({ "questions": questions, "timeout": 600 });
        crate::harness::caller::ToolCall::new("AskUserQuestion", &args)
    };
    let silent = setup
        .call(question_call(&json!([color_question()])))
        .await
        .text();
    assert_eq!(silent, "Which color? -> (nobody answered within 2 s)");
    wait_until("the question in the editor", || asked(&editor) == 1).await;
    // The editor does not get questions for several choices or free text.
    let id = setup.ask(long(&json!([{ "question": "Name?" }]))).await;
    listed_questions(&setup).await;
    assert_eq!(asked(&editor), 1);
    setup.command(&["questions", "answer", &id, "Fox"]).await;
    assert_eq!(setup.answer(&id).await.text(), "Name? -> Fox");
    let id = setup.ask(long(&json!([color_question()]))).await;
    wait_until("the question in the editor", || asked(&editor) == 2).await;
    listed_questions(&setup).await;
    setup.command(&["questions", "answer", &id, "1"]).await;
    assert_eq!(setup.answer(&id).await.text(), "Which color? -> Red");
    let id = setup.ask(long(&json!([color_question()]))).await;
    wait_until("the question in the editor", || asked(&editor) == 3).await;
    setup.caller.cancel(&id).await;
    assert_eq!(setup.answer(&id).await.outcome, "cancelled");
    let is_empty = async || {
        let list = setup.command(&["questions"]).await.out;
        (list == "The agent asks nothing now.\n").then_some(())
    };
    wait_for_some("an empty list", is_empty).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_in_an_editor_alone_is_listed_and_stays_when_the_editor_goes() {
    let setup = RunnerFixture::without_listener("").await;
    let _runner = setup.run();
    let mut editor = EditorProcess::launch(&setup.setting, |_, _| EditorReaction::Silence);
    editor.attached(&json!({}), &setup.setting).await;
    let id = setup.ask(question_call(&json!([color_question()]))).await;
    wait_until("the question in the editor", || {
        editor.requests(REQUEST).len() == 1
    })
    .await;
    let question = listed_questions(&setup).await;
    assert_eq!(question["requestId"], json!(id));
    editor.close();
    setup.command(&["questions", "answer", &id, "2"]).await;
    assert_eq!(setup.answer(&id).await.text(), "Which color? -> Blue");
}
