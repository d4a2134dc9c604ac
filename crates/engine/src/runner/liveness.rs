//! The liveness of the runner's own tasks: each announces the time of its next progress. The service manager gets its
//! watchdog message only while no task is overdue.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The watched tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LivenessTask {
    /// The loop, which polls.
    Poll,
    Heartbeat,
    /// The journal's writer.
    Journal,
}

/// The slack of every announced time: a busy machine does not count as a hang.
const OVERDUE_SLACK: Duration = Duration::from_secs(45);

/// The time by which each task must have made progress; `None` for tasks that have not begun.
#[derive(Debug, Default)]
pub(super) struct Liveness(Mutex<[Option<Instant>; 3]>);

impl Liveness {
    /// Records progress of a task, and the longest time until its next progress.
    pub(super) fn expect_within(&self, who: LivenessTask, time: Duration) {
        // An extremely long wait must not overflow.
        let by = Instant::now() + time.min(Duration::from_hours(24)) + OVERDUE_SLACK;
        self.0.lock()[who as usize] = Some(by);
    }

    /// Returns a task that is overdue.
    pub(super) fn find_stuck(&self) -> Option<LivenessTask> {
        let now = Instant::now();
        let by = *self.0.lock();
        [
            LivenessTask::Poll,
            LivenessTask::Heartbeat,
            LivenessTask::Journal,
        ]
        .into_iter()
        .find(|who| by[*who as usize].is_some_and(|by| by < now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whoever_does_not_keep_its_word_is_found() {
        let moves = Liveness::default();
        assert_eq!(moves.find_stuck(), None, "nobody owes anything yet");
        moves.expect_within(LivenessTask::Heartbeat, Duration::from_mins(1));
        moves.expect_within(LivenessTask::Poll, Duration::from_mins(10));
        tokio::time::advance(Duration::from_mins(1) + OVERDUE_SLACK).await;
        assert_eq!(moves.find_stuck(), None);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(moves.find_stuck(), Some(LivenessTask::Heartbeat));
        moves.expect_within(LivenessTask::Heartbeat, Duration::MAX);
        assert_eq!(moves.find_stuck(), None);
    }
}
