//! The backend session: it is reopened by one attempt at a time, however many calls notice that it is closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;

use super::backend_client::BackendClient;
use super::presence::health::HealthState;
use super::server_clock::ServerClock;
use crate::backend::{Backend as _, BackendError, RecoveryAction};
use crate::journal::Journal;
use punie_home::command_to_type;

/// The longest wait of a start for the deployment's id.
const IDENTIFY_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) struct SessionKeeper {
    backend: Arc<BackendClient>,
    health: Arc<HealthState>,
    clock: ServerClock,
    journal: Journal,
    /// The deployment is another one than that whose requests this process handled.
    found_other_backend: AtomicBool,
    opened: AtomicU64,
    tried: AtomicU64,
    /// The error of the last attempt, if it failed. An attempt holds the lock.
    opening: Mutex<Option<BackendError>>,
}

/// The counts of opened and attempted sessions when a call began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SessionGeneration {
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
            found_other_backend: AtomicBool::new(false),
            opened: AtomicU64::new(0),
            tried: AtomicU64::new(0),
            opening: Mutex::new(None),
        }
    }

    /// Returns the backend client that all calls of the runner share.
    pub(super) fn backend_client(&self) -> &BackendClient {
        &self.backend
    }

    /// Returns whether the deployment is another one than that whose requests this process works for.
    pub(super) fn has_other_backend(&self) -> bool {
        self.found_other_backend.load(Ordering::Acquire)
    }

    /// Returns the current counts; a call takes them before it begins, for the case that it is refused.
    pub(super) fn current_generation(&self) -> SessionGeneration {
        SessionGeneration {
            opened: self.opened.load(Ordering::Acquire),
            tried: self.tried.load(Ordering::Acquire),
        }
    }

    /// Opens a session, unless another call did or tried since `generation`: the result of that attempt holds for all
    /// calls refused meanwhile.
    ///
    /// # Errors
    /// The backend refuses, or cannot be reached.
    pub(super) async fn reopen(&self, generation: SessionGeneration) -> Result<(), BackendError> {
        let mut failed = self.opening.lock().await;
        let now = self.current_generation();
        if now.opened != generation.opened {
            return Ok(());
        }
        if now.tried != generation.tried
            && let Some(error) = &*failed
        {
            return Err(error.clone());
        }
        if let Some(error) = self.backend.active_refusal() {
            return Err(error);
        }
        let asked = self.clock.begin_reading();
        let opened = self.backend.open_session().await;
        self.tried.fetch_add(1, Ordering::AcqRel);
        match opened {
            Ok(session) => {
                let offset = self.clock.record_reading(session.server_now_ms, asked);
                // After an outage, the line about its end suffices.
                if now.opened == 0 {
                    tracing::info!("the session with the backend is open");
                }
                tracing::debug!(clock_offset_ms = offset, "a session was opened");
                self.record_backend_id(session.backend_id).await;
                // Heartbeats report when there is none any more.
                if session.other_process {
                    self.health.set_other_process(true);
                }
                self.opened.fetch_add(1, Ordering::AcqRel);
                *failed = None;
                Ok(())
            }
            Err(error) => {
                if let BackendError::OtherBackend { .. } = &error {
                    tracing::warn!(%error, "nothing more is asked of it under the name of the other");
                    self.backend.pause_refused_device(&error);
                    self.found_other_backend.store(true, Ordering::Release);
                } else if error.recovery_action() == RecoveryAction::ReopenSession {
                    tracing::warn!(
                        %error,
                        "the backend refuses this device; polls pause. If it was revoked there: {}. If it was never \
                         paired: {}",
                        command_to_type("pair --new-device CODE"),
                        command_to_type("pair CODE")
                    );
                    self.backend.pause_refused_device(&error);
                } else if error.recovery_action() == RecoveryAction::GiveUp {
                    // The runner ends with this error, and the command line says what to do.
                    tracing::warn!(%error, "the backend refuses this device");
                    self.backend.pause_refused_device(&error);
                }
                *failed = Some(error.clone());
                Err(error)
            }
        }
    }
}

impl SessionKeeper {
    /// Stores the id of the deployment that answered.
    async fn record_backend_id(&self, id: Option<String>) {
        match self.journal.name_backend(id).await {
            Ok(false) => {}
            Ok(true) => self.found_other_backend.store(true, Ordering::Release),
            // It is stored when the next session is opened.
            Err(error) => tracing::warn!(%error, "the backend's id could not be noted"),
        }
    }
}

impl SessionKeeper {
    /// Identifies the deployment at an address where none answered before, so that leftovers for it are found. If it
    /// does not answer now, the first session identifies it.
    ///
    /// # Errors
    /// [`super::RunnerError`] when the journal cannot be read, or another deployment answers than was known.
    pub(super) async fn identify_backend(&self) -> Result<(), super::RunnerError> {
        if self.journal.backend_is_unnamed()? {
            let generation = self.current_generation();
            let meeting = self.reopen(generation);
            if tokio::time::timeout(IDENTIFY_TIMEOUT, meeting)
                .await
                .is_err()
            {
                tracing::info!("the backend did not say in time which one it is");
            }
            // No leftovers were handled before.
            self.found_other_backend.store(false, Ordering::Release);
        }
        Ok(())
    }

    /// Makes a call; if the backend says that the session is closed, opens one and makes the call once more.
    ///
    /// # Errors
    /// The call's error, or the backend's refusal to open a session.
    pub(super) async fn with_session<'a, T>(
        &self,
        call: impl Fn() -> crate::backend::BackendReply<'a, T>,
    ) -> Result<T, BackendError> {
        let generation = self.current_generation();
        match call().await {
            Err(error) if error.recovery_action() == RecoveryAction::ReopenSession => {
                self.reopen(generation).await?;
                let answered = call().await;
                if let Err(error) = &answered
                    && error.recovery_action() == RecoveryAction::ReopenSession
                {
                    // A new session that does not help is not opened again and again.
                    self.backend.pause_refused_device(error);
                }
                answered
            }
            answered => answered,
        }
    }
}
