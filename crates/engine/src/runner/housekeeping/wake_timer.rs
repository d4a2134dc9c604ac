//! A periodic timer that ticks at once when the machine wakes up. On Linux a timerfd counts sleep, and the kernel fires
//! it when the time of day jumps, as it does after a sleep. Elsewhere the clocks are checked every few seconds.

use std::time::Duration;

use punie_core::clock::Clock;
use tokio::time::Instant;

/// The interval of the checks for sleep on systems without such a timer.
const SLEEP_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The delay of a slice from which it counts as a sleep.
const MIN_SLEEP_MS: i64 = 2_000;

/// Ticks once per period.
pub(in crate::runner) struct WakeTimer {
    period: Duration,
    /// The time of the next tick without such a timer.
    due: Option<Instant>,
    clock: Clock,
    #[cfg(target_os = "linux")]
    timer: Option<TimerFd>,
}

impl WakeTimer {
    /// Creates a timer whose first tick is after one period. To be called within a runtime.
    pub fn with_period(period: Duration, clock: Clock) -> Self {
        #[cfg(target_os = "linux")]
        {
            let timer = TimerFd::new().map_err(|error| {
                tracing::warn!(%error, "after a sleep of the machine the runner notices that only by and by");
            });
            Self {
                period,
                due: None,
                clock,
                timer: timer.ok(),
            }
        }
        #[cfg(not(target_os = "linux"))]
        Self {
            period,
            due: None,
            clock,
        }
    }

    /// Waits for the next tick. A wait that is cancelled and repeated does not postpone the tick.
    pub async fn wait_for_tick(&mut self) {
        #[cfg(target_os = "linux")]
        if let Some(timer) = &mut self.timer {
            match timer.wait_armed(self.period).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::warn!(%error, "the timer that goes on in sleep is given up");
                    self.timer = None;
                }
            }
        }
        let due = *self.due.get_or_insert_with(|| Instant::now() + self.period);
        self.sleep_in_slices(due).await;
        self.due = None;
    }

    /// Waits for this moment, or until the machine has slept. Timers stop during sleep, so one for the whole time
    /// would be late by a minute.
    async fn sleep_in_slices(&self, due: Instant) {
        loop {
            let slice = due
                .saturating_duration_since(Instant::now())
                .min(SLEEP_CHECK_INTERVAL);
            let slice_ms = i64::try_from(slice.as_millis()).unwrap_or(i64::MAX);
            let began_ms = self.clock.since_boot_ms();
            tokio::time::sleep(slice).await;
            if self.clock.since_boot_ms() - began_ms - slice_ms > MIN_SLEEP_MS
                || Instant::now() >= due
            {
                return;
            }
        }
    }
}

/// A timer that follows the time of day including sleep, and can be read like a pipe.
#[cfg(target_os = "linux")]
struct TimerFd {
    pipe: tokio::net::unix::pipe::Receiver,
    is_armed: bool,
    arm: ArmTimer,
}

/// Arms a timer to fire after this duration, or as soon as the time of day jumps.
#[cfg(target_os = "linux")]
type ArmTimer = fn(std::os::fd::BorrowedFd<'_>, Duration) -> std::io::Result<()>;

#[cfg(target_os = "linux")]
impl TimerFd {
    fn new() -> std::io::Result<Self> {
        use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Realtime, flags)?;
        Ok(Self {
            pipe: tokio::net::unix::pipe::Receiver::from_owned_fd_unchecked(timer)?,
            is_armed: false,
            arm: arm_timer,
        })
    }

    /// Waits for this duration, or until the time of day jumps: by a sleep, or because a person set it.
    async fn wait_armed(&mut self, wait: Duration) -> std::io::Result<()> {
        use std::os::fd::AsFd as _;

        use tokio::io::AsyncReadExt as _;
        if !self.is_armed {
            let jumped = is_clock_jump((self.arm)(self.pipe.as_fd(), wait))?;
            self.is_armed = true;
            if jumped {
                return Ok(());
            }
        }
        // The number of expirations that is read does not matter.
        let read = self.pipe.read(&mut [0_u8; 8]).await;
        self.is_armed = false;
        is_clock_jump(read.map(drop)).map(drop)
    }
}

