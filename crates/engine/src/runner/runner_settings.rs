//! The runner's intervals, sizes and limits.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;

pub use punie_core::owner_choices::WakeupMode;

/// The runner's settings; the defaults are those of the wire contract.
#[derive(Debug, Clone)]
pub struct RunnerSettings {
    /// The times and sizes of polls.
    pub poll: PollSettings,
    /// The waits after errors.
    pub waits: RetrySettings,
    /// The times of heartbeats.
    pub presence: PresenceSettings,
    /// The concurrency and limits of calls, which may change while the runner runs.
    pub calls: LiveCallSettings,
    /// The times of a stop.
    pub shutdown: ShutdownSettings,
    /// The times for which rows are kept.
    pub retention: RetentionSettings,
    /// The crashes that lead to safe mode.
    pub crash_loop: CrashLoopSettings,
    /// The interval of checks for unnoticed changes: the machine slept, a switch changed.
    pub housekeeping_interval: Duration,
}

/// The times and sizes of polls.
#[derive(Debug, Clone)]
pub struct PollSettings {
    /// The longest time for which a backend may hold a poll.
    pub hold: Duration,
    /// The interval of polls in the minute after an event, if polls are not held.
    pub active_interval: Duration,
    /// The duration of that interval's use after an event.
    pub active_for: Duration,
    /// The interval of polls for a while after that.
    pub recent_interval: Duration,
    /// The duration of that interval's use after an event.
    pub recent_for: Duration,
    /// The use of the wake-up socket.
    pub wakeup: WakeupMode,
    /// The interval of polls while the wake-up socket is connected.
    pub listening_interval: Duration,
    /// The interval of polls otherwise.
    pub idle_interval: Duration,
    /// The share by which each interval is changed at random.
    pub jitter: f64,
    /// The number of events requested at once.
    pub page: u32,
    /// The interval of lists of everything open.
    pub list_open: Duration,
    /// The interval of these lists while the wake-up socket is connected.
    pub listening_list_open: Duration,
}

/// The waits after errors.
#[derive(Debug, Clone)]
pub struct RetrySettings {
    /// The first and the largest back-off after errors.
    pub retry: (Duration, Duration),
    /// The first and the largest back-off after function errors without a reason.
    pub slow_retry: (Duration, Duration),
    /// The interval of attempts to open a session that the backend refuses.
    pub unauthorized: Duration,
}

/// The times of heartbeats.
#[derive(Debug, Clone)]
pub struct PresenceSettings {
    /// The interval of heartbeats, unless the backend names another.
    pub heartbeat: Duration,
    /// The interval of heartbeats while the wake-up socket is connected.
    pub listening_heartbeat: Duration,
}

/// The settings of calls. Clones share them, so that a change holds for the next use of each.
#[derive(Debug, Clone)]
pub struct LiveCallSettings(Arc<RwLock<CallSettings>>);

impl LiveCallSettings {
    /// Creates settings that can be replaced.
    pub fn new(settings: CallSettings) -> Self {
        Self(Arc::new(RwLock::new(settings)))
    }

    /// Returns the settings in force.
    pub fn current(&self) -> CallSettings {
        *self.0.read()
    }

    /// Replaces the settings.
    pub fn replace(&self, settings: CallSettings) {
        *self.0.write() = settings;
    }
}

/// The concurrency and limits of calls.
#[derive(Debug, Clone, Copy)]
pub struct CallSettings {
    /// The interval of lease renewals.
    pub lease_renew: Duration,
    /// The least pause between pieces of a running command's output; zero sends none.
    pub progress: Duration,
    /// The longest wait of a call for approval.
    pub approval: Duration,
    /// The most reads at the same time; other calls do not use their places.
    pub reads: usize,
    /// The most calls with effects at the same time.
    pub total: usize,
    /// The most tasks at the same time.
    pub tasks: usize,
    /// The most waiting calls in memory; further ones wait in the journal.
    pub queue: usize,
    /// The greatest age of a request without a deadline.
    pub ttl: Duration,
    /// The longest run of any call.
    pub longest_call: Duration,
    /// The time that running calls have at a stop.
    pub drain: Duration,
    /// The bytes that the disk must have free before a new call begins.
    pub least_free: u64,
    /// The machine does not go to sleep for want of use while calls run.
    pub keep_awake: bool,
}

/// The times of a stop.
#[derive(Debug, Clone)]
pub struct ShutdownSettings {
    /// The time that calls have after their grace period to end when they are told to.
    pub stop_grace: Duration,
    /// The time for flushing the outbox at the very end: if the backend is away, and the longest.
    pub flush_grace: [Duration; 2],
}

/// The times for which rows are kept.
#[derive(Debug, Clone)]
pub struct RetentionSettings {
    /// The time for which a closed request is remembered.
    pub remember: Duration,
    /// The time for which a sent reply is kept, on a wire where it may be requested again.
    pub keep_sent: Duration,
    /// The time after a request's expiry during which its reply is still posted.
    pub keep_posting: Duration,
}

/// The crashes that lead to safe mode.
#[derive(Debug, Clone)]
pub struct CrashLoopSettings {
    /// The number of crashes within [`Self::crash_window`] that lead to safe mode; 0 for never.
    pub crash_limit: usize,
    /// The time for which a crash counts.
    pub crash_window: Duration,
    /// The time for which a process in safe mode starts no call, unless the owner resumes.
    pub safe_mode_for: Duration,
}

impl Default for RunnerSettings {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            poll: PollSettings {
                hold: seconds(25),
                active_interval: seconds(1),
                active_for: seconds(60),
                recent_interval: seconds(5),
                recent_for: seconds(600),
                wakeup: WakeupMode::Auto,
                listening_interval: seconds(300),
                idle_interval: seconds(30),
                jitter: 0.2,
                page: 64,
                list_open: seconds(300),
                listening_list_open: seconds(3_600),
            },
            waits: RetrySettings {
                retry: (seconds(1), seconds(60)),
                slow_retry: (seconds(30), seconds(300)),
                unauthorized: seconds(300),
            },
            presence: PresenceSettings {
                heartbeat: seconds(60),
                listening_heartbeat: seconds(300),
            },
            calls: LiveCallSettings::new(CallSettings {
                lease_renew: seconds(20),
                progress: seconds(1),
                approval: seconds(600),
                reads: 8,
                total: 16,
                tasks: 8,
                queue: 256,
                ttl: seconds(600),
                longest_call: seconds(3_600),
                drain: seconds(10),
                least_free: 200 << 20,
                keep_awake: true,
            }),
            shutdown: ShutdownSettings {
                stop_grace: seconds(8),
                flush_grace: [seconds(4), seconds(10)],
            },
            retention: RetentionSettings {
                remember: seconds(30 * 86_400),
                keep_sent: seconds(86_400),
                keep_posting: seconds(7 * 86_400),
            },
            crash_loop: CrashLoopSettings {
                crash_limit: 3,
                crash_window: seconds(300),
                safe_mode_for: seconds(300),
            },
            housekeeping_interval: seconds(60),
        }
    }
}
