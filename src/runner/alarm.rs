//! A tick that rings at once when the machine wakes up late: on Linux by a timer that goes on while it sleeps.
//! Not here: what is done about it (vigil).

use std::time::Duration;

/// Rings every so often.
pub(super) struct Alarm {
    period: Duration,
    #[cfg(target_os = "linux")]
    timer: Option<tokio::net::unix::pipe::Receiver>,
}

impl Alarm {
    /// Rings first after one period. To be made within a runtime.
    pub(super) fn every(period: Duration) -> Self {
        #[cfg(target_os = "linux")]
        {
            let timer = boot_timer(period).map_err(|error| {
                tracing::warn!(%error, "after a sleep of the machine the runner notices that only by and by");
            });
            Self { period, timer: timer.ok() }
        }
        #[cfg(not(target_os = "linux"))]
        Self { period }
    }

    /// Waits for the next ring.
    pub(super) async fn ring(&mut self) {
        #[cfg(target_os = "linux")]
        if let Some(timer) = &mut self.timer {
            use tokio::io::AsyncReadExt as _;
            // How often it has rung since is what is read, and does not matter.
            match timer.read(&mut [0_u8; 8]).await {
                Ok(_) => return,
                Err(error) => {
                    tracing::warn!(%error, "the timer that goes on in sleep is given up");
                    self.timer = None;
                }
            }
        }
        tokio::time::sleep(self.period).await;
    }
}

/// A timer that counts sleep and can be read like a pipe.
#[cfg(target_os = "linux")]
fn boot_timer(period: Duration) -> std::io::Result<tokio::net::unix::pipe::Receiver> {
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
    let period = Timespec::try_from(period).map_err(std::io::Error::other)?;
    let spec = Itimerspec { it_interval: period, it_value: period };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &spec)?;
    tokio::net::unix::pipe::Receiver::from_owned_fd_unchecked(timer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_rings_again_and_again() {
        let mut alarm = Alarm::every(Duration::from_millis(1));
        for _ in 0..3 {
            alarm.ring().await;
        }
        #[cfg(target_os = "linux")]
        assert!(alarm.timer.is_some(), "by the timer that goes on in sleep");
    }
}
