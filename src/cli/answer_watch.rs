//! Waiting for the answer to a request and its progress. It uses a subscription, which costs a metered backend one
//! call per change. If none can be opened, it polls with growing intervals.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::caller_client::{CallerAnswer, CallerClient, OutputPiece};
use punie_core::ids::RequestId;
use punie_engine::backend::{BackendError, RecoveryAction};

/// The time limit for opening a socket before polling instead.
const SOCKET_OPEN_TIMEOUT: Duration = Duration::from_secs(5);
/// The number of consecutive sockets without a message after which no more are opened.
const MAX_FAILED_SOCKETS: u32 = 3;
/// The first and the longest interval between polls.
const POLL_INTERVALS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));
/// The interval for renewing the request for progress, which the backend forgets after a minute.
const WATCH_RENEWAL_INTERVAL: Duration = Duration::from_secs(30);
/// The number of pieces in one value from which the query is replaced: otherwise each further piece would resend all
/// of them.
const MANY_PIECES: usize = 32;

/// The number of the query for the result; queries for progress have the numbers after it.
const RESULT_QUERY: u32 = 0;

/// The wait for one answer.
pub(super) struct AnswerWatch<'a> {
    caller: &'a CallerClient,
    id: &'a RequestId,
    show: Option<&'a mut (dyn FnMut(&OutputPiece) + Send)>,
    /// The number of the last piece shown.
    last_shown: Option<f64>,
    /// The time of the last request for progress.
    watch_renewed_at: Instant,
    /// The last error, while the backend is away.
    away: Option<BackendError>,
}

impl<'a> AnswerWatch<'a> {
    /// Prepares waiting for the answer to this request, which was just appended; shows its progress if requested.
    pub(super) fn new(
        caller: &'a CallerClient,
        id: &'a RequestId,
        show: Option<&'a mut (dyn FnMut(&OutputPiece) + Send)>,
    ) -> Self {
        Self {
            caller,
            id,
            show,
            last_shown: None,
            watch_renewed_at: Instant::now(),
            away: None,
        }
    }

    /// Returns the last error, if the backend is away.
    pub(super) fn into_away_error(self) -> Option<BackendError> {
        self.away
    }

    /// Waits as long as it takes, also while the backend is away.
    ///
    /// # Errors
    /// The backend refuses.
    pub(super) async fn wait_until_answered(&mut self) -> Result<CallerAnswer, BackendError> {
        let mut pauses = poll_intervals();
        let mut in_vain = 0;
        loop {
            if in_vain < MAX_FAILED_SOCKETS {
                let mut brought = false;
                match self.subscribe(&mut brought).await {
                    Ok(answer) => return Ok(answer),
                    Err(error) => {
                        tracing::debug!(%error, "the subscription to the answer has ended");
                    }
                }
                if brought {
                    (in_vain, pauses) = (0, self::poll_intervals());
                } else {
                    in_vain += 1;
                }
            }
            // Poll too: the socket may have failed, or the answer may have gone to a closed one.
            match self.poll().await {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => self.away = None,
                Err(error) if matches!(error.recovery_action(), RecoveryAction::Retry(_)) => {
                    if self.away.is_none() {
                        tracing::warn!(%error, "asking the backend again until the wait ends");
                    }
                    self.away = Some(error);
                }
                Err(error) => return Err(error),
            }
            tokio::time::sleep(pauses.next().unwrap_or(POLL_INTERVALS.1)).await;
        }
    }

    /// Listens on one socket; sets `brought` once it receives anything.
    async fn subscribe(&mut self, brought: &mut bool) -> Result<CallerAnswer, BackendError> {
        let Ok(opened) = timeout(SOCKET_OPEN_TIMEOUT, self.caller.open_sync_socket()).await else {
            return Err(BackendError::Function {
                message: "no socket could be opened in time".to_owned(),
            });
        };
        let mut socket = opened?;
        let mut progress = RESULT_QUERY + 1;
        let mut queries = vec![(
            RESULT_QUERY,
            "events:getResult",
            self.caller.query_args(self.id, None),
        )];
        if self.show.is_some() {
            queries.push((
                progress,
                "events:listProgress",
                self.caller.query_args(self.id, self.last_shown),
            ));
        }
        socket.replace_queries(&[], &queries).await?;
        loop {
            let again_at = self.watch_renewed_at + WATCH_RENEWAL_INTERVAL;
            let changes = tokio::select! {
                changes = socket.next_query_changes() => changes?,
                () = tokio::time::sleep_until(again_at), if self.show.is_some() => {
                    self.renew_progress().await?;
                    continue;
                }
            };
            *brought = true;
            let mut answer = None;
            let mut pieces = 0;
            for (query, value) in changes {
                match query {
                    RESULT_QUERY => answer = CallerAnswer::from_result_row(&value?),
                    _ => pieces = self.show_new_pieces(&value?),
                }
            }
            let many = pieces >= MANY_PIECES;
            match answer {
                // A value may not contain all of many pieces.
                Some(answer) if many => return self.show_remaining_pieces().await.map(|()| answer),
                Some(answer) => return Ok(answer),
                None if many => {
                    let query = (
                        progress + 1,
                        "events:listProgress",
                        self.caller.query_args(self.id, self.last_shown),
                    );
                    socket.replace_queries(&[progress], &[query]).await?;
                    progress += 1;
                }
                None => {}
            }
        }
    }

    /// Polls once, without a socket.
    async fn poll(&mut self) -> Result<Option<CallerAnswer>, BackendError> {
        // Query progress before the result, so that it is shown in order.
        if self.show.is_some() {
            if self.watch_renewed_at.elapsed() >= WATCH_RENEWAL_INTERVAL {
                self.renew_progress().await?;
            }
            self.show_remaining_pieces().await?;
        }
        self.caller.fetch_result(self.id).await
    }

    async fn renew_progress(&mut self) -> Result<(), BackendError> {
        self.watch_renewed_at = Instant::now();
        self.caller.watch_progress(self.id).await
    }

    /// Fetches and shows pieces until there are no new ones.
    async fn show_remaining_pieces(&mut self) -> Result<(), BackendError> {
        loop {
            let rows = self.caller.fetch_progress(self.id, self.last_shown).await?;
            if self.show_new_pieces(&rows) < MANY_PIECES {
                return Ok(());
            }
        }
    }

    /// Shows the new pieces in these rows; returns the number of rows.
    fn show_new_pieces(&mut self, rows: &Value) -> usize {
        let rows = rows.as_array().map(Vec::as_slice).unwrap_or_default();
        for piece in rows.iter().filter_map(OutputPiece::from_progress_row) {
            if self.last_shown.is_none_or(|seen| piece.n > seen) {
                self.last_shown = Some(piece.n);
                if let Some(show) = &mut self.show {
                    show(&piece);
                }
            }
        }
        rows.len()
    }
}

/// Returns the intervals between polls: each is half as long again as the one before.
pub(super) fn poll_intervals() -> impl Iterator<Item = Duration> {
    std::iter::successors(Some(POLL_INTERVALS.0), |pause| {
        Some((*pause * 3 / 2).min(POLL_INTERVALS.1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_socket_half_a_minute_costs_a_dozen_questions_and_an_hour_one_in_five_seconds() {
        let within = |seconds: u64| {
            let ends = poll_intervals().scan(Duration::ZERO, |end, pause| {
                *end += pause;
                Some(*end)
            });
            ends.take_while(|end| *end <= Duration::from_secs(seconds))
                .count()
        };
        assert_eq!((within(1), within(30)), (1, 9));
        assert!(within(3_600) <= 3_600 / 5 + 5, "{}", within(3_600));
    }
}
