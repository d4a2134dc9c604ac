//! The sealing of a reply: it masks secrets, stores and clips the text, and respects the wire's limit.

use std::time::Duration;

use punie_core::ids::{RequestId, ToolName};
use punie_text::output::{OutputStore, TextBudget};
use punie_text::redact::{MASK, Redactor, Secret};
use punie_tool::request::{
    CallFailure, CallOutcome, CleanReply, ErrorCode, OutcomeKind, ReplyBody, ResultMeta,
    SealContext, ToolReply, shrink_payload,
};
use serde_json::{Value, json};

use super::{numbered_lines, output_store};
use crate::state::read_output;

const SECRET: &str = "hunter2-hunter2";

fn seal_into(store: &OutputStore, outcome: CallOutcome) -> CleanReply {
    let redactor = Redactor::new([Secret::new(SECRET.to_owned())]);
    outcome.seal(&SealContext {
        redactor: &redactor,
        store,
        request: &RequestId::new(),
        tool: &ToolName::parse("Bash").expect("a name"),
        duration: Duration::from_millis(12),
        attempt: Some(1),
    })
}

fn parse_payload(reply: &CleanReply) -> Value {
    serde_json::from_str(reply.payload_json()).expect("the payload is JSON")
}

#[test]
fn a_short_answer_is_sealed_as_it_is() {
    let (_dir, store) = output_store();
    let reply = seal_into(&store, CallOutcome::Ok(ToolReply::from_text("hello\n")));
    assert_eq!(reply.outcome_kind(), OutcomeKind::Ok);
    assert!(!reply.is_truncated());
    assert_eq!(
        parse_payload(&reply),
        json!({"toolName": "Bash", "result": "hello\n", "meta": {"durationMs": 12, "attempt": 1}})
    );
}

#[tokio::test]
async fn a_long_answer_is_scrubbed_then_kept_then_clipped() {
    let (_dir, store) = output_store();
    let whole = format!(
        "{}{SECRET}\n{}",
        numbered_lines(3_000),
        numbered_lines(3_000)
    );
    let reply = seal_into(&store, CallOutcome::Ok(ToolReply::from_text(whole.clone())));
    let payload = parse_payload(&reply);
    assert!(reply.is_truncated());
    assert_fields!(payload, {"/meta/truncated": true, "/meta/redactions": 1});
    let handle = payload["meta"]["handle"]
        .as_str()
        .expect("a handle")
        .to_owned();
    let text = payload["result"].as_str().expect("text");
    assert!(
        text.chars().count() <= 30_000
            && text.contains(&format!("ReadOutput handle=\"{handle}\" offset="))
    );
    let kept = store
        .find(&handle)
        .expect("kept")
        .read_tail_text(1 << 20)
        .expect("read");
    assert!(
        kept == whole.replace(SECRET, MASK),
        "{} bytes are stored, not the masked text",
        kept.len()
    );
    let args = json!({"handle": handle, "offset": 3_001, "limit": 1});
    let page = read_output(&store, args).await;
    assert_contains!(page, &format!("  3001\t{MASK}\n"));
}

#[test]
fn no_secret_is_left_anywhere_in_a_payload() {
    let (_dir, store) = output_store();
    let meta = || ResultMeta {
        warnings: vec![format!("used {SECRET}")],
        ..ResultMeta::default()
    };
    let base64 = "aHVudGVyMi1odW50ZXIy";
    let json = json!({SECRET: [SECRET, {"deep": format!("a{SECRET}b")}], "url": base64, "n": 1});
    let outcomes = [
        CallOutcome::Ok(ToolReply::from(json).with_meta(meta())),
        CallOutcome::Ok(
            ToolReply::from_fitted_text(format!("x {SECRET} {base64}")).with_meta(meta()),
        ),
        CallOutcome::Error(CallFailure {
            code: ErrorCode::Io,
            text: format!("bad {SECRET}"),
            meta: meta(),
        }),
        CallOutcome::Cancelled(CallFailure {
            code: ErrorCode::Cancelled,
            text: SECRET.to_owned(),
            meta: meta(),
        }),
    ];
    for outcome in outcomes {
        let reply = seal_into(&store, outcome);
        assert_lacks!(reply.payload_json(), "hunter2", base64);
        assert_contains!(reply.payload_json(), "\"redactions\":");
    }
}

#[test]
fn a_failure_carries_its_code() {
    let (_dir, store) = output_store();
    let failure = CallFailure {
        code: ErrorCode::Busy,
        text: "try again".to_owned(),
        meta: ResultMeta::default(),
    };
    let sealed = parse_payload(&seal_into(&store, CallOutcome::Error(failure)));
    assert_fields!(sealed, {"error": "try again", "/meta/code": "busy"});
    assert_eq!(sealed["meta"]["retryable"], true);
    assert_eq!(sealed.get("result"), None);
}

#[test]
fn a_fitted_text_is_not_clipped_again() {
    let (_dir, store) = output_store();
    let fitted = "x".repeat(40_000);
    let reply = seal_into(
        &store,
        CallOutcome::Ok(ToolReply::from_fitted_text(fitted.clone())),
    );
    assert_eq!(parse_payload(&reply)["result"], json!(fitted));
    assert!(!reply.is_truncated());
}

