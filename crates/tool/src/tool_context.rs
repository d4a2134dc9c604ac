//! The context of a call: ids, cancellation, deadline.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ToolError;
use super::before_images::{CallBeforeImages, CallSnapshot};
use super::call_progress::CallProgress;
use super::intent::{CallIntent, IntentRecorder, UnrecordedIntents};
use super::observer::CallFollower;
use crate::request::RequestSession;
use punie_core::ids::{ConversationId, RequestId};
use punie_text::output::SecretBoundaries;

/// The facts of a request, passed to every tool.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// The request being answered.
    pub request: RequestId,
    /// The conversation it belongs to.
    pub conversation: ConversationId,
    /// The kind of agent that asks, if the caller named it.
    pub agent_type: Option<String>,
    /// The caller's name, if the backend gives one. A task has that of the call that started it.
    pub caller: Option<String>,
    /// The session that narrows the call to its folders. A task has that of the call that started it.
    pub session: Option<Arc<RequestSession>>,
    /// Cancelled when the caller cancels the request, at its deadline, and when the runner stops.
    pub cancel: CancellationToken,
    /// Cancelled when the runner itself is about to end. A call that is being stopped then has seconds instead of the
    /// usual grace.
    pub shutdown: CancellationToken,
    /// Cancelled, before `cancel`, when the owner stops the call, which must then end within a second.
    pub owner_stop: CancellationToken,
    /// The time after which the answer is useless.
    pub deadline: Option<Instant>,
    /// Records the declared effects.
    pub intents: Arc<dyn IntentRecorder>,
    /// Stores before-images of files that the call changes.
    pub before_images: Option<CallBeforeImages>,
    /// Shows progress while the call runs.
    pub progress: CallProgress,
    /// The positions of secrets, so that a text for an answer is not cut inside one.
    pub secret_boundaries: SecretBoundaries,
    /// The person who follows the call in an editor.
    pub follower: CallFollower,
}

impl ToolContext {
    /// Creates a context for a call outside any conversation, as `punie-runner call` makes.
    pub fn for_detached_call(request: RequestId) -> Self {
        let conversation = ConversationId::OwnOf(request.clone());
        Self {
            request,
            conversation,
            agent_type: None,
            caller: None,
            session: None,
            cancel: CancellationToken::new(),
            shutdown: CancellationToken::new(),
            owner_stop: CancellationToken::new(),
            deadline: None,
            intents: Arc::new(UnrecordedIntents),
            before_images: None,
            progress: CallProgress::default(),
            secret_boundaries: SecretBoundaries::default(),
            follower: CallFollower::default(),
        }
    }

    /// Returns the folders of the call's session, which it is narrowed to.
    pub fn session_folders(&self) -> Option<Vec<PathBuf>> {
        self.session.as_ref().map(|session| session.folders.clone())
    }

    /// Returns whether the call may know of what another call did in this folder: a session only of its own folders.
    pub fn shows_folder(&self, folder: &Path) -> bool {
        let session = self.session.as_ref();
        session.is_none_or(|session| session.folders.iter().any(|own| folder.starts_with(own)))
    }

    /// Declares effects before they are made. When it returns, the declaration and the before-images are stored, so
    /// that a later process finds them.
    ///
    /// # Errors
    /// They could not be recorded; then they must not be made.
    pub async fn declare_intents(&self, intents: Vec<CallIntent>) -> Result<(), ToolError> {
        if let Some(keeping) = &self.before_images {
            keeping.save_for_call(&self.request, &intents).await;
        }
        self.intents.record_intents(&self.request, intents).await
    }

    /// Hands over the snapshot from before the call, for a command that runs on after it.
    pub fn hand_over_snapshot(&self) -> Option<CallSnapshot> {
        self.before_images.as_ref()?.hand_over_snapshot()
    }

    /// Completes when the call should stop.
    pub async fn wait_for_cancel(&self) {
        self.cancel.cancelled().await;
    }

    /// Returns whether the call should stop; for loops that do not wait.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Returns the time until the deadline, at most `limit`.
    pub fn time_until_deadline(&self, limit: Duration) -> Duration {
        self.deadline.map_or(limit, |at| {
            limit.min(at.saturating_duration_since(Instant::now()))
        })
    }
}
