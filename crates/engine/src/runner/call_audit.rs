//! The audit rows of calls: requests, decisions and ends, never their arguments or results. Not here: the hash chain
//! of the rows (audit).

use std::sync::Arc;

use crate::audit::{AuditActor, AuditDecision, AuditEntry, AuditEvent, AuditLog, sha256_text};
use crate::journal::{AcceptedRequest, RequestOrigin};
use punie_core::clock::Clock;
use punie_core::host_traffic::HostTraffic;
use punie_core::ids::RequestId;
use punie_tool::ConfinementReport;
use punie_tool::request::{
    CallOutcome, CleanReply, ErrorCode, ResultMeta, ToolEffect, ToolRequest,
};

/// The owner's rule by which a person is asked.
pub(super) const ASK_RULE: &str = "policy.ask";

/// The reason why a call was allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Clearance {
    decision: AuditDecision,
    by: Option<String>,
    rule: Option<String>,
}

impl Clearance {
    /// Allows a call that needed no approval.
    pub(super) fn without_approval() -> Self {
        Self {
            decision: AuditDecision::Allowed,
            by: None,
            rule: None,
        }
    }

    /// Allows a call because this person or side was asked because of this rule and allowed it.
    pub(super) fn by_approval(who: impl Into<String>, rule: &str) -> Self {
        Self {
            decision: AuditDecision::Asked,
            by: Some(who.into()),
            rule: Some(rule.to_owned()),
        }
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
    network: Vec<HostTraffic>,
}

impl From<&CallOutcome> for AuditFacts {
    fn from(outcome: &CallOutcome) -> Self {
        let meta: &ResultMeta = match outcome {
            CallOutcome::Ok(reply) => &reply.meta,
            CallOutcome::Error(failure) | CallOutcome::Cancelled(failure) => &failure.meta,
        };
        Self {
            exit_code: meta.exit_code,
            signal: meta.signal.clone(),
            confinement: meta.confinement.clone(),
            may_have_run: meta.may_have_run,
            rule: meta.rule.clone(),
            network: meta.network.clone(),
        }
    }
}

/// Creates a row about a request, with the hash of its arguments.
pub(super) fn request_entry_with_args(
    request: &ToolRequest,
    event: AuditEvent,
    who: AuditActor,
    now_ms: i64,
) -> AuditEntry {
    AuditEntry {
        args_hash: Some(sha256_text(&request.args)),
        ..request_entry(request, event, who, now_ms)
    }
}

/// Creates a row about a request.
fn request_entry(
    request: &ToolRequest,
    event: AuditEvent,
    who: AuditActor,
    now_ms: i64,
) -> AuditEntry {
    AuditEntry {
        conversation_id: Some(request.conversation.to_string()),
        agent_type: request.agent_type.clone(),
        caller: request.caller.clone(),
        tool_name: Some(request.tool.to_string()),
        ..AuditEntry::new(event, who, now_ms).with_request(&request.id)
    }
}

/// Writes audit rows about calls.
pub(super) struct CallAudit {
    pub log: AuditLog,
    pub clock: Clock,
    pub confinement: Arc<dyn ConfinementReport>,
}

impl CallAudit {
    /// Creates a row about a call. Only the first one has the arguments' hash, which takes time for long arguments.
    fn entry(&self, call: &AcceptedRequest, event: AuditEvent, is_first: bool) -> AuditEntry {
        let who = if call.origin() == RequestOrigin::Task {
            AuditActor::Task
        } else {
            AuditActor::Caller
        };
        let about = if is_first {
            request_entry_with_args
        } else {
            request_entry
        };
        about(call.tool_request(), event, who, self.clock.now_ms())
    }

