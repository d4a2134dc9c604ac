//! Regular checks: sleep of the machine, changed switches, the end of safe mode, stuck tasks, and old rows. They are
//! rare, so that an idle runner lets the processor sleep.

pub(super) mod crash_loop;
mod retention;
mod sleep_detector;
mod wake_timer;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::background::ShutdownPhases;
use super::call_audit::CallAudit;
use super::call_pause::CallPause;
use super::coalesced_timer::CoalescedTimer;
use super::liveness::{Liveness, LivenessTask};
use super::open_counts::OpenCounts;
use super::presence::health::HealthReport;
use super::runner_settings::RunnerSettings;
use super::server_clock::ServerClock;
use super::wake_event::{LoopWaker, WakeEvent};
use super::wakeup_state::WakeupState;
use super::watchdog::Watchdog;
use crate::audit::{AuditActor, AuditEvent};
use crate::journal::Journal;
use punie_core::clock::Clock;
use punie_core::heap_memory;
use punie_text::output::CallRecordStore;
pub(super) use retention::run_retention;
use sleep_detector::{ClockReading, SleepDetector};
use wake_timer::WakeTimer;

/// The longest wait for the journal before a check goes on without it.
const JOURNAL_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs the regular checks of the runner itself.
pub(super) struct Housekeeping {
    pub journal: Journal,
    pub settings: RunnerSettings,
    pub clock: Clock,
    pub server_clock: ServerClock,
    pub audit: CallAudit,
    pub report: Arc<HealthReport>,
    pub counts: Arc<OpenCounts>,
    pub pause: Arc<CallPause>,
    /// The service manager, if there is one.
    pub watchdog: Option<Watchdog>,
    pub liveness: Arc<Liveness>,
    pub timer: Arc<CoalescedTimer>,
    pub socket: Arc<WakeupState>,
    pub waker: LoopWaker,
    /// Signalled when a heartbeat has news.
    pub heartbeat_soon: Arc<Notify>,
    pub started_at: Instant,
    pub phases: ShutdownPhases,
    pub records: Option<CallRecordStore>,
}

/// Runs the checks until the runner is over.
pub(super) async fn run_housekeeping(housekeeping: Arc<Housekeeping>) {
    let keeper = &housekeeping;
    let told_every = keeper.watchdog.as_ref().and_then(Watchdog::ping_interval);
    let period = told_every.map_or(keeper.settings.housekeeping_interval, |every| {
        every.min(keeper.settings.housekeeping_interval)
    });
    let period_ms = i64::try_from(period.as_millis()).unwrap_or(i64::MAX);
    let began = std::time::Instant::now();
    let now = || ClockReading {
        day: keeper.clock.now_ms(),
        boot: keeper.clock.since_boot_ms(),
        awake: i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX),
    };
    let mut alarm = WakeTimer::with_period(period, keeper.clock.clone());
    // The state that an earlier process recorded is outdated.
    keeper.report.state.signal_change();
    let mut detector = SleepDetector::new(now());
    if let Some(watchdog) = &keeper.watchdog {
        watchdog.notify_manager("READY=1\nSTATUS=");
    }
    loop {
        let rang = tokio::select! {
            () = alarm.wait_for_tick() => true,
            () = keeper.report.state.wait_for_change() => false,
            () = keeper.phases.over.cancelled() => return,
        };
        let work_began = now();
        if rang {
            if let Some(missed) = detector.end_round(work_began, period_ms) {
                keeper.waker.wake(WakeEvent::MachineWoke(missed));
            }
            keeper.timer.announce_check();
            if keeper.pause.is_watched() {
                // To list the folder of orders would wake its watch, every minute for nothing.
                keeper.apply_pause();
            } else {
                keeper.apply_switches();
            }
            keeper.end_safe_mode_when_quiet();
            keeper.audit.record_later_traffic();
            // What the start, a call or a connection needed.
            heap_memory::return_freed_memory();
            keeper.notify_watchdog().await;
        }
        // A disk that hangs must not block the other checks.
        let _ = timeout(JOURNAL_TIMEOUT, keeper.report.record()).await;
        detector.record_work(work_began, now());
    }
}

impl Housekeeping {
    /// Reads the switches and the stop orders, and notifies the affected components.
    pub(super) fn apply_switches(&self) {
        self.apply_pause();
        // After the pause, so that no call begins while an order ends those that run.
        for order in self.pause.take_stop_orders() {
            self.waker.wake(WakeEvent::StopOrdered(order));
        }
    }

    fn apply_pause(&self) {
        if !self.pause.refresh_switches() {
            return;
        }
        if self.pause.is_active() {
            tracing::warn!(
                paused = self.pause.is_paused(),
                safe_mode = self.pause.is_safe_mode(),
                "nothing new is begun; calls that run go on, and results are delivered"
            );
        } else {
            tracing::info!("calls may begin again");
        }
        self.record_pause();
        self.report.state.signal_change();
        self.heartbeat_soon.notify_one();
        self.waker.wake(WakeEvent::PauseChanged);
    }

    /// Records in the audit whether calls may begin.
    pub(super) fn record_pause(&self) {
        let (event, words) = match (self.pause.is_safe_mode(), self.pause.is_paused()) {
            (true, _) => (AuditEvent::Held, "safe mode"),
            (false, true) => (AuditEvent::Held, "paused"),
            (false, false) => (AuditEvent::Released, ""),
        };
        self.audit.event(event, AuditActor::Runner, words);
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
        match self.liveness.find_stuck() {
            None => watchdog.notify_manager("WATCHDOG=1"),
            Some(who) => tracing::error!(
                ?who,
                "a task of the runner hangs; the service manager is not told that all is well"
            ),
        }
        // Another write, such as a heartbeat's, has shown already that the journal is alive.
        if let Some(age) = self.journal.last_commit_age().filter(|age| *age < every) {
            self.liveness
                .expect_within(LivenessTask::Journal, every.saturating_sub(age));
            return;
        }
        // An error is an answer, too: a restart does not repair a full disk.
        if timeout(
            JOURNAL_TIMEOUT,
            self.journal
                .store_fact("moved_ms", self.clock.now_ms().to_string()),
        )
        .await
        .is_ok()
        {
            self.liveness.expect_within(LivenessTask::Journal, every);
        }
    }
}

/// Applies the switches as soon as one changes, until the runner is over.
pub(super) async fn run_switch_watch(housekeeping: Arc<Housekeeping>) {
    let Some(mut watch) = housekeeping.pause.watch_switches() else {
        return;
    };
    housekeeping.pause.set_watched();
    loop {
        // Also at once: a switch may have changed before the watch began.
        housekeeping.apply_switches();
        tokio::select! {
            moved = watch.changes.changed() => if moved.is_err() { return },
            () = housekeeping.phases.over.cancelled() => return,
        }
    }
}
