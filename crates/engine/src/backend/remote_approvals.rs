//! Approvals through the backend: the device asks, and the caller or the person at the device answers.

use super::BackendReply;
use punie_core::approval_answer::{AnsweredBy, ApprovalOption};
use punie_core::ids::RequestId;

/// A backend that passes approval questions on to the caller.
pub trait RemoteApprovals: Send + Sync {
    /// Asks a question. Asking the same question again changes nothing.
    fn ask_caller<'a>(&'a self, question: &'a RemoteQuestion) -> BackendReply<'a, StoredQuestion>;
    /// Returns the answer to this question, if there is one. The backend may hold the call for `wait` until there is.
    fn fetch_answer<'a>(
        &'a self,
        id: &'a RequestId,
        wait: std::time::Duration,
    ) -> BackendReply<'a, Option<RemoteAnswer>>;
    /// Answers for the person at the device. Returns the answer that counts, which may be another one, or `None` if the
    /// question is closed.
    fn submit_answer<'a>(
        &'a self,
        id: &'a RequestId,
        option: ApprovalOption,
        text: Option<&'a str>,
    ) -> BackendReply<'a, Option<RemoteAnswer>>;
}

/// The answers that a question offers to the caller's side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteAnswerKind {
    /// Yes or no to a call, once or for the conversation.
    Approval,
    /// One of these options, a text, or a refusal.
    Text(Vec<String>),
    /// Done, or a refusal.
    Confirmation,
    /// A refusal: only the person at the device can do more.
    RefusalOnly,
}

/// A question for the caller or the person at the device.
#[derive(Debug, Clone)]
pub struct RemoteQuestion {
    /// The id of the question.
    pub id: RequestId,
    /// The request whose call waits for the answer.
    pub request: RequestId,
    /// A description of the call for people; at most 4 KiB.
    pub title: String,
    /// True if the title shows only a part of the call, so that only the person at the device can allow it.
    pub is_cut: bool,
    /// The host and port that a command wants to reach, if the question is about that.
    pub host: Option<String>,
    /// The answers that it offers.
    pub answers: RemoteAnswerKind,
    /// The time at which an unanswered call is refused: milliseconds of the backend's clock.
    pub expires_at_ms: f64,
}

/// The backend's reply to a question.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredQuestion {
    /// The answer, if there is one already.
    pub answer: Option<RemoteAnswer>,
    /// The question was asked before, such as by a runner that was killed.
    pub is_asked_again: bool,
    /// Whether a caller reads the open questions; `None` if the backend cannot tell.
    pub caller_listens: Option<bool>,
}

/// The answer that counts: the first one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteAnswer {
    /// The chosen option. To an option of the question's own it is a refusal, so that only a clear yes allows a call.
    pub option: ApprovalOption,
    /// The number of the chosen option of the question's own, from 1, or the text.
    pub text: Option<String>,
    /// The side that gave it.
    pub by: AnsweredBy,
}
