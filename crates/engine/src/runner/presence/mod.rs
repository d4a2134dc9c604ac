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
use tokio::sync::{OnceCell, RwLock};

use super::connection_record::CONTACT_KEY;
use super::handles::Handles;
use super::liveness::LivenessTask;
use super::open_counts::CountedRequests;
use crate::audit::{AuditActor, AuditEntry, AuditEvent};
use crate::backend::{Backend as _, BackendError, RecoveryAction, RetryDelay};
use crate::journal::BACKEND_TIME;

/// Sends heartbeats with the device's health to the backend.
pub(super) struct Presence {
    pub handles: Arc<Handles>,
    /// The goodbye was sent; every heartbeat holds the read lock.
    pub said_goodbye: RwLock<bool>,
    /// Set once the backend was asked for its time.
    pub time_asked: OnceCell<()>,
}

/// Sends heartbeats until the runner is over.
pub(super) async fn run_heartbeats(presence: Arc<Presence>) {
    let handles = &presence.handles;
    let liveness = &handles.liveness;
    let mut retry = handles.retry_intervals();
    let mut proven = handles.audit.confinement.when_proven();
    // The backend knows whether the confinement is proven.
    let mut told = false;
    loop {
        told = told || (&mut proven).now_or_never().is_some();
        // The longest case: a session is opened between two heartbeats.
        liveness.expect_within(LivenessTask::Heartbeat, Duration::from_mins(2));
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
                        handles.settings.presence.heartbeat
                    }
                    _ => retry.delay_after(RetryDelay::Intervals(1)),
                };
                (wait, false)
            }
        };
        liveness.expect_within(LivenessTask::Heartbeat, wait + wait / 4);
        let pause = async {
            if regular {
                handles.timer.wait_for_check(wait).await;
            } else {
                handles.backend.wait_to_retry(wait).await;
            }
        };
        tokio::select! {
            () = pause => {}
            () = handles.heartbeat_soon.notified() => {}
            () = &mut proven, if !told => told = true,
            () = handles.phases.over.cancelled() => return,
        }
    }
}

impl Presence {
    /// Returns the interval of heartbeats, unless the backend names another.
    fn heartbeat_interval(&self) -> Duration {
        let intervals = &self.handles.settings.presence;
        if self.handles.socket.is_connected() {
            intervals.listening_heartbeat
        } else {
            intervals.heartbeat
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
        let handles = &self.handles;
        let backend = &handles.backend;
        let clock = &handles.server_clock;
        let health = self.health_json().await;
        let every = self.heartbeat_interval();
        let asked = clock.begin_reading();
        let send = || backend.send_heartbeat(online, every, health.clone());
        let mut beat = handles.sessions.with_session(send).await;
        if let Err(error) = &beat
            && matches!(
                error.recovery_action(),
                RecoveryAction::CorrectClock(_) | RecoveryAction::SignAgain
            )
        {
            let code = error.refusal_code().unwrap_or("stale").to_owned();
            let event = AuditEvent::HeartbeatRefused;
            let now_ms = handles.clock.now_ms();
            handles.audit.log.queue_entries(vec![AuditEntry {
                code: Some(code),
                ..AuditEntry::new(event, AuditActor::Backend, now_ms)
            }]);
            beat = backend.send_heartbeat(online, every, health).await;
        }
        let beat = beat?;
        handles.health.set_other_process(beat.other_process);
        match clock.record_reading(beat.server_now_ms, asked) {
            Some(offset) => self.record_contact(offset),
            None => handles.heartbeat_soon.notify_one(),
        }
        Ok(beat.next)
    }

    /// Makes sure that deadlines use the backend's clock as this process has read it. If the backend does not answer,
    /// they use the last process's reading.
    pub(super) async fn learn_server_time(&self) {
        let clock = &self.handles.server_clock;
        let backend = &self.handles.backend;
        if !clock.is_read() {
            let ask = async {
                self.send_one_heartbeat(true)
                    .await
                    .map(drop)
                    .unwrap_or_default();
            };
            self.time_asked.get_or_init(|| ask).await;
        }
        if !clock.is_read()
            && let Some(offset) = backend.clock_offset_ms()
        {
            // Better than the reading of an earlier process, and than none.
            clock.apply_stored_offset(offset);
        }
    }

    /// Returns the device's health as JSON. Facts that the journal cannot read now are left out.
    async fn health_json(&self) -> serde_json::Value {
        let handles = &self.handles;
        let mut health = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "confinement": handles.audit.confinement.describe_confinement(),
            "degraded": handles.current_problems(),
        });
        let audit = handles.audit.log.last_row_link();
        health["audit"] = json!(format!("{}:{}", audit.seq, audit.hash));
        health["requestAuth"] = json!(if handles.signatures.are_required() {
            "signed"
        } else {
            "transport"
        });
        if let Some(canary) = handles.health.canary_json() {
            health["canary"] = canary;
        }
        if let Some(skew) = handles.server_clock.skew_ms() {
            health["clockSkewMs"] = json!(skew);
        }
        if let Ok(CountedRequests { counts, epoch, .. }) = handles.counts.count_open().await {
            let oldest = counts
                .outbox_oldest_ms
                .map(|at| handles.clock.now_ms().saturating_sub(at).max(0));
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
        let handles = &self.handles;
        let mut facts = vec![
            (CONTACT_KEY, handles.clock.now_ms()),
            ("clock_offset_ms", offset_ms),
            (BACKEND_TIME, handles.server_clock.whole_now_ms()),
        ];
        let polled = handles.take_poll_to_record();
        facts.extend(polled.map(|polled| ("last_poll_ms", polled)));
        let facts = facts.into_iter();
        let facts = facts.map(|(key, value)| (key, value.to_string()));
        handles.journal.store_facts_later(facts.collect());
    }
}
