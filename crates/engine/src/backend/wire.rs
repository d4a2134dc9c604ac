//! The JSON of the contract; no other module reads or writes it. Numbers in replies are floats, and unknown fields are
//! allowed. A malformed request is reported by itself and does not fail its page.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::{
    ClaimReply, EventPage, HeartbeatReply, NextPoll, OfferedEvent, PostOutcome, RemoteAnswer,
    RemoteAnswerKind, RemoteQuestion,
};
use punie_core::approval_answer::{AnsweredBy, ApprovalOption};
use punie_core::ids::{ConversationId, DeviceId, RequestId, ToolName};
use punie_tool::request::{RequestSession, ToolRequest};

/// The reason why a value does not match the contract.
pub(super) type ShapeMismatch = String;

pub(super) fn parse_page(value: &Value, own: &DeviceId) -> Result<EventPage, ShapeMismatch> {
    let events = value["events"].as_array().ok_or("no events")?;
    Ok(EventPage {
        events: events.iter().map(|it| parse_event(it, own)).collect(),
        cursor: value["cursor"].as_str().map(str::to_owned),
        is_done: value["isDone"].as_bool().unwrap_or(true),
        next: parse_next_poll(value),
    })
}

/// Returns the backend's wish for the next poll, if it states one.
fn parse_next_poll(page: &Value) -> NextPoll {
    match page["nextPollMs"].as_f64() {
        Some(ms) if ms.is_finite() => NextPoll::After(Duration::from_secs_f64(
            ms.clamp(100.0, 3_600_000.0) / 1_000.0,
        )),
        _ => NextPoll::OnSchedule,
    }
}

pub(super) fn parse_open_ids(value: &Value) -> Result<Vec<OfferedEvent>, ShapeMismatch> {
    let open = value.as_array().ok_or("not a list")?;
    let offered = |row: &Value| match row["requestId"].as_str().map(RequestId::parse) {
        Some(Ok(id)) => OfferedEvent::Open {
            id,
            cancelled: cancelled_flag(row),
        },
        _ => skipped_event("an open request without a usable id"),
    };
    Ok(open.iter().map(offered).collect())
}

pub(super) fn parse_open_requests(
    value: &Value,
    own: &DeviceId,
) -> Result<Vec<OfferedEvent>, ShapeMismatch> {
    let requests = value.as_array().ok_or("not a list")?;
    Ok(requests
        .iter()
        .map(|body| parse_request(body, own))
        .collect())
}

fn parse_event(event: &Value, own: &DeviceId) -> OfferedEvent {
    match event["type"].as_str() {
        Some("tool_cancel") => match event["requestId"].as_str().map(RequestId::parse) {
            Some(Ok(id)) => OfferedEvent::Cancel(id),
            _ => skipped_event("a cancel without a usable request id"),
        },
        Some("tool_request") => match event.get("request") {
            // The body is gone: the request was answered, and the backend deleted it by age.
            None | Some(Value::Null) => {
                skipped_event("a request whose body the backend no longer has")
            }
            Some(body) => parse_request(body, own),
        },
        other => skipped_event(&format!("an event of the unknown kind {other:?}")),
    }
}

fn skipped_event(why: &str) -> OfferedEvent {
    OfferedEvent::Skipped {
        why: why.to_owned(),
    }
}

fn parse_request(body: &Value, own: &DeviceId) -> OfferedEvent {
    let Some(id) = body["requestId"]
        .as_str()
        .and_then(|id| RequestId::parse(id).ok())
    else {
        return skipped_event("a request without a usable id");
    };
    if let Some(other) = body
        .get("deviceId")
        .filter(|named| named.as_str() != Some(own.as_str()))
    {
        let why = format!(
            "it is for another device ({}), not for {own}",
            short_json(other)
        );
        return OfferedEvent::Unreadable {
            request: salvage_request(id, body),
            why,
        };
    }
    match parse_request_fields(&id, body) {
        Ok(request) => OfferedEvent::Request(request),
        Err(why) => OfferedEvent::Unreadable {
            request: salvage_request(id, body),
            why,
        },
    }
}

fn short_json(value: &Value) -> String {
    value.to_string().chars().take(80).collect()
}

