//! The heartbeats of this device: one at once, then every minute, or every five while the wake-up socket is
//! connected, and one at the end. Each states its interval, because the backend uses it to decide which devices are
//! gone.

pub(super) mod canary;
pub(super) mod catalog_publisher;
pub(super) mod health;
mod published_catalog;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::json;
use tokio::sync::{Notify, OnceCell, RwLock};

use super::backend_client::BackendClient;
use super::background::ShutdownPhases;
use super::backoff::{RetryBudget, RetryIntervals};
use super::call_audit::CallAudit;
use super::coalesced_timer::CoalescedTimer;
use super::connection_record::CONTACT_KEY;
use super::liveness::{Liveness, LivenessTask};
use super::open_counts::{CountedRequests, OpenCounts};
use super::runner_settings::RunnerSettings;
use super::server_clock::ServerClock;
use super::session_keeper::SessionKeeper;
use super::wakeup_state::WakeupState;
use crate::audit::{AuditActor, AuditEntry, AuditEvent};
use crate::backend::{Backend as _, BackendError, RecoveryAction, RetryDelay};
use crate::journal::{BACKEND_TIME, Journal};
use health::HealthReport;

/// Sends heartbeats with the device's health to the backend.
pub(super) struct Presence {
    pub backend: Arc<BackendClient>,
    pub sessions: Arc<SessionKeeper>,
    pub journal: Journal,
    pub audit: CallAudit,
    pub report: Arc<HealthReport>,
    pub counts: Arc<OpenCounts>,
    /// Requests must be signed.
    pub is_signed: bool,
    pub settings: RunnerSettings,
    pub server_clock: ServerClock,
    pub socket: Arc<WakeupState>,
    pub liveness: Arc<Liveness>,
    pub timer: Arc<CoalescedTimer>,
    pub budget: Arc<RetryBudget>,
    /// Signalled when a heartbeat has news.
    pub heartbeat_soon: Arc<Notify>,
    /// The goodbye was sent; every heartbeat holds the read lock.
    pub said_goodbye: RwLock<bool>,
    /// Set once the backend was asked for its time.
    pub time_asked: OnceCell<()>,
    pub phases: ShutdownPhases,
}

/// Sends heartbeats until the runner is over.
pub(super) async fn run_heartbeats(presence: Arc<Presence>) {
    let mut retry =
        RetryIntervals::new(presence.settings.waits.retry).with_budget(&presence.budget);
    let mut proven = presence.audit.confinement.when_proven();
    // The backend knows whether the confinement is proven.
    let mut told = false;
    loop {
        told = told || (&mut proven).now_or_never().is_some();
        // The longest case: a session is opened between two heartbeats.
        presence
            .liveness
            .expect_within(LivenessTask::Heartbeat, Duration::from_mins(2));
        let (wait, regular) = match presence.send_one_heartbeat(true).await {
            Ok(next) => {
                retry.reset();
                (next.unwrap_or_else(|| presence.heartbeat_interval()), true)
            }
            Err(error) => {
                tracing::debug!(%error, "a heartbeat did not get through");
                let wait = match error.recovery_action() {
                    RecoveryAction::Retry(pause) => retry.delay_after(pause),
                    RecoveryAction::ReopenSession | RecoveryAction::GiveUp => {
                        presence.settings.presence.heartbeat
                    }
                    _ => retry.delay_after(RetryDelay::Intervals(1)),
                };
                (wait, false)
            }
        };
        presence
            .liveness
            .expect_within(LivenessTask::Heartbeat, wait + wait / 4);
        let pause = async {
            if regular {
                presence.timer.wait_for_check(wait).await;
            } else {
                presence.backend.wait_to_retry(wait).await;
            }
        };
        tokio::select! {
            () = pause => {}
            () = presence.heartbeat_soon.notified() => {}
            () = &mut proven, if !told => told = true,
            () = presence.phases.over.cancelled() => return,
        }
    }
}

impl Presence {
    /// Returns the interval of heartbeats, unless the backend names another.
    fn heartbeat_interval(&self) -> Duration {
        let settings = &self.settings;
        if self.socket.is_connected() {
            settings.presence.listening_heartbeat
        } else {
            settings.presence.heartbeat
        }
    }

