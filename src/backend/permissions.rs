//! Approvals on the wire: the device asks, the caller's side or the person at the device answers. Not here: what the
//! device asks about and what comes of the answer (runner).

use super::Reply;
use crate::approval_answer::{AnsweredBy, ApprovalOption};
use crate::ids::RequestId;

/// A backend through which the caller's side can be asked.
pub trait Permissions: Send + Sync {
    /// Asks; asking the same again changes nothing. Tells the answer, where there is one already.
    fn ask<'a>(&'a self, question: &'a Question) -> Reply<'a, Option<Answer>>;
    /// The answer to this question, once there is one; may be held for `wait` until there is.
    fn answer_to<'a>(&'a self, id: &'a RequestId, wait: std::time::Duration) -> Reply<'a, Option<Answer>>;
    /// Answers as the person at the device. Tells the answer that stands, which may be another one; none where the
    /// question is over.
    fn answer<'a>(&'a self, id: &'a RequestId, option: ApprovalOption) -> Reply<'a, Option<Answer>>;
}

/// A question to whoever may answer it.
#[derive(Debug, Clone)]
pub struct Question {
    /// Its own id.
    pub id: RequestId,
    /// The request whose call waits.
    pub request: RequestId,
    /// What would be run, for people; 4 KiB at most.
    pub title: String,
    /// When the call is refused for want of an answer, by the backend's clock, in milliseconds.
    pub expires_at_ms: f64,
}

/// The answer that stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The chosen option.
    pub option: ApprovalOption,
    /// The side that gave it.
    pub by: AnsweredBy,
}
