//! The runner's health: its current problems, in the words of heartbeats and `status`, and the time of the last poll.
//! Not here: the reaction to problems.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::audit::Audit;
use crate::backend::ConnectionProblem;
use crate::journal::Journal;
use crate::runner::backend_client::BackendClient;
use crate::runner::clock::ServerClock;
use crate::runner::pause::CallPause;

/// The age of the journal's last poll time from which a heartbeat updates it; a heartbeat writes to the journal
/// anyway.
const NOTED_WITH_A_BEAT: Duration = Duration::from_secs(45);
/// The same age while no heartbeat gets through.
const NOTED_ALONE: Duration = Duration::from_secs(90);

/// Health facts that are reported by other components; pauses and clocks are read when needed.
#[derive(Debug, Default)]
pub(in crate::runner) struct HealthState {
    /// The disk is too full for new work.
    disk: AtomicBool,
    /// The backend reports another process with this device's identity.
    other_process: AtomicBool,
    /// The time of the last successful poll, in milliseconds since 1970; 0 for never.
    polled_ms: AtomicI64,
    contact: Mutex<Contact>,
    /// The state last stored in the journal; `None` before the first time, because an earlier process left its own.
    noted: Mutex<(Option<String>, i64)>,
    /// Signalled when any of this changed.
    changed: Notify,
}

/// The result of the latest polls.
#[derive(Debug, Default, Clone, Copy)]
struct Contact {
    answers: bool,
    since: Option<Instant>,
}

impl HealthState {
    /// Records a successful poll.
    pub(in crate::runner) fn polled(&self, now_ms: i64) {
        self.polled_ms.store(now_ms, Ordering::Relaxed);
        self.contact(true);
    }

    /// Records a failed poll.
    pub(in crate::runner) fn poll_failed(&self) {
        self.contact(false);
    }

    /// Sets whether the disk is too full for new work; returns whether that changed.
    pub(in crate::runner) fn disk_is_full(&self, full: bool) -> bool {
        let news = self.disk.swap(full, Ordering::Relaxed) != full;
        if news {
            self.touch();
        }
        news
    }

    /// Sets whether the backend reports another process with this device's identity.
    pub(in crate::runner) fn other_process_is_there(&self, there: bool) {
        if self.other_process.swap(there, Ordering::Relaxed) == there {
            return;
        }
        self.touch();
        if there {
            tracing::warn!(
                "another process with this device's identity is running (a copied home?): both answer the same \
                 requests; stop one of them, and register the copy as a device of its own with `punie-runner pair \
                 --new-device`"
            );
        } else {
            tracing::info!("no other process with this device's identity is running any more");
        }
    }

    /// Returns whether the disk was too full for new work at the last check.
    pub(in crate::runner) fn lacks_room(&self) -> bool {
        self.disk.load(Ordering::Relaxed)
    }

    fn contact(&self, answers: bool) {
        let mut contact = self.contact.lock().unwrap_or_else(PoisonError::into_inner);
        if contact.since.is_none() || contact.answers != answers {
            *contact = Contact { answers, since: Some(Instant::now()) };
        }
    }

    /// Returns whether the backend has been answering, or failing, for at least this long without a change.
    pub(in crate::runner) fn contact_is_settled(&self, least: Duration) -> bool {
        let contact = *self.contact.lock().unwrap_or_else(PoisonError::into_inner);
        contact.since.is_some_and(|since| since.elapsed() >= least)
    }

    /// Signals that a fact that is read when needed has changed.
    pub(in crate::runner) fn touch(&self) {
        self.changed.notify_one();
    }

    /// Waits until something changes.
    pub(in crate::runner) async fn changed(&self) {
        self.changed.notified().await;
    }
}

/// Reports the runner's health to the journal, for `status`, and in heartbeats.
pub(in crate::runner) struct HealthReport {
    pub state: Arc<HealthState>,
    pub backend: Arc<BackendClient>,
    pub server_clock: ServerClock,
    pub pause: Arc<CallPause>,
    pub audit: Audit,
    pub journal: Journal,
}

impl HealthReport {
    /// Returns the current problems as stable words: `disk`, `intercepted`, `clock_skew`, `paused`, `safe_mode`,
    /// `audit` (its rows cannot be written), `other_process` (a copy of this home is running).
    pub(in crate::runner) fn degraded(&self) -> Vec<&'static str> {
        let state = &self.state;
        [
            (state.disk.load(Ordering::Relaxed), "disk"),
            (self.backend.problem() == Some(ConnectionProblem::Intercepted), "intercepted"),
            (self.server_clock.skew_ms().is_some(), "clock_skew"),
            (self.pause.is_paused(), "paused"),
            (self.pause.is_safe_mode(), "safe_mode"),
            // A full disk is reported already.
            (self.audit.is_failing() && !state.lacks_room(), "audit"),
            (state.other_process.load(Ordering::Relaxed), "other_process"),
        ]
        .into_iter()
        .filter_map(|(is_so, word)| is_so.then_some(word))
        .collect()
    }

    /// Stores changes in the journal for `status`, which runs in another process.
    pub(in crate::runner) async fn record_condition(&self) {
        let now = (self.degraded().join(","), self.state.polled_ms.load(Ordering::Relaxed));
        let before = self.state.noted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut news = Vec::new();
        if before.0.as_ref() != Some(&now.0) {
            news.push(("degraded", now.0.clone()));
        }
        // Not after every poll, because an idle device would write only for this.
        let told = is_old(before.1, now.1, NOTED_ALONE);
        if told {
            news.push(("last_poll_ms", now.1.to_string()));
        }
        for (key, value) in news {
            if let Err(error) = self.journal.remember(key, value).await {
                tracing::warn!(%error, "the runner's condition could not be noted");
                return;
            }
        }
        let mut noted = self.state.noted.lock().unwrap_or_else(PoisonError::into_inner);
        *noted = (Some(now.0), if told { now.1 } else { noted.1 });
    }

    /// Returns the time of the last successful poll, to be stored with another write; `None` if the journal has a
    /// recent one.
    pub(in crate::runner) fn take_poll_to_record(&self) -> Option<i64> {
        let polled = self.state.polled_ms.load(Ordering::Relaxed);
        let mut noted = self.state.noted.lock().unwrap_or_else(PoisonError::into_inner);
        is_old(noted.1, polled, NOTED_WITH_A_BEAT).then(|| {
            noted.1 = polled;
            polled
        })
    }
}

fn is_old(noted_ms: i64, now_ms: i64, after: Duration) -> bool {
    u128::try_from(now_ms - noted_ms).is_ok_and(|age| age >= after.as_millis())
}
