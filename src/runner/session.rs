//! Keeping the session open: one attempt at a time, whoever notices that it is closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;

use super::clock::ServerClock;
use super::condition::Condition;
use super::line::Line;
use crate::backend::{Backend as _, BackendError, Disposition};

pub(super) struct Sessions {
    line: Arc<Line>,
    clock: ServerClock,
    opened: AtomicU64,
    tried: AtomicU64,
    /// How the last attempt failed, if it did. Whoever attempts holds it.
    opening: Mutex<Option<BackendError>>,
}

/// How far the sessions had come when somebody began a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Generation {
    opened: u64,
    tried: u64,
}

impl Sessions {
    pub(super) fn new(line: Arc<Line>, clock: ServerClock) -> Self {
        Self { line, clock, opened: AtomicU64::new(0), tried: AtomicU64::new(0), opening: Mutex::new(None) }
    }

    /// How far it has come; whoever is refused remembers it from before its call.
    pub(super) fn generation(&self) -> Generation {
        Generation { opened: self.opened.load(Ordering::Acquire), tried: self.tried.load(Ordering::Acquire) }
    }

    /// Opens a session, unless somebody did since `generation`, or tried to: what came of that is the answer to all
    /// who were refused meanwhile.
    ///
    /// # Errors
    /// The backend's refusal, or that it cannot be reached.
    pub(super) async fn reopen(
        &self,
        generation: Generation,
        condition: &Condition,
    ) -> Result<(), BackendError> {
        let mut failed = self.opening.lock().await;
        let now = self.generation();
        if now.opened != generation.opened {
            return Ok(());
        }
        if now.tried != generation.tried
            && let Some(error) = &*failed
        {
            return Err(error.clone());
        }
        if let Some(error) = self.line.barred() {
            return Err(error);
        }
        let asked = self.clock.asking();
        let opened = self.line.open_session().await;
        self.tried.fetch_add(1, Ordering::AcqRel);
        match opened {
            Ok(session) => {
                let offset = self.clock.set(session.server_now_ms, asked);
                tracing::info!(clock_offset_ms = offset, "the session with the backend is open");
                // That there is none any more, beats tell.
                if session.other_process {
                    condition.other_process_is_there(true);
                }
                self.opened.fetch_add(1, Ordering::AcqRel);
                *failed = None;
                Ok(())
            }
            Err(error) => {
                if matches!(error.disposition(), Disposition::Reopen | Disposition::Never) {
                    tracing::warn!(%error, "the backend refuses this device; nothing is asked of it for a while");
                    self.line.bar(&error);
                }
                *failed = Some(error.clone());
                Err(error)
            }
        }
    }
}

impl super::engine::Engine {
    /// Makes a call; where the backend says that the session is closed, opens one and makes it once more.
    ///
    /// # Errors
    /// The call's, or the backend's refusal to open a session.
    pub(super) async fn with_session<'a, T>(
        &self,
        call: impl Fn() -> crate::backend::Reply<'a, T>,
    ) -> Result<T, BackendError> {
        let generation = self.sessions.generation();
        match call().await {
            Err(error) if error.disposition() == Disposition::Reopen => {
                self.sessions.reopen(generation, &self.condition).await?;
                let answered = call().await;
                if let Err(error) = &answered
                    && error.disposition() == Disposition::Reopen
                {
                    // A session that helps nothing is not opened again and again.
                    self.line.bar(error);
                }
                answered
            }
            answered => answered,
        }
    }
}
