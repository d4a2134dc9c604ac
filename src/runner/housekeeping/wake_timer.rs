//! A tick that rings at once when the machine wakes up: on Linux by a timer that goes on while it sleeps, and that the
//! system rings early when the time of day jumps, as it does after a sleep; elsewhere by looking every few seconds whether
//! the machine slept. Not here: what is done about it (vigil).

use std::time::Duration;

use tokio::time::Instant;

use crate::runner::clock::Clock;

/// How often it is looked whether the machine slept, where no timer goes on in sleep.
const SLICE: Duration = Duration::from_secs(5);

/// A slice that took so much longer was a sleep, or nearly.
const SLEPT_MS: i64 = 2_000;

/// Rings every so often.
pub(in crate::runner) struct WakeTimer {
    period: Duration,
    /// When it rings next where there is no timer.
    due: Option<Instant>,
    clock: Clock,
    #[cfg(target_os = "linux")]
    timer: Option<Timer>,
}

impl WakeTimer {
    /// Rings first after one period. To be made within a runtime.
    pub(in crate::runner) fn every(period: Duration, clock: Clock) -> Self {
        #[cfg(target_os = "linux")]
        {
            let timer = Timer::new().map_err(|error| {
                tracing::warn!(%error, "after a sleep of the machine the runner notices that only by and by");
            });
            Self { period, due: None, clock, timer: timer.ok() }
        }
        #[cfg(not(target_os = "linux"))]
        Self { period, due: None, clock }
    }

    /// Waits for the next ring. One that is waited for anew, because something else came first, comes no later.
    pub(in crate::runner) async fn ring(&mut self) {
        #[cfg(target_os = "linux")]
        if let Some(timer) = &mut self.timer {
            match timer.ring_in(self.period).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::warn!(%error, "the timer that goes on in sleep is given up");
                    self.timer = None;
                }
            }
        }
        let due = *self.due.get_or_insert_with(|| Instant::now() + self.period);
        self.wait_until(due).await;
        self.due = None;
    }

    /// Waits for this moment, or until the machine has slept. Timers stand still meanwhile, so that one for the whole time
    /// would be late by a minute.
    async fn wait_until(&self, due: Instant) {
        loop {
            let slice = due.saturating_duration_since(Instant::now()).min(SLICE);
            let slice_ms = i64::try_from(slice.as_millis()).unwrap_or(i64::MAX);
            let began_ms = self.clock.since_boot_ms();
            tokio::time::sleep(slice).await;
            if self.clock.since_boot_ms() - began_ms - slice_ms > SLEPT_MS || Instant::now() >= due {
                return;
            }
        }
    }
}

/// A timer that follows the time of day, sleep included, and can be read like a pipe.
#[cfg(target_os = "linux")]
struct Timer {
    pipe: tokio::net::unix::pipe::Receiver,
    /// Whether it is to ring.
    set: bool,
    arm: Arm,
}

/// Sets a timer to ring after so long, or as soon as the time of day jumps.
#[cfg(target_os = "linux")]
type Arm = fn(std::os::fd::BorrowedFd<'_>, Duration) -> std::io::Result<()>;

#[cfg(target_os = "linux")]
impl Timer {
    fn new() -> std::io::Result<Self> {
        use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Realtime, flags)?;
        Ok(Self { pipe: tokio::net::unix::pipe::Receiver::from_owned_fd_unchecked(timer)?, set: false, arm })
    }

    /// Rings after so long, or as soon as the time of day has jumped: by a sleep, or because somebody set it.
    async fn ring_in(&mut self, wait: Duration) -> std::io::Result<()> {
        use std::os::fd::AsFd as _;

        use tokio::io::AsyncReadExt as _;
        if !self.set {
            let jumped = jumped((self.arm)(self.pipe.as_fd(), wait))?;
            self.set = true;
            if jumped {
                return Ok(());
            }
        }
        // How often it has rung is what is read, and does not matter.
        let read = self.pipe.read(&mut [0_u8; 8]).await;
        self.set = false;
        jumped(read.map(drop)).map(drop)
    }
}

/// Whether the time of day has jumped since the timer last told of that. Where that is learned by setting it, before
/// anything was read, it is set all the same.
#[cfg(target_os = "linux")]
fn jumped(done: std::io::Result<()>) -> std::io::Result<bool> {
    match done {
        Err(error) if error.raw_os_error() == Some(libc::ECANCELED) => Ok(true),
        done => done.map(|()| false),
    }
}

#[cfg(target_os = "linux")]
fn arm(timer: std::os::fd::BorrowedFd<'_>, wait: Duration) -> std::io::Result<()> {
    use rustix::time::{ClockId, Itimerspec, TimerfdTimerFlags, Timespec, clock_gettime, timerfd_settime};
    let out_of_range = || std::io::Error::from(std::io::ErrorKind::InvalidInput);
    let wait = Timespec::try_from(wait).map_err(|_| out_of_range())?;
    let at = clock_gettime(ClockId::Realtime).checked_add(wait).ok_or_else(out_of_range)?;
    let once = Itimerspec { it_interval: Timespec::default(), it_value: at };
    // Only a timer of a moment is told of jumps.
    let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
    timerfd_settime(timer, flags, &once)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_rings_again_and_again() {
        let mut alarm = WakeTimer::every(Duration::from_millis(1), Clock::system());
        for _ in 0..3 {
            alarm.ring().await;
        }
        #[cfg(target_os = "linux")]
        assert!(alarm.timer.is_some(), "by the timer that goes on in sleep");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_jump_that_is_learned_of_while_the_timer_is_set_is_a_ring_and_the_timer_goes_on() {
        let mut alarm = WakeTimer::every(Duration::from_hours(1), Clock::system());
        let timer = alarm.timer.as_mut().expect("a timer");
        // As the system does where the time of day jumped since the last read: set, and told of in one.
        timer.arm = |timer, wait| {
            arm(timer, wait)?;
            Err(std::io::Error::from_raw_os_error(libc::ECANCELED))
        };
        let soon = Duration::from_mins(1);
        tokio::time::timeout(soon, alarm.ring()).await.expect("it rings at once");
        assert!(alarm.timer.as_ref().is_some_and(|timer| timer.set), "it is not given up, and is set");
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_timer_that_goes_on_in_sleep_a_sleep_is_noticed_within_seconds() {
        let minute = Duration::from_mins(1);
        for (slept_ms, rings_after) in [(0, minute), (1_800_000, Duration::from_secs(25))] {
            let begun = Instant::now();
            let since_boot = move || {
                let awake = begun.elapsed();
                let slept_ms = if awake > Duration::from_secs(21) { slept_ms } else { 0 };
                i64::try_from(awake.as_millis()).expect("small") + slept_ms
            };
            let mut alarm = WakeTimer::every(minute, Clock::from_fns(|| 0, since_boot));
            #[cfg(target_os = "linux")]
            {
                alarm.timer = None;
            }
            alarm.ring().await;
            let late = begun.elapsed().saturating_sub(rings_after);
            assert!(begun.elapsed() >= rings_after && late < Duration::from_secs(1), "{:?}", begun.elapsed());
        }
    }

    #[tokio::test]
    async fn a_ring_that_something_else_came_before_comes_no_later() {
        let mut alarm = WakeTimer::every(Duration::from_millis(200), Clock::system());
        let begun = Instant::now();
        // As when something is noted again and again meanwhile: a ring that was put off each time would never come.
        while tokio::time::timeout(Duration::from_millis(50), alarm.ring()).await.is_err() {
            assert!(begun.elapsed() < Duration::from_secs(30), "it never rings");
        }
    }
}
