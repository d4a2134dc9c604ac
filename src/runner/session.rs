//! Keeping the session open: one attempt at a time, whoever notices that it is closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;

use super::backend_client::BackendClient;
use super::clock::ServerClock;
use super::presence::health::HealthState;
use crate::backend::{Backend as _, BackendError, Disposition};
use crate::journal::Journal;

/// How long a start waits to learn which deployment it meets.
const FIRST_ANSWER: Duration = Duration::from_secs(5);

pub(super) struct SessionKeeper {
    backend: Arc<BackendClient>,
    health: Arc<HealthState>,
    clock: ServerClock,
    journal: Journal,
    /// The deployment turned out to be one whose requests this process has not settled.
    met_another: AtomicBool,
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

impl SessionKeeper {
    pub(super) fn new(
        backend: Arc<BackendClient>,
        health: Arc<HealthState>,
        clock: ServerClock,
        journal: Journal,
    ) -> Self {
        Self {
            backend,
            health,
            clock,
            journal,
            met_another: AtomicBool::new(false),
            opened: AtomicU64::new(0),
            tried: AtomicU64::new(0),
            opening: Mutex::new(None),
        }
    }

    /// The backend, as every call of the runner uses it.
    pub(super) fn backend(&self) -> &BackendClient {
        &self.backend
    }

    /// Whether the deployment turned out to be another than the one whose requests this process works for.
    pub(super) fn has_met_another(&self) -> bool {
        self.met_another.load(Ordering::Acquire)
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
    pub(super) async fn reopen(&self, generation: Generation) -> Result<(), BackendError> {
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
        if let Some(error) = self.backend.barred() {
            return Err(error);
        }
        let asked = self.clock.asking();
        let opened = self.backend.open_session().await;
        self.tried.fetch_add(1, Ordering::AcqRel);
        match opened {
            Ok(session) => {
                let offset = self.clock.set(session.server_now_ms, asked);
                tracing::info!(clock_offset_ms = offset, "the session with the backend is open");
                self.name_backend(session.backend_id).await;
                // That there is none any more, beats tell.
                if session.other_process {
                    self.health.other_process_is_there(true);
                }
                self.opened.fetch_add(1, Ordering::AcqRel);
                *failed = None;
                Ok(())
            }
            Err(error) => {
                if let BackendError::OtherBackend { .. } = &error {
                    tracing::warn!(%error, "nothing more is asked of it under the name of the other");
                    self.backend.bar(&error);
                    self.met_another.store(true, Ordering::Release);
                } else if matches!(error.disposition(), Disposition::Reopen | Disposition::Never) {
                    tracing::warn!(%error, "the backend refuses this device; nothing is asked of it for a while");
                    self.backend.bar(&error);
                }
                *failed = Some(error.clone());
                Err(error)
            }
        }
    }
}

impl SessionKeeper {
    /// Writes down which deployment answered.
    async fn name_backend(&self, id: Option<String>) {
        match self.journal.name_backend(id).await {
            Ok(false) => {}
            Ok(true) => self.met_another.store(true, Ordering::Release),
            // It is written down when the next session is opened.
            Err(error) => tracing::warn!(%error, "the backend's id could not be noted"),
        }
    }
}

impl SessionKeeper {
    /// Learns which deployment answers at an address where none was met before, so that what an earlier process left
    /// for it is found. Where it does not answer now, that is learned with the first session.
    ///
    /// # Errors
    /// [`super::RunnerError`] when the journal cannot be read, or another deployment answers than was known.
    pub(super) async fn meet_backend(&self) -> Result<(), super::RunnerError> {
        if self.journal.backend_is_unnamed()? {
            let generation = self.generation();
            let meeting = self.reopen(generation);
            if tokio::time::timeout(FIRST_ANSWER, meeting).await.is_err() {
                tracing::info!("the backend did not say in time which one it is");
            }
            // Nothing was settled before.
            self.met_another.store(false, Ordering::Release);
        }
        Ok(())
    }

    /// Makes a call; where the backend says that the session is closed, opens one and makes it once more.
    ///
    /// # Errors
    /// The call's, or the backend's refusal to open a session.
    pub(super) async fn with_session<'a, T>(
        &self,
        call: impl Fn() -> crate::backend::Reply<'a, T>,
    ) -> Result<T, BackendError> {
        let generation = self.generation();
        match call().await {
            Err(error) if error.disposition() == Disposition::Reopen => {
                self.reopen(generation).await?;
                let answered = call().await;
                if let Err(error) = &answered
                    && error.disposition() == Disposition::Reopen
                {
                    // A session that helps nothing is not opened again and again.
                    self.backend.bar(error);
                }
                answered
            }
            answered => answered,
        }
    }
}
