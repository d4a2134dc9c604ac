//! The context of a call: ids, cancellation, deadline.
//! Not here: a tool's dependencies (its `Deps`).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ToolError;
use super::intent::{Intent, Intents, Unrecorded};
use super::keeping::Keeping;
use super::progress::Progress;
use crate::ids::{ConversationId, RequestId};
use crate::output::Uncut;

/// The facts of a request, passed to every tool.
#[derive(Debug, Clone)]
pub struct ToolCx {
    /// The request being answered.
    pub request: RequestId,
    /// The conversation it belongs to.
    pub conversation: ConversationId,
    /// The kind of agent that asks, if the caller named it.
    pub agent_type: Option<String>,
    /// Cancelled when the caller cancels the request, at its deadline, and when the runner stops.
    pub cancel: CancellationToken,
    /// Cancelled when the runner itself is about to end. A call that is being stopped then has seconds instead of the
    /// usual grace.
    pub winding_up: CancellationToken,
    /// The time after which the answer is useless.
    pub deadline: Option<Instant>,
    /// Records the declared effects.
    pub intents: Arc<dyn Intents>,
    /// Stores before-images of files that the call changes.
    pub keeping: Option<Keeping>,
    /// Shows progress while the call runs.
    pub progress: Progress,
    /// The positions of secrets, so that a text for an answer is not cut inside one.
    pub uncut: Uncut,
}

impl ToolCx {
    /// Creates a context for a call outside any conversation, as `punie-runner call` makes.
    pub fn detached(request: RequestId) -> Self {
        let conversation = ConversationId::from(&request);
        Self {
            request,
            conversation,
            agent_type: None,
            cancel: CancellationToken::new(),
            winding_up: CancellationToken::new(),
            deadline: None,
            intents: Arc::new(Unrecorded),
            keeping: None,
            progress: Progress::default(),
            uncut: Uncut::default(),
        }
    }

    /// Declares effects before they are made. When it returns, the declaration and the before-images are stored, so
    /// that a later process finds them.
    ///
    /// # Errors
    /// They could not be recorded; then they must not be made.
    pub async fn declare(&self, intents: Vec<Intent>) -> Result<(), ToolError> {
        if let Some(keeping) = &self.keeping {
            keeping.keep(&self.request, &intents).await;
        }
        self.intents.declare(&self.request, intents).await
    }

    /// Completes when the call should stop.
    pub async fn cancelled(&self) {
        self.cancel.cancelled().await;
    }

    /// Returns whether the call should stop; for loops that do not wait.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Returns the time until the deadline, at most `limit`.
    pub fn time_left(&self, limit: Duration) -> Duration {
        self.deadline.map_or(limit, |at| limit.min(at.saturating_duration_since(Instant::now())))
    }
}