    /// Sends one heartbeat; a second one if only the signature was wrong. None is sent during or after the goodbye,
    /// because the backend uses the heartbeat that was signed last.
    pub(super) async fn send_one_heartbeat(
        &self,
        online: bool,
    ) -> Result<Option<Duration>, BackendError> {
        if !online {
            *self.said_goodbye.write().await = true;
        }
        let parted = self.said_goodbye.read().await;
        if online && *parted {
            return Ok(None);
        }
        let health = self.health_json().await;
        let every = self.heartbeat_interval();
        let asked = self.server_clock.begin_reading();
        let mut beat = self
            .sessions
            .with_session(|| self.backend.send_heartbeat(online, every, health.clone()))
            .await;
        if let Err(error) = &beat
            && matches!(
                error.recovery_action(),
                RecoveryAction::CorrectClock(_) | RecoveryAction::SignAgain
            )
        {
            let code = error.refusal_code().unwrap_or("stale").to_owned();
            self.audit.audit.queue_entries(vec![AuditEntry {
                code: Some(code),
                ..AuditEntry::new(
                    AuditEvent::HeartbeatRefused,
                    AuditActor::Backend,
                    self.audit.clock.now_ms(),
                )
            }]);
            beat = self.backend.send_heartbeat(online, every, health).await;
        }
        let beat = beat?;
        self.report.state.set_other_process(beat.other_process);
        match self.server_clock.record_reading(beat.server_now_ms, asked) {
            Some(offset) => self.record_contact(offset),
            None => self.heartbeat_soon.notify_one(),
        }
        Ok(beat.next)
    }

    /// Makes sure that deadlines use the backend's clock as this process has read it. If the backend does not answer,
    /// they use the last process's reading.
    pub(super) async fn learn_server_time(&self) {
        if !self.server_clock.is_read() {
            let ask = async {
                self.send_one_heartbeat(true)
                    .await
                    .map(drop)
                    .unwrap_or_default();
            };
            self.time_asked.get_or_init(|| ask).await;
        }
        if !self.server_clock.is_read()
            && let Some(offset) = self.backend.clock_offset_ms()
        {
            // Better than the reading of an earlier process, and than none.
            self.server_clock.apply_stored_offset(offset);
        }
    }

    /// Returns the device's health as JSON. Facts that the journal cannot read now are left out.
    async fn health_json(&self) -> serde_json::Value {
        let mut health = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "confinement": self.audit.confinement.describe_confinement(),
            "degraded": self.report.current_problems(),
        });
        let audit = self.audit.audit.last_row_link();
        health["audit"] = json!(format!("{}:{}", audit.seq, audit.hash));
        health["requestAuth"] = json!(if self.is_signed {
            "signed"
        } else {
            "transport"
        });
        if let Some(canary) = self.report.state.canary_json() {
            health["canary"] = canary;
        }
        if let Some(skew) = self.server_clock.skew_ms() {
            health["clockSkewMs"] = json!(skew);
        }
        if let Ok(CountedRequests { counts, epoch, .. }) = self.counts.count_open().await {
            let oldest = counts
                .outbox_oldest_ms
                .map(|at| self.audit.clock.now_ms().saturating_sub(at).max(0));
            health["epoch"] = json!(epoch);
            health["waiting"] = json!(counts.accepted);
            health["inFlight"] = json!(counts.started);
            health["undelivered"] = json!(counts.outbox);
            health["oldestUndeliveredMs"] = json!(oldest);
        }
        health
    }

    /// Stores the contact for `status`, which runs in another process.
    fn record_contact(&self, offset_ms: i64) {
        let now = self.audit.clock.now_ms();
        let mut facts = vec![
            (CONTACT_KEY, now),
            ("clock_offset_ms", offset_ms),
            (BACKEND_TIME, self.server_clock.whole_now_ms()),
        ];
        facts.extend(
            self.report
                .take_poll_to_record()
                .map(|polled| ("last_poll_ms", polled)),
        );
        self.journal.store_facts_later(
            facts
                .into_iter()
                .map(|(key, value)| (key, value.to_string()))
                .collect(),
        );
    }
}
