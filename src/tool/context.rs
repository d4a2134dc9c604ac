//! What a call knows about itself: ids, cancel, deadline. Not here: what a tool needs to work (its `Deps`).

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

/// The request's own facts, handed to every tool.
#[derive(Debug, Clone)]
pub struct ToolCx {
    /// The request being answered.
    pub request: RequestId,
    /// The conversation it belongs to.
    pub conversation: ConversationId,
    /// What kind of agent asks, where the caller said so.
    pub agent_type: Option<String>,
    /// Cancelled when the caller takes the request back, at its deadline, and when the runner stops.
    pub cancel: CancellationToken,
    /// Cancelled when the runner itself is about to end: what is being stopped then has seconds, not its usual grace.
    pub winding_up: CancellationToken,
    /// When the answer stops being of use.
    pub deadline: Option<Instant>,
    /// Writes down what it declares.
    pub intents: Arc<dyn Intents>,
    /// Keeps what it is about to change.
    pub keeping: Option<Keeping>,
    /// Shows what there is while it runs.
    pub progress: Progress,
    /// What is masked on its way out: who cuts a text for an answer does not cut through it.
    pub uncut: Uncut,
}

impl ToolCx {
    /// A context for a call outside any conversation, as `punie-runner call` makes.
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

    /// Writes down what is about to be done; when this returns, a later life will know of it, and what is there now
    /// is kept.
    ///
    /// # Errors
    /// It could not be written down: then it must not be done.
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

    /// Whether the call should stop; for loops that do not wait.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// What is left until the deadline, at most `limit`.
    pub fn time_left(&self, limit: Duration) -> Duration {
        self.deadline.map_or(limit, |at| limit.min(at.saturating_duration_since(Instant::now())))
    }
}
