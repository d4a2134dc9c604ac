//! Waiting for the answer to a request, and for what it has to show meanwhile: by a subscription, which costs a metered
//! backend a call for each change, and where none can be had by asking, more and more seldom.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::caller::{Answer, Caller, Piece};
use crate::backend::{BackendError, Disposition};
use crate::ids::RequestId;

/// How long a socket may take to open before the backend is asked without one.
const OPEN: Duration = Duration::from_secs(5);
/// So many sockets on end that brought nothing are enough.
const SOCKETS: u32 = 3;
/// Between questions without a socket, at first and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));
/// How long a backend may be away before waiting for it is given up.
const AWAY: Duration = Duration::from_mins(1);
/// How often a caller says that it listens for progress; the backend takes that to be so for a minute.
const WATCH_AGAIN: Duration = Duration::from_secs(30);
/// So many pieces in one value are enough: each further one would bring all of them once more.
const MANY_PIECES: usize = 32;

/// The number of the query for the result; those for progress have the numbers after it.
const RESULT: u32 = 0;

/// One wait for an answer.
pub(super) struct Watching<'a> {
    caller: &'a Caller,
    id: &'a RequestId,
    show: Option<&'a mut (dyn FnMut(&Piece) + Send)>,
    /// The number of the last piece that was shown.
    seen: Option<f64>,
    /// When it was last said that somebody listens.
    said: Instant,
}

impl<'a> Watching<'a> {
    /// Waits for the answer to this request, which was just appended; shows its progress where that is wanted.
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
    /// The backend refuses, or stays away for a minute.
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
            // What a socket cannot say, or said only to a socket that is gone.
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

    /// Listens on one socket; says whether it brought anything before it ended.
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
                // A value may hold less than all of many pieces.
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

    /// Asks once, without a socket.
    async fn ask(&mut self) -> Result<Option<Answer>, BackendError> {
        // Asked before the result is, so that what came before the result is shown before it.
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

    /// Asks for pieces until there is none that was not shown.
    async fn show_rest(&mut self) -> Result<(), BackendError> {
        loop {
            let rows = self.caller.progress(self.id, self.seen).await?;
            if self.show_new(&rows) < MANY_PIECES {
                return Ok(());
            }
        }
    }

    /// Shows the pieces in these rows that were not shown yet; says how many rows there are.
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

/// The waits between questions: each half as long again as the one before.
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
