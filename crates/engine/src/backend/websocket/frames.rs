//! The frames of the WebSocket protocol; no other module reads or writes them. An unusable frame is reported by itself
//! and does not end the connection.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use super::super::{DeclineReason, OfferedEvent, ResultPost};
use punie_core::ids::{ConversationId, RequestId, ToolName, to_hex};
use punie_tool::request::{OutcomeKind, ToolRequest};

/// The result of parsing a frame.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a frame is taken apart as soon as it is parsed, so none is stored"
)]
pub(super) enum ParsedFrame {
    /// An event for the runner.
    Event(OfferedEvent),
    /// An error frame for the sender, because the frame is unusable.
    Answer(String),
    /// A frame that is not meant for the runner.
    Ignored(String),
}

/// The conversation of all calls of a worker. They start in the order of arrival, and one with effects waits for those
/// before it.
const CONVERSATION: &str = "websocket";

/// The prefix of ids that do not fit our grammar; the hexadecimal of their bytes follows it.
const FOREIGN: &str = "ws-";

/// The limit that keeps the encoded form within our grammar.
const LONGEST_FOREIGN: usize = 60;

/// Errors that callers of this protocol compare literally. Additional text of our tools is cut off.
const EXACT_ERRORS: [&str; 3] = [
    "Error: Not a git repository",
    "Error: File not found",
    "Error: Security violation",
];

pub(super) fn parse_frame(text: &str) -> ParsedFrame {
    let frame = match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(frame)) => frame,
        Ok(_) => return ParsedFrame::Answer(error_frame(None, "the frame is no JSON object")),
        Err(cause) => {
            return ParsedFrame::Answer(error_frame(
                None,
                &format!("the frame is not JSON: {cause}"),
            ));
        }
    };
    match frame.get("type").and_then(Value::as_str) {
        Some("tool_call") => {
            with_request_id(&frame, |id| ParsedFrame::Event(parse_tool_call(id, &frame)))
        }
        Some("tool_cancel") => {
            with_request_id(&frame, |id| ParsedFrame::Event(OfferedEvent::Cancel(id)))
        }
        Some("error") => ParsedFrame::Ignored(format!(
            "the worker reports an error: {}",
            shorten_text(text)
        )),
        // Answering an unknown type could start an endless exchange.
        Some(other) => ParsedFrame::Ignored(format!(
            "a frame of the unknown type {:?}",
            shorten_text(other)
        )),
        None => ParsedFrame::Answer(error_frame(
            None,
            "the frame has no type; tool_call and tool_cancel are understood",
        )),
    }
}

pub(super) fn binary_frame_error() -> String {
    error_frame(
        None,
        "binary frames are not understood; send the JSON as a text frame",
    )
}

fn with_request_id(
    frame: &Map<String, Value>,
    go_on: impl FnOnce(RequestId) -> ParsedFrame,
) -> ParsedFrame {
    let Some(given) = frame.get("id").filter(|id| !id.is_null()) else {
        return ParsedFrame::Answer(error_frame(
            None,
            "the frame has no id, so nothing can be answered to it",
        ));
    };
    if let Some(id) = given.as_str().and_then(decode_worker_id) {
        return go_on(id);
    }
    let echoed = if given.is_string() || given.is_number() {
        given.clone()
    } else {
        Value::Null
    };
    let why = format!(
        "the id must be a text of 1 to 128 characters of A-Z a-z 0-9 _ -, or of at most {LONGEST_FOREIGN} bytes with \
         others; the call was not run"
    );
    ParsedFrame::Answer(tool_result_frame(&echoed, false, &why))
}