#[test]
fn a_payload_never_exceeds_the_wire() {
    let (_dir, store) = output_store();
    let big = TextBudget::from_requested(Some(200_000));
    let controls = "\u{1}".repeat(150).repeat(8) + "\n";
    let warnings = (0..1_000)
        .map(|n| format!("{n} {}", "w".repeat(100_000)))
        .collect();
    let answers = [
        ToolReply::from_text(controls.repeat(2_000)).with_budget(big),
        ToolReply::from_text("\u{1}\n".repeat(99_000)).with_budget(big),
        ToolReply::from_fitted_text("\u{1}\n".repeat(200_000)),
        ToolReply::from(json!({"rows": vec!["data ".repeat(20); 20_000]})),
        ToolReply::from_text("short").with_meta(ResultMeta {
            warnings,
            ..ResultMeta::default()
        }),
    ];
    for answer in answers {
        let was_json = matches!(answer.body, ReplyBody::Json(_));
        let reply = seal_into(&store, CallOutcome::Ok(answer));
        assert!(
            reply.payload_json().len() <= 900 << 10,
            "{} bytes",
            reply.payload_json().len()
        );
        let sealed = parse_payload(&reply);
        assert!(sealed["result"].is_string());
        if was_json {
            assert!(
                reply.is_truncated()
                    && sealed["meta"]["warnings"][0]
                        .as_str()
                        .expect("a warning")
                        .contains("too large")
            );
            assert!(sealed["meta"]["handle"].is_string());
        }
    }
}

#[test]
fn a_json_answer_that_fits_the_wire_stays_json() {
    let (_dir, store) = output_store();
    let image = json!({"base64": "A".repeat(700 << 10)});
    let reply = seal_into(&store, CallOutcome::Ok(ToolReply::from(image.clone())));
    assert_eq!(parse_payload(&reply)["result"], image);
    assert!(!reply.is_truncated());
}

#[test]
fn an_output_that_cannot_be_kept_is_clipped_with_a_warning() {
    let (dir, store) = output_store();
    std::fs::remove_dir_all(dir.path().join("outputs")).expect("removed");
    let reply = seal_into(
        &store,
        CallOutcome::Ok(ToolReply::from_text(numbered_lines(10_000))),
    );
    let sealed = parse_payload(&reply);
    assert!(reply.is_truncated() && sealed["meta"].get("handle").is_none());
    assert_contains!(sealed["result"].as_str().expect("text"), ") omitted]\n");
    assert_contains!(
        sealed["meta"]["warnings"][0].as_str().expect("a warning"),
        "could not be kept"
    );
}

#[test]
fn a_reply_shrinks_for_a_backend_that_takes_less() {
    let (_dir, store) = output_store();
    let reply = seal_into(
        &store,
        CallOutcome::Ok(ToolReply::from_text(numbered_lines(10_000))),
    );
    let whole = parse_payload(&reply);
    for limit in [20_000, 2_000, 600] {
        let smaller = shrink_payload(reply.payload_json(), limit).expect("it is too large");
        assert!(smaller.len() <= limit, "{smaller}");
        let sealed: Value = serde_json::from_str(&smaller).expect("JSON");
        assert_fields!(sealed, {"/meta/truncated": true, "/meta/handle": whole["meta"]["handle"]});
        assert!(sealed["meta"]["omittedBytes"].as_u64() > whole["meta"]["omittedBytes"].as_u64());
        assert_starts_with!(sealed["result"].as_str().expect("text"), "line 1\n");
    }
    assert_eq!(shrink_payload(reply.payload_json(), 1 << 20), None);
}

#[test]
fn warnings_are_few_short_and_different_and_the_text_leaves_space_for_them() {
    let (_dir, store) = output_store();
    let warnings: Vec<String> = ["one", "two", "one"]
        .map(str::to_owned)
        .into_iter()
        .chain((0..30).map(|n| format!("{n} {}", "w".repeat(500))))
        .collect();
    let text = "line of text\n".repeat(10_000);
    let answer = ToolReply::from_text(text).with_meta(ResultMeta {
        warnings,
        ..ResultMeta::default()
    });
    let sealed = parse_payload(&seal_into(&store, CallOutcome::Ok(answer)));
    let told = sealed["meta"]["warnings"].as_array().expect("a list");
    assert_eq!((&told[0], &told[1]), (&json!("one"), &json!("two")));
    let last = told[told.len() - 1].as_str().expect("a text");
    assert_ends_with!(last, "more warnings are left out");
    let notes = punie_tool::request::untold_notes(&sealed).expect("notes");
    let expected: Vec<String> = told
        .iter()
        .map(|warning| format!("Note: {}", warning.as_str().expect("a text")))
        .collect();
    assert_eq!(notes.lines().collect::<Vec<_>>(), expected, "each once");
    let whole = sealed["result"].as_str().expect("a text").chars().count() + notes.chars().count();
    assert!(whole <= 30_000 + 500, "{whole}");
}
