//! Waiting for the answer to a request and its progress. It uses a subscription, which costs a metered backend one
//! call per change. If none can be opened, it polls with growing intervals.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::caller::{Answer, Caller, Piece};
use crate::backend::{BackendError, Disposition};
use crate::ids::RequestId;

/// The time limit for opening a socket before polling instead.
const OPEN: Duration = Duration::from_secs(5);
/// The number of consecutive sockets without a message after which no more are opened.
const SOCKETS: u32 = 3;
/// The first and the longest interval between polls.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));
/// The time limit for an unreachable backend.
const AWAY: Duration = Duration::from_mins(1);
/// The interval for renewing the request for progress, which the backend forgets after a minute.
const WATCH_AGAIN: Duration = Duration::from_secs(30);
/// The number of pieces in one value from which the query is replaced: otherwise each further piece would resend all
/// of them.
const MANY_PIECES: usize = 32;

/// The number of the query for the result; queries for progress have the numbers after it.
const RESULT: u32 = 0;

/// The wait for one answer.
pub(super) struct Watching<'a> {
    caller: &'a Caller,
    id: &'a RequestId,
    show: Option<&'a mut (dyn FnMut(&Piece) + Send)>,
    /// The number of the last piece shown.
    seen: Option<f64>,
    /// The time of the last request for progress.
    said: Instant,
}

impl<'a> Watching<'a> {
    /// Prepares waiting for the answer to this request, which was just appended; shows its progress if requested.
    pub(super) fn new(
        caller: &'a Caller,
        id: &'a RequestId,
        show: Option<&'a mut (dyn FnMut(&Piece) + Send)>,
    ) -> Self {
        Self { caller, id, show, seen: None, said: Instant::now() }
    }

    /// Waits as long as it takes.
    ///
    /// # Errors
    /// The backend refuses, or is unreachable for a minute.
    pub(super) async fn until_answered(mut self) -> Result<Answer, BackendError> {
        let (mut pauses, mut in_vain, mut away) = (pauses(), 0, None);
        loop {
            if in_vain < SOCKETS {
                let mut brought = false;
                match self.subscribe(&mut brought).await {
                    Ok(answer) => return Ok(answer),
                    Err(error) => tracing::debug!(%error, "the subscription to the answer has ended"),
                }
                if brought {
                    (in_vain, pauses) = (0, self::pauses());
                } else {
                    in_vain += 1;
                }
            }
            // Poll too: the socket may have failed, or the answer may have gone to a closed one.
            match self.ask().await {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => away = None,
                Err(error) => {
                    let since = away.get_or_insert_with(Instant::now);
                    if !matches!(error.disposition(), Disposition::Retry(_)) || since.elapsed() >= AWAY {
                        return Err(error);
                    }
                }
            }
            tokio::time::sleep(pauses.next().unwrap_or(PAUSES.1)).await;
        }
    }

    /// Listens on one socket; sets `brought` once it receives anything.
    async fn subscribe(&mut self, brought: &mut bool) -> Result<Answer, BackendError> {
        let Ok(opened) = timeout(OPEN, self.caller.open_sync_socket()).await else {
            return Err(BackendError::Function { message: "no socket could be opened in time".to_owned() });
        };
        let mut socket = opened?;
        let mut progress = RESULT + 1;
        let mut queries = vec![(RESULT, "events:getResult", self.caller.query_args(self.id, None))];
        if self.show.is_some() {
            queries.push((progress, "events:listProgress", self.caller.query_args(self.id, self.seen)));
        }
        socket.replace_queries(&[], &queries).await?;
        loop {
            let again_at = self.said + WATCH_AGAIN;
            let changes = tokio::select! {
                changes = socket.next_changes() => changes?,
                () = tokio::time::sleep_until(again_at), if self.show.is_some() => {
                    self.say_again().await?;
                    continue;
                }
            };
            *brought = true;
            let (mut answer, mut pieces) = (None, 0);
            for (query, value) in changes {
                match query {
                    RESULT => answer = Answer::from_row(&value?),
                    _ => pieces = self.show_new(&value?),
                }
            }
            let many = pieces >= MANY_PIECES;
            match answer {
                // A value may not contain all of many pieces.
                Some(answer) if many => return self.show_rest().await.map(|()| answer),
                Some(answer) => return Ok(answer),
                None if many => {
                    let query =
                        (progress + 1, "events:listProgress", self.caller.query_args(self.id, self.seen));
                    socket.replace_queries(&[progress], &[query]).await?;
                    progress += 1;
                }
                None => {}
            }
        }
    }

    /// Polls once, without a socket.
    async fn ask(&mut self) -> Result<Option<Answer>, BackendError> {
        // Query progress before the result, so that it is shown in order.
        if self.show.is_some() {
            if self.said.elapsed() >= WATCH_AGAIN {
                self.say_again().await?;
            }
            self.show_rest().await?;
        }
        self.caller.result(self.id).await
    }

    async fn say_again(&mut self) -> Result<(), BackendError> {
        self.said = Instant::now();
        self.caller.watch_progress(self.id).await
    }

    /// Fetches and shows pieces until there are no new ones.
    async fn show_rest(&mut self) -> Result<(), BackendError> {
        loop {
            let rows = self.caller.progress(self.id, self.seen).await?;
            if self.show_new(&rows) < MANY_PIECES {
                return Ok(());
            }
        }
    }

    /// Shows the new pieces in these rows; returns the number of rows.
    fn show_new(&mut self, rows: &Value) -> usize {
        let rows = rows.as_array().map(Vec::as_slice).unwrap_or_default();
        for piece in rows.iter().filter_map(Piece::from_row) {
            if self.seen.is_none_or(|seen| piece.n > seen) {
                self.seen = Some(piece.n);
                if let Some(show) = &mut self.show {
                    show(&piece);
                }
            }
        }
        rows.len()
    }
}

/// Returns the intervals between polls: each is half as long again as the one before.
fn pauses() -> impl Iterator<Item = Duration> {
    std::iter::successors(Some(PAUSES.0), |pause| Some((*pause * 3 / 2).min(PAUSES.1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_socket_half_a_minute_costs_a_dozen_questions_and_an_hour_one_in_five_seconds() {
        let within = |seconds: u64| {
            let ends = pauses().scan(Duration::ZERO, |end, pause| {
                *end += pause;
                Some(*end)
            });
            ends.take_while(|end| *end <= Duration::from_secs(seconds)).count()
        };
        assert_eq!((within(1), within(30)), (1, 9));
        assert!(within(3_600) <= 3_600 / 5 + 5, "{}", within(3_600));
    }
}
