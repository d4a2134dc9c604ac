//! The tools that ask a person: AskUserQuestion and RequestCredential.

mod asking;
mod bad_input;
mod credentials;
mod in_editor;
mod undumpable;

use serde_json::{Value, json};

use crate::harness::caller::ToolCall;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_for_some;

/// A question with two options.
fn color_question() -> Value {
    json!({ "question": "Which color?", "header": "Color", "options": [
        { "label": "Red", "description": "like a rose" }, { "label": "Blue" }
    ] })
}

fn question_call(questions: &Value) -> ToolCall {
    ToolCall::new("AskUserQuestion", &json!({ "questions": questions }))
}

/// Waits for the one question on the device's list, and returns it.
pub async fn listed_questions(setup: &RunnerFixture) -> Value {
    wait_for_some("a question on the device's list", async || {
        let out = setup.command(&["questions", "--json"]).await.out;
        serde_json::from_str(out.trim())
            .ok()
            .filter(|question: &Value| question["id"].is_string())
    })
    .await
}

/// Waits for the one open question on the caller's side, and returns it.
async fn asked_caller(setup: &RunnerFixture) -> Value {
    wait_for_some("a question at the caller's side", async || {
        let mut open = setup.caller.questions().await;
        (open.len() == 1).then(|| open.remove(0))
    })
    .await
}