fn parse_tool_call(id: RequestId, frame: &Map<String, Value>) -> OfferedEvent {
    let args = match frame.get("args") {
        None | Some(Value::Null) => "{}".to_owned(),
        Some(args) => {
            // Sorted by key: a store that does not keep the order must not turn a repeated call into a different one.
            let mut args = args.clone();
            args.sort_all_objects();
            args.to_string()
        }
    };
    let tool = match frame.get("tool") {
        Some(Value::String(tool)) => ToolName::parse(tool.as_str()).map_err(|bad| bad.to_string()),
        Some(other) => Err(format!(
            "tool must be a text, not {}",
            shorten_text(&other.to_string())
        )),
        None => Err("tool is missing".to_owned()),
    };
    let (tool, why) = match tool {
        Ok(tool) => (tool, None),
        Err(why) => (
            ToolName::parse("unreadable").expect("a word is a tool name"),
            Some(why),
        ),
    };
    let request = ToolRequest {
        id,
        tool,
        args,
        conversation: ConversationId::parse(CONVERSATION).expect("a word is a conversation's id"),
        agent_type: None,
        caller: None,
        session: None,
        created_at_ms: wall_clock_ms(),
        deadline_ms: None,
        cancelled: false,
        issued_at_ms: None,
        signature: None,
    };
    match why {
        None => OfferedEvent::Request(request),
        Some(why) => OfferedEvent::Unreadable { request, why },
    }
}

/// Returns the frame that answers a call.
pub(super) fn result_frame(post: &ResultPost<'_>) -> String {
    let payload: Value = serde_json::from_str(post.payload).unwrap_or_default();
    let text = |key: &str| match payload.get(key) {
        Some(Value::String(text)) => Some(text.clone()),
        Some(json) => Some(json.to_string()),
        None => None,
    };
    let success = post.kind == OutcomeKind::Ok;
    let mut output = text("result").or_else(|| text("error")).unwrap_or_default();
    if !success
        && let Some(exact) = EXACT_ERRORS
            .iter()
            .find(|exact| output.lines().next() == Some(exact))
    {
        (*exact).clone_into(&mut output);
    }
    tool_result_frame(&Value::String(encode_worker_id(post.id)), success, &output)
}

/// Returns the frame for a repeated request that gets no result.
pub(super) fn decline_frame(id: &RequestId, why: DeclineReason) -> String {
    let id = encode_worker_id(id);
    match why {
        // This is no result: the result of the first call with this id was sent or is still to come.
        DeclineReason::Conflict => error_frame(
            Some(&id),
            "this id came before with another tool or other arguments; this call was not run, give it an id of its own",
        ),
        DeclineReason::Forgotten => tool_result_frame(
            &Value::String(id),
            false,
            "Error: This call was answered long ago and its result is not kept any more. It was not run again.",
        ),
    }
}

fn tool_result_frame(id: &Value, success: bool, output: &str) -> String {
    let status = if success { "success" } else { "error" };
    json!({"type": "tool_result", "tool_call_id": id, "status": status, "output": output})
        .to_string()
}

fn error_frame(id: Option<&str>, message: &str) -> String {
    match id {
        Some(id) => json!({"type": "error", "tool_call_id": id, "message": message}).to_string(),
        None => json!({"type": "error", "message": message}).to_string(),
    }
}

/// Returns the id for the journal.
fn decode_worker_id(id: &str) -> Option<RequestId> {
    match RequestId::parse(id) {
        Ok(known) if !id.starts_with(FOREIGN) => Some(known),
        _ if id.is_empty() || id.len() > LONGEST_FOREIGN => None,
        _ => RequestId::parse(format!("{FOREIGN}{}", to_hex(id.as_bytes()))).ok(),
    }
}

/// Returns the id as the worker gave it.
fn encode_worker_id(id: &RequestId) -> String {
    let foreign = id.as_str().strip_prefix(FOREIGN).and_then(|digits| {
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(byte).collect();
        String::from_utf8(bytes?).ok()
    });
    foreign.unwrap_or_else(|| id.as_str().to_owned())
}

