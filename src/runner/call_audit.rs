//! The audit rows of calls: requests, decisions and ends, never their arguments or results. Not here: the hash chain
//! of the rows (audit).

use std::sync::Arc;

use super::clock::Clock;
use super::parts::Confines;
use crate::audit::{Audit, Decision, Entry, Event, Who, hash_of};
use crate::ids::RequestId;
use crate::journal::{Accepted, Origin};
use crate::request::{CleanReply, ErrorCode, Meta, Outcome, ToolRequest};

/// The owner's rule by which a person is asked.
pub(super) const ASKED: &str = "policy.ask";

/// The reason why a call was allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Clearance {
    decision: Decision,
    by: Option<String>,
    rule: Option<String>,
}

impl Clearance {
    /// Allows a call that needed no approval.
    pub(super) fn freely() -> Self {
        Self { decision: Decision::Allowed, by: None, rule: None }
    }

    /// Allows a call because this person or side was asked because of this rule and allowed it.
    pub(super) fn by(who: impl Into<String>, rule: &str) -> Self {
        Self { decision: Decision::Asked, by: Some(who.into()), rule: Some(rule.to_owned()) }
    }
}

/// The parts of an outcome that an audit row records.
#[derive(Debug, Clone, Default)]
pub(super) struct AuditFacts {
    exit_code: Option<i32>,
    signal: Option<String>,
    confinement: Option<String>,
    may_have_run: bool,
    rule: Option<String>,
}

impl From<&Outcome> for AuditFacts {
    fn from(outcome: &Outcome) -> Self {
        let meta: &Meta = match outcome {
            Outcome::Ok(reply) => &reply.meta,
            Outcome::Error(failure) | Outcome::Cancelled(failure) => &failure.meta,
        };
        Self {
            exit_code: meta.exit_code,
            signal: meta.signal.clone(),
            confinement: meta.confinement.clone(),
            may_have_run: meta.may_have_run,
            rule: meta.rule.clone(),
        }
    }
}

/// Creates a row about a request, with the hash of its arguments.
pub(super) fn about(request: &ToolRequest, event: Event, who: Who, now_ms: i64) -> Entry {
    Entry { args_hash: Some(hash_of(&request.args)), ..named(request, event, who, now_ms) }
}

/// Creates a row about a request.
fn named(request: &ToolRequest, event: Event, who: Who, now_ms: i64) -> Entry {
    Entry {
        conversation_id: Some(request.conversation.to_string()),
        agent_type: request.agent_type.clone(),
        tool_name: Some(request.tool.to_string()),
        ..Entry::new(event, who, now_ms).about(&request.id)
    }
}

/// Writes audit rows about calls. Cheap to clone.
#[derive(Clone)]
pub(super) struct CallAudit {
    pub audit: Audit,
    pub clock: Clock,
    pub confinement: Arc<dyn Confines>,
}

impl CallAudit {
    /// Creates a row about a call. Only the first one has the arguments' hash, which takes time for long arguments.
    fn about(&self, call: &Accepted, event: Event, is_first: bool) -> Entry {
        let who = if call.origin() == Origin::Task { Who::Task } else { Who::Caller };
        let about = if is_first { about } else { named };
        about(call.request(), event, who, self.clock.now_ms())
    }

    /// Records that a call begins. The row of a call with effects is in the file before its effect.
    pub(super) async fn record_begun(&self, call: &Accepted, cleared: &Clearance, attempt: u32) {
        let at_most_once = call.effect().at_most_once();
        let entry = Entry {
            decision: Some(cleared.decision),
            by: cleared.by.clone(),
            rule: cleared.rule.clone(),
            attempt: Some(attempt),
            confinement: at_most_once.then(|| self.confinement.in_words()),
            ..self.about(call, Event::Begun, true)
        };
        self.record_about(call, entry).await;
    }

    /// Adds a row about a call, and waits for it if the call has effects.
    async fn record_about(&self, call: &Accepted, entry: Entry) {
        if call.effect().at_most_once() {
            self.audit.add(entry).await;
        } else {
            self.audit.note(vec![entry]);
        }
    }

    /// Records that a call was answered. A call that never began counts as denied unless its caller cancelled it; so
    /// does a call that its tool refused by the owner's rules. The row of a call with effects is in the file before
    /// its answer is recorded.
    pub(super) async fn record_answered(
        &self,
        call: &Accepted,
        reply: &CleanReply,
        facts: AuditFacts,
        attempt: Option<u32>,
        took: std::time::Duration,
    ) {
        let is = |codes: &[ErrorCode]| codes.iter().any(|code| reply.code() == Some(code.as_str()));
        let never_began = attempt.is_none() && reply.code().is_some() && !is(&[ErrorCode::Cancelled]);
        let by_rule = is(&[ErrorCode::PolicyDenied, ErrorCode::OutsideWorkspace]);
        let denied = (never_began || by_rule) && !facts.may_have_run;
        let entry = Entry {
            decision: denied.then_some(Decision::Denied),
            code: reply.code().map(str::to_owned),
            rule: facts.rule,
            confinement: facts.confinement,
            attempt,
            outcome: Some(reply.kind().as_str().to_owned()),
            exit_code: facts.exit_code,
            signal: facts.signal,
            may_have_run: facts.may_have_run,
            bytes: Some(reply.payload().len() as u64),
            duration_ms: u64::try_from(took.as_millis()).ok(),
            ..self.about(call, Event::Answered, attempt.is_none())
        };
        self.record_about(call, entry).await;
    }

    /// Records that a reply is no longer posted, because the backend does not accept it, with its code if it gave
    /// one.
    pub(super) fn record_undeliverable(&self, id: &RequestId, code: Option<&str>, reason: &str) {
        let row =
            Entry::new(Event::Undeliverable, Who::Backend, self.clock.now_ms()).about(id).saying(reason);
        self.audit.note(vec![Entry { code: code.map(str::to_owned), ..row }]);
    }

    /// Records an event that is not about a call.
    pub(super) fn record_event(&self, event: Event, who: Who, detail: impl Into<String>) {
        let detail = Some(detail.into()).filter(|detail: &String| !detail.is_empty());
        self.audit.note(vec![Entry { detail, ..Entry::new(event, who, self.clock.now_ms()) }]);
    }
}