    /// Records that a call begins. The row of a call with effects is in the file before its effect.
    pub(super) async fn record_begun(
        &self,
        call: &AcceptedRequest,
        cleared: &Clearance,
        attempt: u32,
    ) {
        let at_most_once = call.tool_effect().runs_at_most_once();
        let entry = AuditEntry {
            decision: Some(cleared.decision),
            by: cleared.by.clone(),
            rule: cleared.rule.clone(),
            attempt: Some(attempt),
            confinement: at_most_once.then(|| self.confinement.describe_confinement()),
            ..self.entry(call, AuditEvent::Begun, true)
        };
        self.append_entry(call, entry).await;
    }

    /// Adds a row about a call, and waits for it if the call has effects.
    async fn append_entry(&self, call: &AcceptedRequest, entry: AuditEntry) {
        if call.tool_effect().runs_at_most_once() {
            self.log.append_entry(entry).await;
        } else {
            self.log.queue_entries(vec![entry]);
        }
    }

    /// Records that a call was answered. A call that never began counts as denied unless its caller cancelled it; so
    /// does a call that its tool refused by the owner's rules. The row of a call with effects is in the file before
    /// its answer is recorded.
    pub(super) async fn record_answered(
        &self,
        call: &AcceptedRequest,
        reply: &CleanReply,
        facts: AuditFacts,
        attempt: Option<u32>,
        took: std::time::Duration,
    ) {
        let is = |codes: &[ErrorCode]| {
            codes
                .iter()
                .any(|code| reply.failure_code() == Some(code.as_str()))
        };
        let never_began =
            attempt.is_none() && reply.failure_code().is_some() && !is(&[ErrorCode::Cancelled]);
        let by_rule = is(&[ErrorCode::PolicyDenied, ErrorCode::OutsideWorkspace]);
        let denied = (never_began || by_rule) && !facts.may_have_run;
        if call.tool_effect() == ToolEffect::Executes {
            self.confinement
                .note_told_traffic(&call.tool_request().id, &facts.network);
        }
        let entry = AuditEntry {
            decision: denied.then_some(AuditDecision::Denied),
            code: reply.failure_code().map(str::to_owned),
            rule: facts.rule,
            confinement: facts.confinement,
            attempt,
            outcome: Some(reply.outcome_kind().as_str().to_owned()),
            exit_code: facts.exit_code,
            signal: facts.signal,
            network: facts.network,
            may_have_run: facts.may_have_run,
            bytes: Some(reply.payload_json().len() as u64),
            duration_ms: u64::try_from(took.as_millis()).ok(),
            ..self.entry(call, AuditEvent::Answered, attempt.is_none())
        };
        self.append_entry(call, entry).await;
    }

    /// Records the traffic of commands that went on after their call's answer.
    pub(super) fn record_later_traffic(&self) {
        let later = self.confinement.take_later_traffic();
        let row = |(request, network): (RequestId, _)| AuditEntry {
            network,
            ..AuditEntry::new(AuditEvent::Traffic, AuditActor::Runner, self.clock.now_ms())
                .with_request(&request)
        };
        if !later.is_empty() {
            self.log.queue_entries(later.into_iter().map(row).collect());
        }
    }

    /// Records that a reply is no longer posted, because the backend does not accept it, with its code if it gave
    /// one.
    pub(super) fn record_undeliverable(&self, id: &RequestId, code: Option<&str>, reason: &str) {
        let row = AuditEntry::new(
            AuditEvent::Undeliverable,
            AuditActor::Backend,
            self.clock.now_ms(),
        )
        .with_request(id)
        .with_detail(reason);
        self.log.queue_entries(vec![AuditEntry {
            code: code.map(str::to_owned),
            ..row
        }]);
    }

    /// Records an event that is not about a call.
    pub(super) fn event(&self, event: AuditEvent, who: AuditActor, detail: impl Into<String>) {
        let detail = Some(detail.into()).filter(|detail: &String| !detail.is_empty());
        self.log.queue_entries(vec![AuditEntry {
            detail,
            ..AuditEntry::new(event, who, self.clock.now_ms())
        }]);
    }
}
