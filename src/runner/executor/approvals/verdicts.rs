//! The permission or the refusal that follows from an answer, in words for the caller. Not here: the asking.

use crate::approval_answer::AnsweredBy;
use crate::backend::RemoteAnswer;
use crate::ids::ToolName;
use crate::request::{CallFailure, ErrorCode, ResultMeta};
use crate::runner::call_audit::{ASK_RULE, Clearance};
use crate::runner::executor::running_call::RunningCall;
use crate::tool::{ApprovalSubject, ObserverDecision};

/// The topic of a remembered answer if only the person at this device was asked, and the rule of such an answer.
pub(super) const EDITOR_ASK_TOPIC: &str = "editor.ask";
/// The most bytes of a title on the wire.
const MAX_TITLE_BYTES: usize = 4_000;

/// The result of a question.
pub(super) enum ApprovalReply {
    /// The answer of the person at the editor.
    InEditor(ObserverDecision),
    /// The answer of another party, or `None` if there was none.
    Answer(Option<RemoteAnswer>),
}

/// The reason why a call does not go on.
pub(in crate::runner) enum ApprovalFailure {
    /// It was refused.
    Refused(Box<CallFailure>),
    /// The caller cancelled it.
    Cancelled,
    /// The runner stops: the next process asks again.
    Stopping,
}

/// Turns an answer into the permission or the refusal of a call of this tool.
pub(super) fn apply_answer(
    answer: RemoteAnswer,
    tool: &ToolName,
    asked: Option<&ApprovalSubject>,
) -> Result<Clearance, ApprovalFailure> {
    if answer.option.is_allowed() {
        return Ok(Clearance::by_approval(
            answer.by.as_str(),
            asking_rule(asked),
        ));
    }
    let who = match answer.by {
        AnsweredBy::Device => "the person at this device",
        AnsweredBy::Caller => "the caller's side",
    };
    let then = if answer.option.is_always() {
        "for the rest of this conversation. Do without it."
    } else {
        "this once. Do without it, or say why it is needed and ask again."
    };
    let text = format!(
        "{tool} was not run: {}, and {who} refused it, {then}",
        asking_reason(asked)
    );
    Err(policy_denial(text, asked))
}

/// Returns the reason of the question, as a part of a sentence.
pub(super) fn asking_reason(asked: Option<&ApprovalSubject>) -> &str {
    let why = asked.and_then(|asked| asked.why.as_deref());
    why.unwrap_or("its owner wants to be asked about such calls")
}

/// Turns the answer of the person at an editor into the permission or the refusal of a call of this tool.
pub(super) fn apply_editor_verdict(
    verdict: &ObserverDecision,
    tool: &ToolName,
) -> Result<Clearance, ApprovalFailure> {
    if verdict.allowed {
        return Ok(Clearance::by_approval("editor", EDITOR_ASK_TOPIC));
    }
    let text = format!("{tool} was not run: {}. {}", verdict.by, verdict.then);
    Err(policy_denial(text, None))
}

/// Returns the refusal of a call about which no person answered. `asks_caller`: the caller's side was asked too.
pub(super) fn unanswered_denial(
    call: &RunningCall,
    asked: Option<&ApprovalSubject>,
    waited_ms: f64,
    asks_caller: bool,
) -> ApprovalFailure {
    let seconds = waited_ms.max(0.0) / 1_000.0;
    let also = if asks_caller {
        ", or the caller's own side"
    } else {
        ""
    };
    let editor = if call.observed.is_some() {
        "the editor, "
    } else {
        ""
    };
    let text = format!(
        "{} was not run: {}, and nobody answered within {seconds:.0} s. Ask again when somebody is there: {editor}`punie-runner approvals` at the device{also}.",
        call.accepted.tool_request().tool,
        asking_reason(asked)
    );
    policy_denial(text, asked)
}

/// Truncates a text in the middle.
pub(super) fn truncate_middle(text: &str) -> String {
    if text.len() <= MAX_TITLE_BYTES {
        return text.to_owned();
    }
    let half = MAX_TITLE_BYTES / 2 - 40;
    let (head, tail) = (
        text.floor_char_boundary(half),
        text.ceil_char_boundary(text.len() - half),
    );
    format!(
        "{} …({} bytes left out)… {}",
        &text[..head],
        tail - head,
        &text[tail..]
    )
}

/// Returns the owner's rule by which a person is asked.
pub(super) fn asking_rule(asked: Option<&ApprovalSubject>) -> &str {
    asked
        .and_then(|asked| asked.rule.as_deref())
        .unwrap_or(ASK_RULE)
}

/// Returns the refusal with this text.
pub(super) fn policy_denial(text: String, asked: Option<&ApprovalSubject>) -> ApprovalFailure {
    let meta = ResultMeta {
        rule: Some(asking_rule(asked).to_owned()),
        ..ResultMeta::default()
    };
    let failure = CallFailure::new(ErrorCode::PolicyDenied, text).with_meta(meta);
    ApprovalFailure::Refused(Box::new(failure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_title_both_ends_are_shown() {
        let text = format!("begin{}end", "é".repeat(MAX_TITLE_BYTES));
        let shown = truncate_middle(&text);
        assert!(
            shown.len() <= MAX_TITLE_BYTES
                && shown.starts_with("beginé")
                && shown.ends_with("éend"),
            "{shown}"
        );
        assert_eq!(truncate_middle("short"), "short");
    }
}
