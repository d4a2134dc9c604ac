//! Asking a connected editor: no longer than its owner allows, and what an answer that is an error means. Not here:
//! what is asked.

use crate::acp::agent::TOO_LONG;
use crate::acp::client_tools::Served;
use crate::acp::protocol::{Error, is_connection_terminated, is_incoming_transport_closed};
use crate::acp::terminals::seconds;

use super::client::NO_ANSWER;
use super::session::EditorSession;

/// ACP's code for a file, a session or a terminal that is not there.
const NOT_FOUND: i32 = -32_002;
const METHOD_NOT_FOUND: i32 = -32_601;
const INVALID_PARAMS: i32 = -32_602;
/// What stands for an answer that is no such answer.
const PARSE_ERROR: i32 = -32_700;
/// So much of an editor's own words is passed on.
const WORDS: usize = 300;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trouble {
    /// It has no such file or terminal, or does not serve the question at all.
    NotThere,
    /// The connection ended before the answer; the editor may have done what it was asked.
    Gone(String),
    /// None came in time; it may yet do what it was asked.
    Silent(String),
    /// It answered, and not what can be understood; it may have done what it was asked.
    Garbled(String),
    /// It did not take the question as it was put, in its own words, and so has done nothing.
    Refused(String),
    /// It failed, in its own words.
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

    /// The cause, as a sentence without its end.
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

    /// Whether what was asked for may have happened, or may yet.
    pub fn is_unclear(&self) -> bool {
        matches!(self, Self::Gone(_) | Self::Silent(_) | Self::Garbled(_))
    }

    /// Whether the question was turned away before anything could come of it. An error of any other kind may come
    /// after what was asked for has begun.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::NotThere | Self::Refused(_))
    }
}

/// An error's message and detail on one line.
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

/// Waits for an answer, as long as the owner allows.
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
