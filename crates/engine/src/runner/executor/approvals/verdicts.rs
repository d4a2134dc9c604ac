//! The permission or the refusal that follows from an answer, in words for the caller.

use crate::backend::RemoteAnswer;
use crate::runner::call_audit::{ASK_RULE, Clearance};
use crate::runner::executor::running_call::RunningCall;
use punie_core::approval_answer::{AnswerPlace, AnsweredBy, ApprovalDenial, ApprovalOption};
use punie_core::ids::ToolName;
use punie_home::PersonReply;
use punie_tool::request::{CallFailure, ErrorCode, ResultMeta};
use punie_tool::{ApprovalSubject, NETWORK_RULE, ObserverDecision};

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

/// The answer of a person that counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct PersonAnswer {
    pub option: ApprovalOption,
    pub place: AnswerPlace,
}

impl PersonAnswer {
    /// Returns the answer that the backend or this device has. `here`: the answer of the person at this device.
    pub fn from_remote(answer: &RemoteAnswer, here: Option<&PersonReply>) -> Self {
        let place = match answer.by {
            AnsweredBy::Caller => AnswerPlace::Caller,
            AnsweredBy::Device => here.map_or(AnswerPlace::Command, |reply| reply.place),
        };
        Self {
            option: answer.option,
            place,
        }
    }

    /// Describes the answer, given after a wait of this time.
    pub fn describe_after(self, waited_ms: f64) -> String {
        let extent = if self.option.is_always() {
            " for this conversation"
        } else {
            ""
        };
        let who = self.place.describe_answerer();
        format!("{who}{extent}, after {}", format_wait(waited_ms))
    }

    /// Describes the answer, given to an earlier call.
    pub fn describe_earlier(self) -> String {
        format!(
            "{} for this conversation, earlier",
            self.place.describe_answerer()
        )
    }

    /// Returns the side that answered, as the audit names it.
    fn audit_name(self) -> &'static str {
        match self.place {
            AnswerPlace::Caller => AnsweredBy::Caller.as_str(),
            _ => AnsweredBy::Device.as_str(),
        }
    }
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
    answer: PersonAnswer,
    tool: &ToolName,
    asked: Option<&ApprovalSubject>,
) -> Result<Clearance, ApprovalFailure> {
    if answer.option.is_allowed() {
        return Ok(Clearance::by_approval(
            answer.audit_name(),
            asking_rule(asked),
        ));
    }
    let who = match answer.place {
        AnswerPlace::Caller => "The caller's side",
        _ => "The owner of this device",
    };
    let because = asked
        .and_then(|asked| asked.why.as_deref())
        .map_or_else(String::new, |why| format!(" (asked because {why})"));
    let text = if answer.option.is_always() {
        format!(
            "{who} denied this call{because}, for the rest of this conversation: {tool} was not run. Do without it."
        )
    } else {
        format!(
            "{who} denied this call{because}: {tool} was not run. Do without it, or say why it is needed and ask again."
        )
    };
    Err(policy_denial(
        text,
        asked,
        ApprovalDenial::Answered(answer.place),
    ))
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
    let denial = ApprovalDenial::Answered(AnswerPlace::Editor);
    Err(policy_denial(text, None, denial))
}

/// Returns the refusal of a call about which no person answered. `asks_caller`: the caller's side was asked too.
pub(super) fn unanswered_denial(
    call: &RunningCall,
    asked: Option<&ApprovalSubject>,
    waited_ms: f64,
    asks_caller: bool,
) -> ApprovalFailure {
    let waited = format_wait(waited_ms);
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
        "{} was not run: {}, and nobody answered within {waited}. Ask again when somebody is there: {editor}`punie-runner approvals` at the device{also}.",
        call.accepted.tool_request().tool,
        asking_reason(asked)
    );
    policy_denial(text, asked, ApprovalDenial::NobodyAnswered)
}

/// Formats the time of a wait: `30 s`, `10 min`.
pub(super) fn format_wait(ms: f64) -> String {
    let seconds = (ms.max(0.0) / 1_000.0).round();
    if seconds < 120.0 {
        format!("{seconds:.0} s")
    } else {
        format!("{:.0} min", seconds / 60.0)
    }
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
    policy_denial(text, asked, ApprovalDenial::NobodyToAsk)
}

/// Returns the refusal of a call that the caller's side allowed though its question showed only a part of the call.
pub(super) fn unseen_denial(tool: &ToolName, asked: Option<&ApprovalSubject>) -> ApprovalFailure {
    let text = format!(
        "{tool} was not run: the caller's side allowed it, but the call is too long for its question, which showed only \
         a part. Only the person at the device can allow it. Ask again, and let them read it by `punie-runner approvals \
         show`; or split it into shorter calls."
    );
    policy_denial(text, asked, ApprovalDenial::SeenInPart)
}

/// Describes for the history why a person is asked.
pub(super) fn describe_asking(asked: Option<&ApprovalSubject>) -> String {
    match asked.map(|asked| asked.rule.as_deref()) {
        None => "by the editor".to_owned(),
        Some(None | Some(ASK_RULE)) => format!("by {ASK_RULE} in config.toml"),
        Some(Some(rule)) => format!("by the rule {rule}"),
    }
}

/// Returns the owner's rule by which a person is asked.
pub(super) fn asking_rule(asked: Option<&ApprovalSubject>) -> &str {
    asked
        .and_then(|asked| asked.rule.as_deref())
        .unwrap_or(ASK_RULE)
}

/// Returns the refusal with this text.
fn policy_denial(
    text: String,
    asked: Option<&ApprovalSubject>,
    denial: ApprovalDenial,
) -> ApprovalFailure {
    let meta = ResultMeta {
        denial: Some(denial),
        rule: Some(asking_rule(asked).to_owned()),
        ..ResultMeta::default()
    };
    let failure = CallFailure::new(ErrorCode::PolicyDenied, text).with_meta(meta);
    ApprovalFailure::Refused(Box::new(failure))
}
