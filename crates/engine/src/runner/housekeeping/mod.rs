//! Regular checks: sleep of the machine, changed switches, the end of safe mode, stuck tasks, and old rows. They are
//! rare, so that an idle runner lets the processor sleep.

pub(super) mod crash_loop;
mod retention;
mod sleep_detector;
mod wake_timer;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::handles::Handles;
use super::liveness::LivenessTask;
use super::wake_event::WakeEvent;
use super::watchdog::Watchdog;
use crate::audit::{AuditActor, AuditEvent};
use punie_core::heap_memory;
pub(super) use retention::run_retention;
use sleep_detector::{ClockReading, SleepDetector};
use wake_timer::WakeTimer;

/// The longest wait for the journal before a check goes on without it.
const JOURNAL_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs the regular checks of the runner itself.
pub(super) struct Housekeeping {
    pub handles: Arc<Handles>,
    /// The service manager, if there is one.
    pub watchdog: Option<Watchdog>,
    pub started_at: Instant,
}

/// Runs the checks until the runner is over.
pub(super) async fn run_housekeeping(housekeeping: Arc<Housekeeping>) {
    let keeper = &housekeeping;
    let handles = &housekeeping.handles;
    let told_every = keeper.watchdog.as_ref().and_then(Watchdog::ping_interval);
    let interval = handles.settings.housekeeping_interval;
    let period = told_every.map_or(interval, |every| every.min(interval));
    let period_ms = i64::try_from(period.as_millis()).unwrap_or(i64::MAX);
    let began = std::time::Instant::now();
    let now = || ClockReading {
        day: handles.clock.now_ms(),
        boot: handles.clock.since_boot_ms(),
        awake: i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX),
    };
    let mut alarm = WakeTimer::with_period(period, handles.clock.clone());
    // The state that an earlier process recorded is outdated.
    handles.health.signal_change();
    let mut detector = SleepDetector::new(now());
    if let Some(watchdog) = &keeper.watchdog {
        watchdog.notify_manager("READY=1\nSTATUS=");
    }
    loop {
        let rang = tokio::select! {
            () = alarm.wait_for_tick() => true,
            () = handles.health.wait_for_change() => false,
            () = handles.phases.over.cancelled() => return,
        };
        let work_began = now();
        if rang {
            if let Some(missed) = detector.end_round(work_began, period_ms) {
                handles.waker.wake(WakeEvent::MachineWoke(missed));
            }
            handles.timer.announce_check();
            if handles.pause.is_watched() {
                // To list the folder of orders would wake its watch, every minute for nothing.
                keeper.apply_pause();
            } else {
                keeper.apply_switches();
            }
            keeper.end_safe_mode_when_quiet();
            handles.audit.record_later_traffic();
            // What the start, a call or a connection needed.
            heap_memory::return_freed_memory();
            keeper.notify_watchdog().await;
        }
        // A disk that hangs must not block the other checks.
        let _ = timeout(JOURNAL_TIMEOUT, handles.record_health()).await;
        detector.record_work(work_began, now());
    }
}

impl Housekeeping {
    /// Reads the switches and the stop orders, and notifies the affected components.
    pub(super) fn apply_switches(&self) {
        self.apply_pause();
        // After the pause, so that no call begins while an order ends those that run.
        for order in self.handles.pause.take_stop_orders() {
            self.handles.waker.wake(WakeEvent::StopOrdered(order));
        }
    }

    fn apply_pause(&self) {
        let handles = &self.handles;
        let pause = &handles.pause;
        if !pause.refresh_switches() {
            return;
        }
        if pause.is_active() {
            tracing::warn!(
                paused = pause.is_paused(),
                safe_mode = pause.is_safe_mode(),
                "nothing new is begun; calls that run go on, and results are delivered"
            );
        } else {
            tracing::info!("calls may begin again");
        }
        self.record_pause();
        handles.health.signal_change();
        handles.heartbeat_soon.notify_one();
        handles.waker.wake(WakeEvent::PauseChanged);
    }

    /// Records in the audit whether calls may begin.
    pub(super) fn record_pause(&self) {
        let pause = &self.handles.pause;
        let audit = &self.handles.audit;
        let (event, words) = match (pause.is_safe_mode(), pause.is_paused()) {
            (true, _) => (AuditEvent::Held, "safe mode"),
            (false, true) => (AuditEvent::Held, "paused"),
            (false, false) => (AuditEvent::Released, ""),
        };
        audit.event(event, AuditActor::Runner, words);
    }
}

impl Housekeeping {
    /// Tells the service manager that the runner is alive, if it is.
    async fn notify_watchdog(&self) {
        let Some((watchdog, every)) = self
            .watchdog
            .as_ref()
            .and_then(|dog| Some((dog, dog.ping_interval()?)))
        else {
            return;
        };
        let liveness = &self.handles.liveness;
        let journal = &self.handles.journal;
        match liveness.find_stuck() {
            None => watchdog.notify_manager("WATCHDOG=1"),
            Some(who) => tracing::error!(
                ?who,
                "a task of the runner hangs; the service manager is not told that all is well"
            ),
        }
        // Another write, such as a heartbeat's, has shown already that the journal is alive.
        if let Some(age) = journal.last_commit_age().filter(|age| *age < every) {
            return liveness.expect_within(LivenessTask::Journal, every.saturating_sub(age));
        }
        // An error is an answer, too: a restart does not repair a full disk.
        let moved = journal.store_fact("moved_ms", self.handles.clock.now_ms().to_string());
        if timeout(JOURNAL_TIMEOUT, moved).await.is_ok() {
            liveness.expect_within(LivenessTask::Journal, every);
        }
    }
}

/// Applies the switches as soon as one changes, until the runner is over.
pub(super) async fn run_switch_watch(housekeeping: Arc<Housekeeping>) {
    let handles = &housekeeping.handles;
    let Some(mut watch) = handles.pause.watch_switches() else {
        return;
    };
    handles.pause.set_watched();
    loop {
        // Also at once: a switch may have changed before the watch began.
        housekeeping.apply_switches();
        tokio::select! {
            moved = watch.changes.changed() => if moved.is_err() { return },
            () = handles.phases.over.cancelled() => return,
        }
    }
}