fn parse_request_fields(id: &RequestId, body: &Value) -> Result<ToolRequest, ShapeMismatch> {
    let text = |key: &str| match body.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(format!("{key} must be a string, not {other}")),
    };
    let number = |key: &str| match body.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value
            .as_f64()
            .map(Some)
            .ok_or_else(|| format!("{key} must be a number")),
    };
    let tool = text("toolName")?.ok_or("toolName is missing")?;
    let conversation = match text("conversationId")? {
        Some(conversation) => ConversationId::parse(conversation).map_err(|bad| bad.to_string())?,
        None => ConversationId::OwnOf(id.clone()),
    };
    Ok(ToolRequest {
        id: id.clone(),
        tool: ToolName::parse(tool).map_err(|bad| bad.to_string())?,
        args: text("args")?.ok_or("args is missing: it must be JSON text")?,
        conversation,
        agent_type: text("agentType")?,
        caller: text("callerName")?,
        session: parse_session(body)?,
        created_at_ms: number("createdAtMs")?.unwrap_or(0.0),
        deadline_ms: number("deadlineMs")?,
        cancelled: body["cancelled"].as_bool().unwrap_or(false),
        issued_at_ms: number("issuedAtMs")?,
        signature: text("signature")?,
    })
}

/// Returns the session that a request belongs to. One that cannot be read makes the request unreadable: without it, the
/// request would not be narrowed.
fn parse_session(body: &Value) -> Result<Option<Arc<RequestSession>>, ShapeMismatch> {
    match body.get("session") {
        None | Some(Value::Null) => Ok(None),
        Some(session) => RequestSession::from_json(&session.to_string())
            .map(|session| Some(Arc::new(session)))
            .map_err(|bad| format!("session cannot be read: {bad}")),
    }
}

/// Reads as much as possible of a malformed request, so that it can be answered.
fn salvage_request(id: RequestId, body: &Value) -> ToolRequest {
    let tool = body["toolName"]
        .as_str()
        .and_then(|name| ToolName::parse(name).ok());
    let args = body.get("args").map(|args| {
        // Sorted by key: a store that does not keep the order must not turn a repeated call into a different one.
        let mut args = args.clone();
        args.sort_all_objects();
        args.to_string()
    });
    ToolRequest {
        conversation: ConversationId::OwnOf(id.clone()),
        tool: tool.unwrap_or_else(|| ToolName::parse("unreadable").expect("a word is a tool name")),
        args: args.unwrap_or_default(),
        id,
        agent_type: None,
        caller: None,
        session: None,
        created_at_ms: 0.0,
        deadline_ms: None,
        cancelled: false,
        issued_at_ms: None,
        signature: None,
    }
}

pub(super) fn parse_claim(value: &Value) -> Result<ClaimReply, ShapeMismatch> {
    let reason = value["reason"].as_str().unwrap_or_default();
    let expires = value["expiresInMs"]
        .as_f64()
        .unwrap_or(0.0)
        .clamp(0.0, 600_000.0);
    let leased_for = (reason == "leased").then(|| Duration::from_secs_f64(expires / 1_000.0));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a small count, bounded here"
    )]
    let attempt = value["attempt"].as_f64().unwrap_or(1.0).clamp(0.0, 1e6) as u32;
    Ok(ClaimReply {
        attempt,
        granted: value["granted"].as_bool().ok_or("no granted")?,
        reason: reason.to_owned(),
        leased_for,
        answered: reason == "finished",
        cancelled: cancelled_flag(value),
        watched: watched_flag(value),
    })
}

/// Returns whether a reply says that the caller cancelled the request.
pub(super) fn cancelled_flag(value: &Value) -> bool {
    value["cancelled"].as_bool().unwrap_or(false)
}

/// Returns whether a caller listens for progress; true if the backend does not say, as older ones do not.
pub(super) fn watched_flag(value: &Value) -> bool {
    value["watched"].as_bool().unwrap_or(true)
}

pub(super) fn parse_post_outcome(value: &Value) -> Result<PostOutcome, ShapeMismatch> {
    match (value["stored"].as_bool(), value["duplicate"].as_bool()) {
        (_, Some(true)) => Ok(PostOutcome::Duplicate),
        (Some(true), _) => Ok(PostOutcome::Stored),
        _ => Err("neither stored nor duplicate".to_owned()),
    }
}

pub(super) fn parse_server_time(value: &Value) -> Result<f64, ShapeMismatch> {
    value["serverNowMs"]
        .as_f64()
        .ok_or_else(|| "no serverNowMs".to_owned())
}

