//! Unusable cursors: one that the backend refuses, or that lies in its future. Polling then restarts without a cursor,
//! which repeats known requests once.

use super::Intake;
use crate::backend::BackendError;
use crate::runner::error::RunnerError;

/// The allowed lead of a cursor over the backend's clock, which is known only approximately. Requests from this time
/// are found a little later.
const CLOCK_SLACK_MS: i128 = 60_000;

impl Intake {
    /// Restores the cursor of an earlier process, unless it lies in the future of the backend's clock: polls from
    /// there would bring nothing for long.
    pub async fn restore_cursor(&mut self, cursor: Option<String>) -> Result<(), RunnerError> {
        self.cursor = cursor;
        let now_ms = self.handles.server_clock.whole_now_ms();
        if self
            .cursor
            .as_ref()
            .is_some_and(|cursor| is_future_cursor(cursor, now_ms))
        {
            tracing::warn!(
                cursor = self.cursor,
                "the cursor lies in the backend's future: polling begins anew"
            );
            self.clear_cursor().await?;
        }
        Ok(())
    }

    /// Polls without the cursor that was refused. A backend that refuses its own cursors is asked rarely.
    pub async fn restart_without_cursor(
        &mut self,
        refused: &BackendError,
    ) -> Result<(), RunnerError> {
        tracing::warn!(cursor = self.cursor, error = %refused, "the backend refuses its cursor: polling begins anew");
        self.clear_cursor().await?;
        self.refused_cursors = self.refused_cursors.saturating_add(1);
        if self.refused_cursors > 1 {
            let wait = self.schedule.record_error(refused);
            self.schedule_poll(wait);
        } else {
            self.poll();
        }
        Ok(())
    }

    async fn clear_cursor(&mut self) -> Result<(), RunnerError> {
        self.cursor = None;
        Ok(self.handles.journal.reset_cursor().await?)
    }
}

/// Returns whether a cursor is later than now: it counts nanoseconds since 1970, as the commits of both backends do.
fn is_future_cursor(cursor: &str, now_ms: i64) -> bool {
    cursor
        .parse::<i128>()
        .is_ok_and(|nanos| nanos / 1_000_000 > i128::from(now_ms) + CLOCK_SLACK_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_ahead_of_the_clock_beyond_its_error() {
        let now_ms = 1_800_000_000_000;
        for (cursor, ahead) in [
            ("0", false),
            ("1800000000000000000", false),
            ("1800000059999000000", false),
            ("1800000061000000000", true),
            ("1800086400000000000", true),
            ("99999999999999999999999999999999999999", true),
            ("no number", false),
        ] {
            assert_eq!(is_future_cursor(cursor, now_ms), ahead, "{cursor}");
        }
    }
}
