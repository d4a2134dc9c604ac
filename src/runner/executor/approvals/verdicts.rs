//! The permission or the refusal that follows from an answer, in words for the caller. Not here: the asking.

use crate::approval_answer::AnsweredBy;
use crate::backend::RemoteAnswer;
use crate::ids::ToolName;
use crate::request::{CallFailure, ErrorCode, ResultMeta};
use crate::runner::call_audit::{ASK_RULE, Clearance};
use crate::runner::executor::running_call::RunningCall;
use crate::tool::{ApprovalSubject, NETWORK_RULE, ObserverDecision};

/// The topic of a remembered answer if only the person at this device was asked, and the rule of such an answer.
pub(super) const EDITOR_ASK_TOPIC: &str = "editor.ask";

/// The result of a question.
pub(super) enum ApprovalReply {
    /// The answer of the person at the editor.
    InEditor(ObserverDecision),
    /// The answer of another party, or `None` if there was none.
    Answer(Option<RemoteAnswer>),
    /// No person can be asked: the caller's side does not listen, and nobody else is there.
    NobodyToAsk,
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

/// Returns the refusal of a call about which no person can be asked now.
pub(super) fn nobody_to_ask_denial(
    call: &RunningCall,
    asked: Option<&ApprovalSubject>,
) -> ApprovalFailure {
    let rule = match asking_rule(asked) {
        NETWORK_RULE => "",
        _ => ", or add a rule by `punie-runner policy allow`",
    };
    let text = format!(
        "{} was not run: {}, and nobody can be asked now. The owner can change that: run `punie-runner approvals \
         --watch` on the device, or `punie-runner run` in a terminal{rule}. Do without it, or ask again then.",
        call.accepted.tool_request().tool,
        asking_reason(asked)
    );
    policy_denial(text, asked)
}

/// Returns the refusal of a call that the caller's side allowed though its question showed only a part of the call.
pub(super) fn unseen_denial(tool: &ToolName, asked: Option<&ApprovalSubject>) -> ApprovalFailure {
    let text = format!(
        "{tool} was not run: the caller's side allowed it, but the call is too long for its question, which showed only \
         a part. Only the person at the device can allow it. Ask again, and let them read it by `punie-runner approvals \
         show`; or split it into shorter calls."
    );
    policy_denial(text, asked)
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
