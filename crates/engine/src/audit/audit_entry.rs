//! The content of an audit row. Only the time, the event and the actor are required. Texts from elsewhere are
//! truncated; none of them is an argument or a result.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use punie_core::host_traffic::HostTraffic;
use punie_core::ids::to_hex;

/// The event that a row records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditEvent {
    /// A call began: it was allowed, and its effect may follow.
    Begun,
    /// A call was answered: it ended, or was refused before it began.
    Answered,
    /// A request was refused on arrival: unreadable, without the required signature, or for another device.
    Refused,
    /// A second request used a known id with another tool or other arguments; it was not run.
    Conflict,
    /// A caller cancelled a request that was waiting or running.
    Cancelled,
    /// A caller cancelled a request that was finished or never seen.
    IdleCancel,
    /// The backend does not accept a reply, for example because it has another one; the code or the detail gives the
    /// reason.
    Undeliverable,
    /// The backend refused a heartbeat of this device as stale or as a repeat.
    HeartbeatRefused,
    /// New calls are held back: by a pause or by safe mode.
    Held,
    /// Calls may begin again.
    Released,
    /// The owner's `pause`.
    Pause,
    /// The owner's `stop` of one call or command.
    Stop,
    /// The owner's `resume`.
    Resume,
    /// The owner undid the changes of a request.
    Undo,
    /// The owner emptied the trash.
    TrashEmptied,
    /// The owner copied something out of the trash.
    TrashRestored,
    /// A protected path appeared or changed while a command ran; the detail says what became of it.
    ProtectedPath,
    /// The owner acknowledged notices; `count` says how many.
    Acknowledged,
    /// The owner answered a question about a call.
    Approval,
    /// A command sent or received something after its call's answer; `network` has all of its traffic.
    Traffic,
    /// A runner started.
    Started,
    /// A runner stopped.
    Stopped,
    /// Rows could not be written; `count` says how many.
    Lost,
    /// The file ended within a row, as after a crash or a power cut; `count` says how many bytes were cut off.
    Torn,
    /// A runner found no head signed by this device when it started, so the earlier rows are unproven.
    Unproven,
    /// Old rows were removed, up to and including the number in `through`.
    Expired,
    /// Replaces removed rows: the number and the hash of the last of them.
    Checkpoint,
}

/// The actor on whose behalf something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditActor {
    /// The remote side, through the backend.
    Caller,
    /// A call that another call started (Task).
    Task,
    /// The person at this device.
    Owner,
    /// The runner itself.
    Runner,
    /// The backend.
    Backend,
}

/// The decision about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditDecision {
    /// It needed no approval.
    Allowed,
    /// A person was asked and allowed it; `by` says who.
    Asked,
    /// It was not started; `code` gives the reason.
    Denied,
}

/// The content of one row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    /// The time in milliseconds since 1970, by this machine's clock.
    pub at_ms: i64,
    /// The event.
    pub event: AuditEvent,
    /// The actor.
    pub who: AuditActor,
    /// The request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Its conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<String>,
    /// The kind of agent that asked, as the caller says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<String>,
    /// The caller's name, as the backend gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// The tool asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// SHA-256 of the arguments' JSON text, in hex.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args_hash: Option<String>,
    /// The decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<AuditDecision>,
    /// The person or side that allowed the call or changed the switch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The error's stable code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The rule that decided, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The confinement in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confinement: Option<String>,
    /// The number of the execution, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// `ok`, `error` or `cancelled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// A command's exit code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// The traffic of its command with other hosts: numbers, no contents.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<HostTraffic>,
    /// The call was cut off and may have had its effect.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub may_have_run: bool,
    /// The size of the result's JSON text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The call's duration in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// In `expired` rows, the number of the last removed row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub through: Option<u64>,
    /// A count: rows lost, bytes cut off, requests dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The device's signature of a checkpoint, 64 bytes as base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// A short text of the program's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The most characters of one text.
const MAX_TEXT_CHARS: usize = 300;

impl AuditEntry {
    /// Creates an entry with nothing but the event, the actor and the time.
    pub fn new(event: AuditEvent, who: AuditActor, at_ms: i64) -> Self {
        Self {
            at_ms,
            event,
            who,
            request_id: None,
            conversation_id: None,
            agent_type: None,
            caller: None,
            tool_name: None,
            args_hash: None,
            decision: None,
            by: None,
            code: None,
            rule: None,
            confinement: None,
            attempt: None,
            outcome: None,
            exit_code: None,
            signal: None,
            network: Vec::new(),
            may_have_run: false,
            bytes: None,
            duration_ms: None,
            through: None,
            count: None,
            signature: None,
            detail: None,
        }
    }

    /// Sets the request.
    #[must_use]
    pub fn with_request(mut self, request: &impl ToString) -> Self {
        self.request_id = Some(request.to_string());
        self
    }

    /// Sets the detail.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Truncates the texts that are longer than a row may hold.
    pub(super) fn with_bounded_texts(mut self) -> Self {
        for text in [
            &mut self.request_id,
            &mut self.conversation_id,
            &mut self.agent_type,
            &mut self.caller,
            &mut self.tool_name,
            &mut self.by,
            &mut self.code,
            &mut self.rule,
            &mut self.confinement,
            &mut self.signal,
            &mut self.detail,
        ]
        .into_iter()
        .flatten()
        {
            if let Some((end, _)) = text.char_indices().nth(MAX_TEXT_CHARS) {
                text.truncate(end);
                text.push('…');
            }
        }
        self
    }
}

/// Returns the SHA-256 of a text, in hex.
pub fn sha256_text(text: &str) -> String {
    to_hex(&Sha256::digest(text))
}
