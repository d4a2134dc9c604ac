//! Requests to a connected editor: their time limit, and the meaning of an error answer.

use crate::agent::TOO_LONG_ERROR;
use crate::client_tools::ProtocolFuture;
use crate::protocol::{Error, is_connection_terminated, is_incoming_transport_closed};
use punie_host::terminals::format_seconds;
use punie_tool::time_limit::run_within_limit;

use super::client::NO_ANSWER_ERROR;
use super::session::EditorSession;

/// ACP's code for a file, session or terminal that does not exist.
const NOT_FOUND: i32 = -32_002;
const METHOD_NOT_FOUND: i32 = -32_601;
const INVALID_PARAMS: i32 = -32_602;
/// JSON-RPC's code for an answer that cannot be parsed.
const PARSE_ERROR: i32 = -32_700;
/// The most characters of an editor's error message that are passed on.
const MAX_ERROR_CHARS: usize = 300;

/// The reason why a request got no usable answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EditorRequestError {
    /// The editor has no such file or terminal, or does not serve the method at all.
    NotFound,
    /// The connection ended before the answer. The editor may have carried out the request.
    Disconnected(String),
    /// No answer came in time. The editor may still carry out the request.
    TimedOut(String),
    /// The answer cannot be read. The editor may have carried out the request.
    Malformed(String),
    /// The editor rejected the parameters, with this message, and has done nothing.
    Rejected(String),
    /// The editor failed, with this message.
    Failed(String),
}

impl EditorRequestError {
    fn from_protocol(session: &EditorSession, error: &Error) -> Self {
        let editor = &session.editor;
        if is_incoming_transport_closed(error) || is_connection_terminated(error) {
            return Self::Disconnected(format!("{editor} was closed before it answered"));
        }
        match error.code.value() {
            NOT_FOUND | METHOD_NOT_FOUND => Self::NotFound,
            NO_ANSWER_ERROR => Self::answer_timeout(session),
            PARSE_ERROR | TOO_LONG_ERROR => Self::Malformed(format!(
                "{editor} gave an answer that cannot be read: {}",
                editor_error_line(error)
            )),
            INVALID_PARAMS => {
                Self::Rejected(format!("{editor} says: {}", editor_error_line(error)))
            }
            _ => Self::Failed(format!("{editor} says: {}", editor_error_line(error))),
        }
    }

    pub fn answer_timeout(session: &EditorSession) -> Self {
        let limit = format_seconds(session.settings.timeout);
        Self::TimedOut(format!("{} did not answer within {limit}", session.editor))
    }

    /// Describes the cause, as a sentence without its full stop.
    pub fn describe_cause(&self, session: &EditorSession) -> String {
        match self {
            Self::NotFound => format!("{} has no such thing", session.editor),
            Self::Disconnected(words)
            | Self::TimedOut(words)
            | Self::Malformed(words)
            | Self::Rejected(words)
            | Self::Failed(words) => words.clone(),
        }
    }

    /// Returns whether the request may have been carried out, or may still be.
    pub fn has_unknown_outcome(&self) -> bool {
        matches!(
            self,
            Self::Disconnected(_) | Self::TimedOut(_) | Self::Malformed(_)
        )
    }

    /// Returns whether the request was rejected before it had any effect. Errors of other kinds may come after the work
    /// has begun.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::NotFound | Self::Rejected(_))
    }
}

/// Joins an error's message and detail on one line.
fn editor_error_line(error: &Error) -> String {
    let detail = error.data.as_ref().map(|data| {
        data.as_str()
            .map_or_else(|| data.to_string(), str::to_owned)
    });
    let whole = match detail {
        Some(detail) => format!("{}: {detail}", error.message),
        None => error.message.clone(),
    };
    let line: String = whole
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MAX_ERROR_CHARS)
        .collect();
    line.trim().to_owned()
}

/// Waits for an answer, within the owner's time limit.
pub(super) async fn await_with_timeout<T>(
    session: &EditorSession,
    asked: ProtocolFuture<'_, T>,
) -> Result<T, EditorRequestError> {
    match run_within_limit(session.settings.timeout, asked).await {
        Some(answered) => {
            answered.map_err(|error| EditorRequestError::from_protocol(session, &error))
        }
        None => Err(EditorRequestError::answer_timeout(session)),
    }
}

/// Waits for an answer that may take as long as a command does.
pub(super) async fn await_without_timeout<T>(
    session: &EditorSession,
    asked: ProtocolFuture<'_, T>,
) -> Result<T, EditorRequestError> {
    asked
        .await
        .map_err(|error| EditorRequestError::from_protocol(session, &error))
}