/// Returns whether the time of day has jumped since the timer last reported it. If arming the timer reports the jump,
/// the timer is armed nevertheless.
#[cfg(target_os = "linux")]
fn is_clock_jump(done: std::io::Result<()>) -> std::io::Result<bool> {
    match done {
        Err(error) if error.raw_os_error() == Some(libc::ECANCELED) => Ok(true),
        done => done.map(|()| false),
    }
}

#[cfg(target_os = "linux")]
fn arm_timer(timer: std::os::fd::BorrowedFd<'_>, wait: Duration) -> std::io::Result<()> {
    use rustix::time::{
        ClockId, Itimerspec, TimerfdTimerFlags, Timespec, clock_gettime, timerfd_settime,
    };
    let out_of_range = || std::io::Error::from(std::io::ErrorKind::InvalidInput);
    let wait = Timespec::try_from(wait).map_err(|_| out_of_range())?;
    let at = clock_gettime(ClockId::Realtime)
        .checked_add(wait)
        .ok_or_else(out_of_range)?;
    let once = Itimerspec {
        it_interval: Timespec::default(),
        it_value: at,
    };
    // Only a timer with an absolute time reports jumps.
    let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
    timerfd_settime(timer, flags, &once)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_rings_again_and_again() {
        let mut alarm = WakeTimer::with_period(Duration::from_millis(1), Clock::system());
        for _ in 0..3 {
            alarm.wait_for_tick().await;
        }
        #[cfg(target_os = "linux")]
        assert!(alarm.timer.is_some(), "by the timer that goes on in sleep");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_jump_that_is_learned_of_while_the_timer_is_set_is_a_ring_and_the_timer_goes_on() {
        let mut alarm = WakeTimer::with_period(Duration::from_hours(1), Clock::system());
        let timer = alarm.timer.as_mut().expect("a timer");
        // As the kernel does if the time of day jumped since the last read: it arms the timer and reports the jump in
        // one call.
        timer.arm = |timer, wait| {
            arm_timer(timer, wait)?;
            Err(std::io::Error::from_raw_os_error(libc::ECANCELED))
        };
        let soon = Duration::from_mins(1);
        tokio::time::timeout(soon, alarm.wait_for_tick())
            .await
            .expect("it rings at once");
        assert!(
            alarm.timer.as_ref().is_some_and(|timer| timer.is_armed),
            "it is not given up, and is set"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_timer_that_goes_on_in_sleep_a_sleep_is_noticed_within_seconds() {
        let minute = Duration::from_mins(1);
        for (slept_ms, rings_after) in [(0, minute), (1_800_000, Duration::from_secs(25))] {
            let begun = Instant::now();
            let since_boot = move || {
                let awake = begun.elapsed();
                let slept_ms = if awake > Duration::from_secs(21) {
                    slept_ms
                } else {
                    0
                };
                i64::try_from(awake.as_millis()).expect("small") + slept_ms
            };
            let mut alarm = WakeTimer::with_period(minute, Clock::from_time_fns(|| 0, since_boot));
            #[cfg(target_os = "linux")]
            {
                alarm.timer = None;
            }
            alarm.wait_for_tick().await;
            let late = begun.elapsed().saturating_sub(rings_after);
            assert!(
                begun.elapsed() >= rings_after && late < Duration::from_secs(1),
                "{:?}",
                begun.elapsed()
            );
        }
    }

    #[tokio::test]
    async fn a_ring_that_something_else_came_before_comes_no_later() {
        let mut alarm = WakeTimer::with_period(Duration::from_millis(200), Clock::system());
        let begun = Instant::now();
        // As when other events keep interrupting the wait: a tick that was postponed each time would never come.
        while tokio::time::timeout(Duration::from_millis(50), alarm.wait_for_tick())
            .await
            .is_err()
        {
            assert!(begun.elapsed() < Duration::from_secs(90), "it never rings");
        }
    }
}
