//! Requests to a connected editor: their time limit, and the meaning of an error answer. Not here: the requests
//! themselves.

use crate::acp::agent::TOO_LONG;
use crate::acp::client_tools::Served;
use crate::acp::protocol::{Error, is_connection_terminated, is_incoming_transport_closed};
use crate::acp::terminals::seconds;

use super::client::NO_ANSWER;
use super::session::EditorSession;

/// ACP's code for a file, session or terminal that does not exist.
const NOT_FOUND: i32 = -32_002;
const METHOD_NOT_FOUND: i32 = -32_601;
const INVALID_PARAMS: i32 = -32_602;
/// JSON-RPC's code for an answer that cannot be parsed.
const PARSE_ERROR: i32 = -32_700;
/// The most characters of an editor's error message that are passed on.
const WORDS: usize = 300;

/// The reason why a request got no usable answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The editor has no such file or terminal, or does not serve the method at all.
    NotThere,
    /// The connection ended before the answer. The editor may have carried out the request.
    Gone(String),
    /// No answer came in time. The editor may still carry out the request.
    Silent(String),
    /// The answer cannot be read. The editor may have carried out the request.
    Garbled(String),
    /// The editor rejected the parameters, with this message, and has done nothing.
    Refused(String),
    /// The editor failed, with this message.
    Said(String),
}

impl Trouble {
    fn of(session: &EditorSession, error: &Error) -> Self {
        let editor = &session.editor;
        if is_incoming_transport_closed(error) || is_connection_terminated(error) {
            return Self::Gone(format!("{editor} was closed before it answered"));
        }
        match error.code.value() {
            NOT_FOUND | METHOD_NOT_FOUND => Self::NotThere,
            NO_ANSWER => Self::silent(session),
            PARSE_ERROR | TOO_LONG => {
                Self::Garbled(format!("{editor} gave an answer that cannot be read: {}", words(error)))
            }
            INVALID_PARAMS => Self::Refused(format!("{editor} says: {}", words(error))),
            _ => Self::Said(format!("{editor} says: {}", words(error))),
        }
    }

    pub fn silent(session: &EditorSession) -> Self {
        let limit = seconds(session.settings.timeout);
        Self::Silent(format!("{} did not answer within {limit}", session.editor))
    }

    /// Describes the cause, as a sentence without its full stop.
    pub fn said(&self, session: &EditorSession) -> String {
        match self {
            Self::NotThere => format!("{} has no such thing", session.editor),
            Self::Gone(words)
            | Self::Silent(words)
            | Self::Garbled(words)
            | Self::Refused(words)
            | Self::Said(words) => words.clone(),
        }
    }

    /// Returns whether the request may have been carried out, or may still be.
    pub fn is_unclear(&self) -> bool {
        matches!(self, Self::Gone(_) | Self::Silent(_) | Self::Garbled(_))
    }

    /// Returns whether the request was rejected before it had any effect. Errors of other kinds may come after the work
    /// has begun.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::NotThere | Self::Refused(_))
    }
}

/// Joins an error's message and detail on one line.
fn words(error: &Error) -> String {
    let detail =
        error.data.as_ref().map(|data| data.as_str().map_or_else(|| data.to_string(), str::to_owned));
    let whole = match detail {
        Some(detail) => format!("{}: {detail}", error.message),
        None => error.message.clone(),
    };
    let line: String = whole.chars().map(|c| if c.is_control() { ' ' } else { c }).take(WORDS).collect();
    line.trim().to_owned()
}

/// Waits for an answer, within the owner's time limit.
pub(super) async fn within<T>(session: &EditorSession, asked: Served<'_, T>) -> Result<T, Trouble> {
    match tokio::time::timeout(session.settings.timeout, asked).await {
        Ok(answered) => answered.map_err(|error| Trouble::of(session, &error)),
        Err(_) => Err(Trouble::silent(session)),
    }
}

/// Waits for an answer that may take as long as a command does.
pub(super) async fn at_last<T>(session: &EditorSession, asked: Served<'_, T>) -> Result<T, Trouble> {
    asked.await.map_err(|error| Trouble::of(session, &error))
}
