//! How fast, how much, how long: the figures that the runner works by. Not here: where they come from (config).

use std::time::Duration;

/// When the wake-up socket is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeUp {
    /// Once polls turn out not to be held.
    Auto,
    /// From the start.
    On,
    /// Never.
    Off,
}

/// The runner's figures; the defaults are those of the wire contract.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The times and sizes of polls.
    pub poll: PollSettings,
    /// The waits after errors.
    pub waits: RetrySettings,
    /// The times of heartbeats.
    pub presence: PresenceSettings,
    /// The places and limits of calls.
    pub calls: CallSettings,
    /// The times of a stop.
    pub shutdown: ShutdownSettings,
    /// The times for which rows are kept.
    pub retention: RetentionSettings,
    /// The crashes that lead to safe mode.
    pub crash_loop: CrashLoopSettings,
    /// How many bytes the disk must have free for anything new to be begun.
    pub least_free: u64,
    /// Between looks at what may have changed unnoticed: the machine slept, a switch was moved.
    pub vigil: Duration,
}

/// The times and sizes of polls.
#[derive(Debug, Clone)]
pub struct PollSettings {
    /// How long a backend may hold a poll.
    pub hold: Duration,
    /// Between polls in the minute after an event, where polls are not held.
    pub active_interval: Duration,
    /// How long that lasts.
    pub active_for: Duration,
    /// Between polls for a while after that.
    pub recent_interval: Duration,
    /// How long that lasts.
    pub recent_for: Duration,
    /// Whether the wake-up socket is opened.
    pub wakeup: WakeUp,
    /// Between polls while it stands.
    pub listening_interval: Duration,
    /// Between polls otherwise.
    pub idle_interval: Duration,
    /// How far each interval is moved at random, as a share of it.
    pub jitter: f64,
    /// Events asked for at once.
    pub page: u32,
    /// Between looks at everything that is open.
    pub list_open: Duration,
    /// The same while the wake-up socket stands.
    pub listening_list_open: Duration,
}

/// The waits after errors.
#[derive(Debug, Clone)]
pub struct RetrySettings {
    /// The first and the largest back-off after errors.
    pub retry: (Duration, Duration),
    /// The same after function errors without a reason.
    pub slow_retry: (Duration, Duration),
    /// Between attempts to open a session that the backend refuses.
    pub unauthorized: Duration,
}

/// The times of heartbeats.
#[derive(Debug, Clone)]
pub struct PresenceSettings {
    /// Between heartbeats until the backend says otherwise.
    pub heartbeat: Duration,
    /// The same while the wake-up socket stands.
    pub listening_heartbeat: Duration,
}

/// The places and limits of calls.
#[derive(Debug, Clone)]
pub struct CallSettings {
    /// Between renewals of leases.
    pub lease_renew: Duration,
    /// The least pause between pieces of a running command's output; none are told where it is zero.
    pub progress: Duration,
    /// How long a call waits for somebody's word.
    pub approval: Duration,
    /// Calls that read, side by side; their places are their own.
    pub reads: usize,
    /// Calls with effects, side by side.
    pub total: usize,
    /// Tasks, side by side.
    pub tasks: usize,
    /// Calls held in memory while they wait; what is above this waits in the journal.
    pub queue: usize,
    /// How old a request without a deadline may be.
    pub ttl: Duration,
    /// How long any call may run.
    pub longest_call: Duration,
}

/// The times of a stop.
#[derive(Debug, Clone)]
pub struct ShutdownSettings {
    /// How long running calls have at a stop.
    pub drain: Duration,
    /// How long calls have after that to end when they are told to.
    pub last_words: Duration,
    /// How long the outbox has at the very end.
    pub wind_up: Duration,
}

/// The times for which rows are kept.
#[derive(Debug, Clone)]
pub struct RetentionSettings {
    /// How long a closed request is remembered.
    pub remember: Duration,
    /// How long a reply is kept after it was sent on a wire where it may be asked for again.
    pub keep_sent: Duration,
    /// How long after its request expired a reply is still posted.
    pub keep_posting: Duration,
}

/// The crashes that lead to safe mode.
#[derive(Debug, Clone)]
pub struct CrashLoopSettings {
    /// So many crashes within [`Self::crash_window`] lead to safe mode; 0 for never.
    pub crash_limit: usize,
    /// How long a crash counts.
    pub crash_window: Duration,
    /// How long a life in safe mode begins nothing, unless the owner resumes.
    pub safe_mode_for: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            poll: PollSettings {
                hold: seconds(25),
                active_interval: seconds(1),
                active_for: seconds(60),
                recent_interval: seconds(5),
                recent_for: seconds(600),
                wakeup: WakeUp::Auto,
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
            presence: PresenceSettings { heartbeat: seconds(60), listening_heartbeat: seconds(300) },
            calls: CallSettings {
                lease_renew: seconds(20),
                progress: seconds(1),
                approval: seconds(120),
                reads: 8,
                total: 16,
                tasks: 8,
                queue: 256,
                ttl: seconds(600),
                longest_call: seconds(3_600),
            },
            shutdown: ShutdownSettings { drain: seconds(10), last_words: seconds(4), wind_up: seconds(4) },
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
            least_free: 200 << 20,
            vigil: seconds(60),
        }
    }
}
