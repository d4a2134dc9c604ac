//! Observers of running calls: a person at a connected editor, who may also be asked for approval. The engine does not
//! depend on their success.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::Value;

use super::{CallDescription, ToolEffect, ToolSpec};
use punie_core::ids::{ConversationId, RequestId};

/// Observes calls.
pub trait CallObserver: Send + Sync + 'static {
    /// Returns whether a person may follow this conversation's calls; otherwise they need not be described.
    fn may_follow(&self, conversation: &ConversationId) -> bool;

    /// Announces a call that is about to be prepared; returns `None` if it is not followed. The result is informed
    /// about the call until it is dropped. If it is dropped before the end, the call was abandoned or failed
    /// internally.
    fn observe_call(&self, call: CallView<'_>) -> Option<Arc<dyn ObservedCall>>;
}

/// A call as an observer sees it, with secrets masked.
#[derive(Debug, Clone, Copy)]
pub struct CallView<'a> {
    /// The request.
    pub request: &'a RequestId,
    /// The conversation it belongs to.
    pub conversation: &'a ConversationId,
    /// The tool.
    pub tool: &'a ToolSpec,
    /// The strongest effect of this call.
    pub effect: ToolEffect,
    /// True if it is the request that a Task tool made.
    pub of_task: bool,
    /// The arguments; null if they are not JSON.
    pub args: &'a Value,
    /// The tool's description of the call.
    pub description: &'a CallDescription,
}

/// A person's decision about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObserverDecision {
    /// True for a clear approval; everything else is a denial.
    pub allowed: bool,
    /// The decider, or the reason why there is no decision, as part of a sentence: `the person at Zed`.
    pub by: String,
    /// The duration of the decision or the next step, as the end of a sentence.
    pub then: String,
}

/// Returns the advice for a model whose conversation a person has stopped.
pub fn advice_when_stopped(conversation: &ConversationId) -> String {
    format!(
        "Do not ask again, in this or another way: nothing of this conversation writes or runs anything until the \
         person lets it go on, by attaching it in the editor again or by `punie-runner resume {conversation}` on the \
         device. Reading works."
    )
}

/// The decision, when it is made.
pub type DecisionFuture<'a> = Pin<Box<dyn Future<Output = ObserverDecision> + Send + 'a>>;

/// The answer of a person who follows a call to a question of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FollowerChoice {
    /// The option at this position.
    Chosen(usize),
    /// No answer: it was refused or put away.
    Refused,
}

/// The answer, when it is given.
pub type ChoiceFuture<'a> = Pin<Box<dyn Future<Output = FollowerChoice> + Send + 'a>>;

/// The end of a call, as its result states it.
#[derive(Debug, Clone, Copy)]
pub struct CallEnding<'a> {
    /// True if the tool answered; false if the call failed, was refused or was cancelled.
    pub ok: bool,
    /// The JSON text of the posted result: clipped and masked.
    pub payload: &'a str,
}

/// A call that is followed.
pub trait ObservedCall: Send + Sync + 'static {
    /// Returns whether the person wants to be asked before it runs.
    fn wants_approval(&self) -> bool;

    /// Returns an earlier decision that still applies; then nothing is asked.
    fn remembered_decision(&self) -> Option<ObserverDecision>;

    /// Asks for approval. Dropping the future withdraws the question.
    fn ask_follower(&self) -> DecisionFuture<'_>;

    /// Asks for one of these options while the call runs. Dropping the future withdraws the question; it never
    /// completes where no person can be asked.
    fn ask_choice<'a>(&'a self, question: &'a str, options: &'a [String]) -> ChoiceFuture<'a> {
        let _ = (question, options);
        Box::pin(std::future::pending())
    }

    /// Reports that it runs.
    fn on_started(&self);

    /// Reports output, already masked, after `omitted_bytes` that were dropped.
    fn on_output(&self, text: &str, omitted_bytes: u64);

    /// Returns whether it ran in the editor, outside of the runner's sandbox.
    fn ran_in_editor(&self) -> bool;

    /// Reports its end.
    fn on_ended(&self, ending: CallEnding<'_>);

    /// Completes when the person wants it to stop.
    fn wait_for_stop(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// The person who follows a running call, if one does.
#[derive(Clone, Default)]
pub struct CallFollower(Option<Arc<dyn ObservedCall>>);

impl CallFollower {
    /// Returns the follower of an observed call.
    pub fn of_observed(observed: Option<Arc<dyn ObservedCall>>) -> Self {
        Self(observed)
    }

    /// Returns the observed call.
    pub fn observed(&self) -> Option<&dyn ObservedCall> {
        self.0.as_deref()
    }
}

impl fmt::Debug for CallFollower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_followed = self.0.is_some();
        f.debug_tuple("CallFollower").field(&is_followed).finish()
    }
}

/// An observer that follows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl CallObserver for NoObserver {
    fn may_follow(&self, _conversation: &ConversationId) -> bool {
        false
    }

    fn observe_call(&self, _call: CallView<'_>) -> Option<Arc<dyn ObservedCall>> {
        None
    }
}
