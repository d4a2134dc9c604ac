//! The record of a finished call that the owner can read for some days: its arguments and its answer, masked and
//! clipped.

use serde_json::Value;

use punie_text::output::text_budget::clip_to_budget;
use punie_text::output::{CallRecord, TextBudget};
use punie_text::redact::{Redactor, mask_log_line};
use punie_tool::format_call_arguments;
use punie_tool::request::{FileChange, ToolRequest};

/// The most characters of the arguments and of the answer; of a longer text the head and the tail are kept.
const MAX_CHARS: u64 = 8_000;

/// Makes the record of a call from its request and its sealed payload, which is masked already.
pub(super) fn build_call_record(
    request: &ToolRequest,
    payload: &str,
    redactor: &Redactor,
) -> CallRecord {
    let args: Value = serde_json::from_str(&request.args).unwrap_or_default();
    let masked = redactor.mask(&args.to_string()).0.into_owned();
    let arguments = match serde_json::from_str(&masked) {
        Ok(args) => format_call_arguments(&args),
        Err(_) => masked,
    };
    let mut payload: Value = serde_json::from_str(payload).unwrap_or_default();
    let files: Vec<FileChange> =
        serde_json::from_value(payload["meta"]["files"].take()).unwrap_or_default();
    let network = serde_json::from_value(payload["meta"]["network"].take()).unwrap_or_default();
    let key = if payload.get("error").is_some() {
        "error"
    } else {
        "result"
    };
    let output = match payload[key].take() {
        Value::String(text) => text,
        Value::Null => String::new(),
        other => format!("{other:#}"),
    };
    CallRecord {
        request_id: request.id.to_string(),
        arguments: clip_text(&arguments),
        output: clip_text(&output),
        files: files.iter().map(describe_change).collect(),
        network,
    }
}

/// Clips a text. What looks like a secret is masked too: people read this text, and no model edits it.
fn clip_text(text: &str) -> String {
    let masked = mask_log_line(text);
    clip_to_budget(&masked, TextBudget::from_requested(Some(MAX_CHARS)), None).text
}

fn describe_change(change: &FileChange) -> String {
    let note = match (&change.before, &change.after) {
        (None, Some(_)) => " (new)",
        (Some(_), None) => " (removed)",
        _ => "",
    };
    format!("{}{note}", change.path)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use punie_text::redact::Secret;

    #[test]
    fn a_record_holds_both_ends_of_a_long_answer_and_no_secret() {
        let request = ToolRequest {
            id: punie_core::ids::RequestId::parse("r").expect("an id"),
            tool: punie_core::ids::ToolName::parse("Bash").expect("a name"),
            args: json!({"command": "echo top-secret-value", "n": 1}).to_string(),
            conversation: punie_core::ids::ConversationId::parse("c").expect("an id"),
            agent_type: None,
            caller: None,
            session: None,
            created_at_ms: 0.0,
            deadline_ms: None,
            cancelled: false,
            issued_at_ms: None,
            signature: None,
        };
        let long = format!("begin\n{}end", "a line\n".repeat(9_000));
        let payload = json!({
            "toolName": "Bash", "result": long,
            "meta": {"files": [{"path": "a.txt", "after": "00"}, {"path": "b", "before": "0", "after": "1"}]},
        });
        let redactor = Redactor::new([Secret::new("top-secret-value".to_owned())]);
        let record = build_call_record(&request, &payload.to_string(), &redactor);
        assert!(
            record.arguments.contains("command: echo [REDACTED")
                && record.arguments.contains("n: 1"),
            "{record:?}"
        );
        assert!(record.output.starts_with("begin") && record.output.ends_with("end"));
        assert!(record.output.chars().count() < 9_000);
        assert_eq!(record.files, ["a.txt (new)", "b"]);
    }
}
