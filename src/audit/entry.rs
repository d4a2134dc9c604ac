//! What a row says. Everything is optional but the time, what happened and on whose behalf. Texts from elsewhere are
//! cut short; none of them is an argument or a result.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::ids::hex;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A call began: it was allowed, and its effect may follow.
    Begun,
    /// A call was answered: it ended, or was refused before it began.
    Answered,
    /// A request was refused at the door: unreadable, not signed as it must be, for another device.
    Refused,
    /// A second request came under a known id with another tool or other arguments; it was not run.
    Conflict,
    /// A caller took a request back that was waiting or running.
    Cancelled,
    /// A caller took a request back that was over or never seen.
    IdleCancel,
    /// The backend will not take a reply: it has another one, say; why is the code or the detail.
    Undeliverable,
    /// The backend refused a heartbeat of this device as stale or as a repeat.
    HeartbeatRefused,
    /// Nothing new begins: a pause, or safe mode.
    Held,
    /// Calls may begin again.
    Released,
    /// The owner's `pause`.
    Pause,
    /// The owner's `resume`.
    Resume,
    /// The owner took back what a request had changed.
    Undo,
    /// The owner emptied the trash.
    TrashEmptied,
    /// The owner copied something out of the trash.
    TrashRestored,
    /// The owner answered a question about a call.
    Approval,
    /// A runner started.
    Started,
    /// A runner stopped.
    Stopped,
    /// Rows could not be written; how many.
    Lost,
    /// The file ended within a row, as a crash or a power cut leaves it; how many bytes were cut off.
    Torn,
    /// A runner found no head of this device when it started: nothing vouches for the rows before.
    Unproven,
    /// Old rows went, up to and with this number.
    Expired,
    /// In the place of the rows that went: the number and the hash of the last of them.
    Checkpoint,
}

/// On whose behalf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Who {
    /// The remote side, through the backend.
    Caller,
    /// A call that another call started (Task).
    Task,
    /// Whoever sits at this device.
    Owner,
    /// The runner itself.
    Runner,
    /// The backend.
    Backend,
}

/// What was decided about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It needed nobody's word.
    Allowed,
    /// Somebody was asked and said yes; `by` says who.
    Asked,
    /// It was not begun; `code` says why.
    Denied,
}

/// What one row says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// When, in milliseconds since 1970, by this machine's clock.
    pub at_ms: i64,
    /// What happened.
    pub event: Event,
    /// On whose behalf.
    pub who: Who,
    /// The request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Its conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<String>,
    /// What kind of agent asked, as the caller says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<String>,
    /// The tool asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// SHA-256 of the arguments' JSON text, in hex.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args_hash: Option<String>,
    /// What was decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// Who said yes, or moved the switch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The error's stable code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The rule that decided, where one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The confinement in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confinement: Option<String>,
    /// Which execution, from 1.
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
    /// The call was cut off and may have had its effect.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub may_have_run: bool,
    /// How many bytes the result's JSON text has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// How long the call took, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The number of the last row that went, of `expired` rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub through: Option<u64>,
    /// How many: rows lost, bytes cut off, requests let go of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The device's word for a checkpoint, 64 bytes as base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// A few words of the program's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The most characters of one text.
const LONGEST: usize = 300;

impl Entry {
    /// This happened then, on whose behalf; nothing else is known yet.
    pub fn new(event: Event, who: Who, at_ms: i64) -> Self {
        Self {
            at_ms,
            event,
            who,
            request_id: None,
            conversation_id: None,
            agent_type: None,
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
            may_have_run: false,
            bytes: None,
            duration_ms: None,
            through: None,
            count: None,
            signature: None,
            detail: None,
        }
    }

    /// The same, about this request.
    #[must_use]
    pub fn about(mut self, request: &impl ToString) -> Self {
        self.request_id = Some(request.to_string());
        self
    }

    /// The same with these words.
    #[must_use]
    pub fn saying(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// The same, no text of it longer than a row may hold.
    pub(super) fn bounded(mut self) -> Self {
        for text in [
            &mut self.request_id,
            &mut self.conversation_id,
            &mut self.agent_type,
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
            if let Some((end, _)) = text.char_indices().nth(LONGEST) {
                text.truncate(end);
                text.push('…');
            }
        }
        self
    }
}

/// SHA-256 of a text, in hex.
pub fn hash_of(text: &str) -> String {
    hex(&Sha256::digest(text))
}
