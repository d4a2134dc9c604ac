//! Calls that need an approval, which the person at the client gives in a form.

use rmcp::model::ElicitationAction;
use serde_json::{Value, json};

use super::{McpUser, TestClient, result_text};

const ASK: &str = "[policy]\nask = [\"executes\"]\n";

fn answering_client(action: ElicitationAction, content: Value) -> TestClient {
    TestClient {
        answers: Some((action, content)),
        ..TestClient::default()
    }
}

#[tokio::test]
async fn the_person_at_the_client_allows_a_call_by_a_form() {
    // The second answer accepts the form unchanged.
    for content in [json!({"answer": "Allow"}), json!({})] {
        let user = McpUser::new();
        user.configure(ASK);
        let person = answering_client(ElicitationAction::Accept, content);
        let client = user.connects(person.clone(), &[]).await;
        let command = json!({"command": "echo yes > ran"});
        client.call_ok("Bash", command).await;
        assert!(user.path("work/ran").exists());
        let asked = person.asked.lock().clone();
        assert_eq!(asked.len(), 1, "{asked:?}");
        let form: Value = serde_json::from_str(&asked[0]).expect("JSON");
        let shown = form["message"].as_str().expect("a text");
        let folder = format!("Folder: {}", user.path("work").display());
        assert_contains!(shown, "command: echo yes > ran", &folder);
        client.close().await;
    }
}

#[tokio::test]
async fn a_refusal_and_an_unclear_answer_refuse() {
    for (action, content) in [
        (ElicitationAction::Decline, json!({})),
        (ElicitationAction::Cancel, json!({})),
        (ElicitationAction::Accept, json!({"answer": "perhaps"})),
    ] {
        let user = McpUser::new();
        user.configure(ASK);
        let client = user.connects(answering_client(action, content), &[]).await;
        let refused = client.call("Bash", json!({"command": "touch ran"})).await;
        assert_eq!(refused.is_error, Some(true), "{refused:?}");
        assert!(!user.path("work/ran").exists());
        client.close().await;
    }
}

#[tokio::test]
async fn a_client_that_cannot_show_the_form_refuses() {
    let user = McpUser::new();
    user.configure(ASK);
    let mut broken = answering_client(ElicitationAction::Accept, json!({"answer": "Allow"}));
    broken.shows_no_forms = true;
    let client = user.connects(broken.clone(), &[]).await;
    let refused = client.call("Bash", json!({"command": "touch ran"})).await;
    assert_eq!(refused.is_error, Some(true), "{refused:?}");
    assert!(!user.path("work/ran").exists());
    assert_eq!(broken.asked.lock().len(), 1);
    client.close().await;
}

#[tokio::test]
async fn without_forms_nobody_can_be_asked() {
    let user = McpUser::new();
    user.configure(&format!("{ASK}notify = false\n"));
    let client = user.connects(TestClient::default(), &[]).await;
    let refused = client.call("Bash", json!({"command": "touch ran"})).await;
    assert_eq!(refused.is_error, Some(true), "{refused:?}");
    assert!(!user.path("work/ran").exists(), "{}", result_text(&refused));
    client.close().await;
}
