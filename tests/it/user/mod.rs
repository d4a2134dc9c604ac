//! The tools that ask a person: AskUserQuestion and RequestCredential.

mod asking;
mod bad_input;
mod credentials;
mod in_editor;
mod undumpable;

use serde_json::{Value, json};

use crate::harness::caller::Ask;
use crate::harness::stage::Stage;
use crate::harness::wait::eventually;

/// A question with two options.
fn color() -> Value {
    json!({ "question": "Which color?", "header": "Color", "options": [
        { "label": "Red", "description": "like a rose" }, { "label": "Blue" }
    ] })
}

fn asking(questions: &Value) -> Ask {
    Ask::new("AskUserQuestion", &json!({ "questions": questions }))
}

/// The one question on the device's list, once it is there.
pub async fn listed(stage: &Stage) -> Value {
    eventually("a question on the device's list", async || {
        let out = stage.command(&["questions", "--json"]).await.out;
        serde_json::from_str(out.trim())
            .ok()
            .filter(|question: &Value| question["id"].is_string())
    })
    .await
}

/// The one question that waits, as the caller's side sees it.
async fn asked_caller(stage: &Stage) -> Value {
    eventually("a question at the caller's side", async || {
        let mut open = stage.caller.questions().await;
        (open.len() == 1).then(|| open.remove(0))
    })
    .await
}
