//! The runner's health: its current problems, in the words of heartbeats and `status`, and the time of the last poll.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::canary::CanaryReport;
use crate::backend::ConnectionProblem;
use crate::journal::HealthProblem;
use crate::runner::handles::Handles;
use punie_home::command_to_type;

/// The age of the journal's last poll time from which a heartbeat updates it; a heartbeat writes to the journal
/// anyway.
const RECORD_WITH_HEARTBEAT: Duration = Duration::from_secs(45);
/// The same age while no heartbeat gets through.
const RECORD_ALONE: Duration = Duration::from_secs(90);

/// Health facts that are reported by other components; pauses and clocks are read when needed.
#[derive(Debug, Default)]
pub(in crate::runner) struct HealthState {
    /// The disk is too full for new work.
    disk: AtomicBool,
    /// The backend reports another process with this device's identity.
    other_process: AtomicBool,
    /// The time of the last successful poll, in milliseconds since 1970; 0 for never.
    polled_ms: AtomicI64,
    contact: Mutex<BackendContact>,
    /// The runner's own attempts to read, write and run a command; `None` before the first.
    canary: Mutex<Option<CanaryReport>>,
    recorded: Mutex<RecordedHealth>,
    /// Signalled when any of this changed.
    changed: Notify,
}

/// The state last stored in the journal.
#[derive(Debug, Default, Clone)]
struct RecordedHealth {
    /// The text of the problems; `None` before the first time, because an earlier process left its own.
    problems: Option<String>,
    /// The canary's failures; they count only while `canary` is one of the problems.
    canary: String,
    polled_ms: i64,
}

/// The result of the latest polls.
#[derive(Debug, Default, Clone, Copy)]
struct BackendContact {
    answers: bool,
    since: Option<Instant>,
}

impl HealthState {
    /// Records a successful poll.
    pub fn record_poll(&self, now_ms: i64) {
        self.polled_ms.store(now_ms, Ordering::Relaxed);
        self.set_contact(true);
    }

    /// Records a failed poll.
    pub fn record_poll_failure(&self) {
        self.set_contact(false);
    }

    /// Sets whether the disk is too full for new work; returns whether that changed.
    pub fn set_disk_full(&self, full: bool) -> bool {
        let news = self.disk.swap(full, Ordering::Relaxed) != full;
        if news {
            self.signal_change();
        }
        news
    }

    /// Sets whether the backend reports another process with this device's identity.
    pub fn set_other_process(&self, there: bool) {
        if self.other_process.swap(there, Ordering::Relaxed) == there {
            return;
        }
        self.signal_change();
        if there {
            tracing::warn!(
                "another process with this device's identity is running (a copied home?): both answer the same \
                 requests; stop one of them, and register the copy as a device of its own with `{}`",
                command_to_type("pair --new-device CODE")
            );
        } else {
            tracing::info!("no other process with this device's identity is running any more");
        }
    }

    /// Sets the results of the runner's own attempts; returns whether other ones failed than before.
    pub fn set_canary(&self, report: CanaryReport) -> bool {
        let failures = report.describe_failures();
        let before = self.canary.lock().replace(report);
        let news = failures != describe_canary(before.as_ref());
        if news {
            self.signal_change();
        }
        news
    }

    /// Returns the results of the runner's own attempts as JSON, if they were made.
    pub fn canary_json(&self) -> Option<serde_json::Value> {
        self.canary.lock().as_ref().map(CanaryReport::to_json)
    }

    /// Returns whether the disk was too full for new work at the last check.
    pub fn is_disk_full(&self) -> bool {
        self.disk.load(Ordering::Relaxed)
    }

    fn set_contact(&self, answers: bool) {
        let mut contact = self.contact.lock();
        if contact.since.is_none() || contact.answers != answers {
            *contact = BackendContact {
                answers,
                since: Some(Instant::now()),
            };
        }
    }

    /// Returns whether the backend has been answering, or failing, for at least this long without a change.
    pub fn is_contact_stable(&self, least: Duration) -> bool {
        let contact = *self.contact.lock();
        contact.since.is_some_and(|since| since.elapsed() >= least)
    }

    /// Signals that a fact that is read when needed has changed.
    pub fn signal_change(&self) {
        self.changed.notify_one();
    }

    /// Waits until something changes.
    pub async fn wait_for_change(&self) {
        self.changed.notified().await;
    }
}

/// Describes the attempts that failed; empty if there are none.
fn describe_canary(report: Option<&CanaryReport>) -> String {
    report
        .map(CanaryReport::describe_failures)
        .unwrap_or_default()
}

impl Handles {
    /// Returns the current problems that the runner knows of.
    pub fn current_problems(&self) -> Vec<HealthProblem> {
        let state = &self.health;
        let is_intercepted = self.backend.current_problem() == Some(ConnectionProblem::Intercepted);
        // A full disk is reported already.
        let is_audit_failing = self.audit.log.is_failing() && !state.is_disk_full();
        let failed_attempts = describe_canary(state.canary.lock().as_ref());
        HealthProblem::filter_current([
            (state.is_disk_full(), HealthProblem::Disk),
            (is_intercepted, HealthProblem::Intercepted),
            (
                self.server_clock.skew_ms().is_some(),
                HealthProblem::ClockSkew,
            ),
            (self.pause.is_paused(), HealthProblem::Paused),
            (self.pause.is_safe_mode(), HealthProblem::SafeMode),
            (is_audit_failing, HealthProblem::Audit),
            (
                state.other_process.load(Ordering::Relaxed),
                HealthProblem::OtherProcess,
            ),
            (self.pause.has_notices(), HealthProblem::ProtectedPaths),
            (!failed_attempts.is_empty(), HealthProblem::Canary),
        ])
    }

    /// Stores changes of the health in the journal for `status`, which runs in another process.
    pub async fn record_health(&self) {
        let state = &self.health;
        let problems = HealthProblem::to_fact(&self.current_problems());
        let canary = describe_canary(state.canary.lock().as_ref());
        let polled_ms = state.polled_ms.load(Ordering::Relaxed);
        let before = state.recorded.lock().clone();
        let mut news = Vec::new();
        if before.canary != canary {
            news.push(("canary", canary.clone()));
        }
        if before.problems.as_ref() != Some(&problems) {
            news.push(("degraded", problems.clone()));
        }
        // Not after every poll, because an idle device would write only for this.
        let told = is_record_due(before.polled_ms, polled_ms, RECORD_ALONE);
        if told {
            news.push(("last_poll_ms", polled_ms.to_string()));
        }
        for (key, value) in news {
            if let Err(error) = self.journal.store_fact(key, value).await {
                tracing::warn!(%error, "the runner's condition could not be noted");
                return;
            }
        }
        let mut noted = state.recorded.lock();
        (noted.problems, noted.canary) = (Some(problems), canary);
        if told {
            noted.polled_ms = polled_ms;
        }
    }

    /// Returns the time of the last successful poll, to be stored with another write; `None` if the journal has a
    /// recent one.
    pub fn take_poll_to_record(&self) -> Option<i64> {
        let polled = self.health.polled_ms.load(Ordering::Relaxed);
        let mut noted = self.health.recorded.lock();
        is_record_due(noted.polled_ms, polled, RECORD_WITH_HEARTBEAT).then(|| {
            noted.polled_ms = polled;
            polled
        })
    }
}

fn is_record_due(noted_ms: i64, now_ms: i64, after: Duration) -> bool {
    u128::try_from(now_ms - noted_ms).is_ok_and(|age| age >= after.as_millis())
}