/// Returns the id of the deployment, if it is one that can be stored in a file.
pub(super) fn parse_backend_id(session: &Value) -> Option<String> {
    let id = session["backendId"].as_str()?;
    let fits = (1..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
    fits.then(|| id.to_owned())
}

pub(super) fn parse_heartbeat(value: &Value) -> Result<HeartbeatReply, ShapeMismatch> {
    let next = value["nextBeatMs"]
        .as_f64()
        .filter(|ms| (1_000.0..=3_600_000.0).contains(ms));
    Ok(HeartbeatReply {
        server_now_ms: parse_server_time(value)?,
        next: next.map(|ms| Duration::from_secs_f64(ms / 1_000.0)),
        other_process: other_process_flag(value),
    })
}

/// Returns whether the backend knows of another process with this device's identity.
pub(super) fn other_process_flag(value: &Value) -> bool {
    value["otherProcess"].as_bool().unwrap_or(false)
}

/// Returns whether the backend registered this device just now.
pub(super) fn registered_flag(value: &Value) -> bool {
    value["registered"].as_bool().unwrap_or(true)
}

/// The id of the option that is answered with a text.
const TEXT_OPTION: &str = "text";
/// The beginning of the ids of a question's own options; their numbers follow.
const OWN_OPTION: &str = "choice-";
/// The most options of a question's own. With more than these it is answered with a text.
const MOST_OWN_OPTIONS: usize = 6;
/// The most characters of an option's name: less than the wire's 256 bytes.
const MOST_NAME_CHARS: usize = 60;

/// Returns the arguments of a question.
pub(super) fn question_args(question: &RemoteQuestion) -> Value {
    omit_nulls(json!({
        "permissionId": question.id.as_str(),
        "requestId": question.request.as_str(),
        "title": question.title,
        "host": question.host,
        "options": question_options(question),
        "expiresAtMs": question.expires_at_ms,
    }))
}

fn question_options(question: &RemoteQuestion) -> Vec<Value> {
    let option = |id: &str, name: &str, kind: ApprovalOption| json!({ "optionId": id, "name": name, "kind": kind.as_str() });
    let refusal = || {
        option(
            ApprovalOption::RejectOnce.as_str(),
            "Refuse",
            ApprovalOption::RejectOnce,
        )
    };
    let accept = |id: &str, name: &str| option(id, name, ApprovalOption::AllowOnce);
    match &question.answers {
        RemoteAnswerKind::Approval => {
            let approval = |kind: ApprovalOption| {
                let is_for_device = question.is_cut && kind.is_allowed();
                let limit = if is_for_device {
                    " (only at the device)"
                } else {
                    ""
                };
                option(
                    kind.as_str(),
                    &format!("{}{limit}", kind.display_label()),
                    kind,
                )
            };
            ApprovalOption::ALL.map(approval).into()
        }
        RemoteAnswerKind::Text(choices) => {
            let listed = choices.iter().filter(|_| choices.len() <= MOST_OWN_OPTIONS);
            let mut options: Vec<Value> = listed
                .enumerate()
                .map(|(at, label)| {
                    let name: String = label.chars().take(MOST_NAME_CHARS).collect();
                    accept(&format!("{OWN_OPTION}{}", at + 1), &name)
                })
                .collect();
            options.push(accept(TEXT_OPTION, "Answer with the text of the answer"));
            options.push(refusal());
            options
        }
        RemoteAnswerKind::Confirmation => {
            vec![
                accept(ApprovalOption::AllowOnce.as_str(), "Done"),
                refusal(),
            ]
        }
        RemoteAnswerKind::RefusalOnly => vec![refusal()],
    }
}

/// Returns the arguments of the device's answer.
pub(super) fn answer_args(id: &RequestId, option: ApprovalOption, text: Option<&str>) -> Value {
    let option = text.map_or(option.as_str(), |_| TEXT_OPTION);
    omit_nulls(json!({ "permissionId": id.as_str(), "optionId": option, "text": text }))
}

/// Returns the answer in a reply or a listed question, or `None` if there is none or it is unreadable.
pub(super) fn parse_remote_answer(value: &Value) -> Option<RemoteAnswer> {
    let answer = value.get("answer")?;
    let field = |key: &str| answer[key].as_str();
    let option = field("optionId")?;
    let text = match option.strip_prefix(OWN_OPTION) {
        Some(number) => Some(number),
        None => field("text").filter(|_| option == TEXT_OPTION),
    };
    Some(RemoteAnswer {
        option: ApprovalOption::from_name(option),
        text: text.map(str::to_owned),
        by: AnsweredBy::from_side_name(field("by")?),
    })
}

/// Finds the answer to the question of this id in a list of questions.
pub(super) fn find_answer(list: &Value, id: &RequestId) -> Option<RemoteAnswer> {
    let is_it = |question: &&Value| question["permissionId"].as_str() == Some(id.as_str());
    list.as_array()?
        .iter()
        .find(is_it)
        .and_then(parse_remote_answer)
}

/// Leaves absent arguments out. Only the cursor of a poll may be null.
pub fn omit_nulls(mut args: Value) -> Value {
    if let Some(fields) = args.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    args
}

/// Returns a duration in milliseconds as the contract wants them: a whole float.
#[expect(
    clippy::cast_precision_loss,
    reason = "intervals are far below 2^53 milliseconds"
)]
pub(super) fn whole_millis(time: Duration) -> f64 {
    time.as_millis() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lease_of_another_is_worth_waiting_for() {
        let leased_for = |reason: &str| {
            let refused = json!({"granted": false, "reason": reason, "cancelled": false, "expiresInMs": 1_500.0});
            parse_claim(&refused).expect("a claim").leased_for
        };
        assert_eq!(leased_for("leased"), Some(Duration::from_millis(1_500)));
        assert_eq!(leased_for("finished"), None);
    }

    #[test]
    fn one_unreadable_request_does_not_spoil_its_page() {
        let good = json!({"requestId": "r1", "toolName": "Read", "args": "{}", "createdAtMs": 1.0, "cancelled": false, "attempt": 0.0});
        let page = parse_page(&json!({"events": [
            {"seq": "1", "type": "tool_request", "requestId": "r1", "request": good},
            {"seq": "2", "type": "tool_request", "requestId": "r2", "request": {"requestId": "r2", "toolName": 7}},
            {"seq": "3", "type": "tool_request", "requestId": "../r3", "request": {"requestId": "../r3"}},
            {"seq": "4", "type": "tool_cancel", "requestId": "r1", "request": null},
            {"seq": "5", "type": "new_kind"},
            5,
            {"seq": "6", "type": "tool_request", "requestId": "r4", "request": {"requestId": "r4", "deviceId": "dev-2", "toolName": "Read", "args": "{}"}},
            {"seq": "7", "type": "tool_request", "requestId": "r5", "request": {"requestId": "r5", "deviceId": "dev-1", "toolName": "Read", "args": "{}"}},
        ], "cursor": "7", "isDone": true}), &DeviceId::parse("dev-1").expect("an id")).expect("a page");
        let kinds: Vec<_> = page
            .events
            .iter()
            .map(|event| match event {
                OfferedEvent::Request(request) => format!("request {}", request.id),
                OfferedEvent::Cancel(id) => format!("cancel {id}"),
                OfferedEvent::Unreadable { request, why } => {
                    format!("unreadable {}: {why}", request.id)
                }
                OfferedEvent::Skipped { .. } | OfferedEvent::Open { .. } => "skipped".to_owned(),
            })
            .collect();
        assert_eq!(
            kinds,
            [
                "request r1",
                "unreadable r2: toolName must be a string, not 7",
                "skipped",
                "cancel r1",
                "skipped",
                "skipped",
                "unreadable r4: it is for another device (\"dev-2\"), not for dev-1",
                "request r5",
            ]
        );
    }

    #[test]
    fn arguments_that_are_no_text_are_the_same_in_any_order() {
        let args = |text: &str| {
            let body = format!(r#"{{"requestId": "r1", "toolName": "Read", "args": {text}}}"#);
            let body = serde_json::from_str(&body).expect("JSON");
            salvage_request(RequestId::parse("r1").expect("an id"), &body).args
        };
        let one = args(r#"{"b": {"y": 1, "x": [{"d": 1, "c": 2}]}, "a": 3}"#);
        let other = args(r#"{"a": 3, "b": {"x": [{"c": 2, "d": 1}], "y": 1}}"#);
        assert_eq!(one, other);
        assert_eq!(one, r#"{"a":3,"b":{"x":[{"c":2,"d":1}],"y":1}}"#);
    }
}
