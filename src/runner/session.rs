//! Keeping the session open: one attempt at a time, whoever notices that it is closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;

use super::clock::ServerClock;
use crate::backend::{Backend, BackendError, Disposition};

pub(super) struct Sessions {
    backend: Arc<dyn Backend>,
    clock: ServerClock,
    opened: AtomicU64,
    opening: Mutex<()>,
}

impl Sessions {
    pub(super) fn new(backend: Arc<dyn Backend>, clock: ServerClock) -> Self {
        Self { backend, clock, opened: AtomicU64::new(0), opening: Mutex::new(()) }
    }

    /// How often a session was opened; whoever is refused remembers it from before its call.
    pub(super) fn generation(&self) -> u64 {
        self.opened.load(Ordering::Acquire)
    }

    /// Opens a session, unless somebody did since `generation`.
    ///
    /// # Errors
    /// The backend's refusal, or that it cannot be reached.
    pub(super) async fn reopen(&self, generation: u64) -> Result<(), BackendError> {
        let _one_at_a_time = self.opening.lock().await;
        if self.generation() != generation {
            return Ok(());
        }
        let session = self.backend.open_session().await?;
        let offset = self.clock.set(session.server_now_ms);
        tracing::info!(clock_offset_ms = offset, "the session with the backend is open");
        self.opened.fetch_add(1, Ordering::AcqRel);
        Ok(())
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
                self.sessions.reopen(generation).await?;
                call().await
            }
            answered => answered,
        }
    }
}