fn shorten_text(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Returns the local time, because the protocol carries none.
pub(super) fn wall_clock_ms() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |age| age.as_secs_f64() * 1_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use punie_core::ids::LeaseId;

    fn request(text: &str) -> ToolRequest {
        match parse_frame(text) {
            ParsedFrame::Event(OfferedEvent::Request(request)) => request,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn answer(text: &str) -> Value {
        match parse_frame(text) {
            ParsedFrame::Answer(answer) => serde_json::from_str(&answer).expect("JSON"),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn a_call_needs_an_id_and_a_tool_and_nothing_else() {
        let call = request(r#"{"type":"tool_call","tool":"git_status","id":"c1"}"#);
        assert_eq!(
            (call.id.as_str(), call.tool.as_str(), call.args.as_str()),
            ("c1", "git_status", "{}")
        );
        let call = request(
            r#"{"id":"c2","args":{"path":"a","content":"b"},"tool":"write_file","type":"tool_call","x":1}"#,
        );
        assert_eq!(
            call.args, r#"{"content":"b","path":"a"}"#,
            "however it was ordered"
        );
        // The tool's decoder refuses arguments that are not an object, and names the expected type.
        assert_eq!(
            request(r#"{"type":"tool_call","tool":"read_file","id":"c3","args":[1]}"#).args,
            "[1]"
        );
    }

    #[test]
    fn what_cannot_be_answered_is_told_and_what_can_is_answered() {
        for bad in [
            "",
            "{",
            "[]",
            "7",
            "{}",
            r#"{"type":"tool_call","tool":"git_status"}"#,
        ] {
            let told = answer(bad);
            assert_eq!(
                (&told["type"], told.get("tool_call_id")),
                (&json!("error"), None),
                "{bad}"
            );
        }
        let long = "x".repeat(129);
        for id in [
            json!(5),
            json!(""),
            json!(long),
            json!("\u{1F600}".repeat(40)),
        ] {
            let told =
                answer(&json!({"type": "tool_call", "tool": "git_status", "id": id}).to_string());
            assert_eq!(
                (&told["type"], &told["status"]),
                (&json!("tool_result"), &json!("error"))
            );
            assert_eq!(told["tool_call_id"], id);
        }
        let ParsedFrame::Event(OfferedEvent::Unreadable { request, why }) =
            parse_frame(r#"{"type":"tool_call","id":"c1","tool":5}"#)
        else {
            panic!("a call whose tool cannot be read is answered like any other");
        };
        assert_eq!(
            (request.id.as_str(), why.as_str()),
            ("c1", "tool must be a text, not 5")
        );
        assert!(matches!(
            parse_frame(r#"{"type":"pong"}"#),
            ParsedFrame::Ignored(_)
        ));
    }

    #[test]
    fn every_id_comes_back_as_it_was_given() {
        for id in ["call_1", "a.b:c/d", "ws-6162", "ws-", "\u{e9}t\u{e9}", " "] {
            let inner = decode_worker_id(id).expect(id);
            assert_eq!(encode_worker_id(&inner), id);
        }
        assert_eq!(
            decode_worker_id("call_1").expect("an id").as_str(),
            "call_1"
        );
    }

    #[test]
    fn the_errors_that_callers_compare_with_come_to_the_letter() {
        let id = RequestId::parse("c1").expect("an id");
        let lease = LeaseId::random();
        let output = |kind, payload: Value| {
            let payload = payload.to_string();
            let post = ResultPost {
                id: &id,
                lease: &lease,
                kind,
                payload: &payload,
                truncated: false,
            };
            serde_json::from_str::<Value>(&result_frame(&post)).expect("JSON")
        };
        let refused = output(
            OutcomeKind::Error,
            json!({"error": "Error: Security violation\n../x leaves it"}),
        );
        assert_eq!(
            refused,
            json!({"type": "tool_result", "tool_call_id": "c1", "status": "error", "output": "Error: Security violation"})
        );
        let read = output(
            OutcomeKind::Ok,
            json!({"result": "Error: File not found\nis what this file holds"}),
        );
        assert_eq!(
            read["output"],
            "Error: File not found\nis what this file holds"
        );
        assert_eq!(
            output(OutcomeKind::Ok, json!({"result": {"a": 1}}))["output"],
            r#"{"a":1}"#
        );
        assert_eq!(
            output(OutcomeKind::Cancelled, json!({"error": "Cancelled."}))["status"],
            "error"
        );
    }
}
