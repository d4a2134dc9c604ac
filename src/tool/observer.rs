//! Who follows calls as they happen and may be asked about them: a person before a connected editor. The engine tells,
//! and goes on whatever becomes of it. Not here: what is shown, and how it is asked.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::Value;

use super::{CallDescription, Effect, ToolSpec};
use crate::ids::{ConversationId, RequestId};

/// Follows calls.
pub trait Observer: Send + Sync + 'static {
    /// Returns whether anybody may follow this conversation's calls; else they need not be described.
    fn may_follow(&self, conversation: &ConversationId) -> bool;

    /// A call is about to be prepared; none where nobody follows it. What is returned is told how it goes on until it
    /// is dropped; a call that is dropped before it ended was left, or failed inside.
    fn observe(&self, call: CallView<'_>) -> Option<Arc<dyn ObservedCall>>;
}

/// A call as an observer sees it, secrets masked.
#[derive(Debug, Clone, Copy)]
pub struct CallView<'a> {
    /// The request.
    pub request: &'a RequestId,
    /// The conversation it belongs to.
    pub conversation: &'a ConversationId,
    /// The tool.
    pub tool: &'a ToolSpec,
    /// The most that this call may do.
    pub effect: Effect,
    /// It is what a Task tool made a request of its own of.
    pub of_task: bool,
    /// The arguments; null where they are no JSON.
    pub args: &'a Value,
    /// The tool's own view of the call.
    pub description: &'a CallDescription,
    /// The tool and its arguments in one line that hides nothing.
    pub title: &'a str,
}

/// What somebody said to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// A clear yes; anything else is a no.
    pub allowed: bool,
    /// Who said it, or why there was no word, as a part of a sentence: `the person at Zed`.
    pub by: String,
    /// How long it holds, or what to do about it, as the end of a sentence.
    pub then: String,
}

/// The advice to a model whose conversation a person has stopped.
pub fn advice_when_stopped(conversation: &ConversationId) -> String {
    format!(
        "Do not ask again, in this or another way: nothing of this conversation writes or runs anything until the \
         person lets it go on, by attaching it in the editor again or by `punie-runner resume {conversation}` on the \
         device. Reading works."
    )
}

/// The answer to a question, some time.
pub type Word<'a> = Pin<Box<dyn Future<Output = Verdict> + Send + 'a>>;

/// How a call ended, as its result says it.
#[derive(Debug, Clone, Copy)]
pub struct Ended<'a> {
    /// The tool answered; else it failed, was refused or was cancelled.
    pub ok: bool,
    /// The JSON text of the result as it is posted: clipped and masked.
    pub payload: &'a str,
}

/// One call that is followed.
pub trait ObservedCall: Send + Sync + 'static {
    /// Whether the person there wants to be asked about it before it runs.
    fn wants_a_say(&self) -> bool;

    /// What is to be said to it without a question: it was said before, and holds. Nobody is asked then.
    fn known(&self) -> Option<Verdict>;

    /// Asks. Dropping this takes the question back.
    fn ask(&self) -> Word<'_>;

    /// It runs from here on.
    fn started(&self);

    /// It has printed this, masked; `omitted_bytes` before it were left out.
    fn printed(&self, text: &str, omitted_bytes: u64);

    /// Whether it ran where the person is, and not on this machine's terms: no confinement of ours held it.
    fn ran_in_editor(&self) -> bool;

    /// It has ended.
    fn ended(&self, ending: Ended<'_>);

    /// Completes when the person there wants it to stop.
    fn stopped(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// Nobody follows anything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn may_follow(&self, _conversation: &ConversationId) -> bool {
        false
    }

    fn observe(&self, _call: CallView<'_>) -> Option<Arc<dyn ObservedCall>> {
        None
    }
}
