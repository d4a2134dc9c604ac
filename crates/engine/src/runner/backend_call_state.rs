//! The state of the calls to the backend: the pauses that it asked for, and the current problems. This file makes no
//! calls.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::{BackendError, ConnectionProblem, RecoveryAction};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum BackendFunction {
    OpenSession,
    Poll,
    ListOpen,
    FetchOpen,
    Claim,
    Tell,
    Post,
    Beat,
    Publish,
    Decline,
    Ask,
    AnswerTo,
    Answer,
}

impl BackendFunction {
    /// Returns whether its last call may be days old: such an error says nothing about the connection now.
    fn is_rare(self) -> bool {
        use BackendFunction::{Answer, AnswerTo, Ask, Decline, FetchOpen, Tell};
        matches!(self, FetchOpen | Tell | Ask | AnswerTo | Answer | Decline)
    }
}

/// The longest time between two calls in an outage, beside the polls that fail every few seconds.
const LONGEST_OUTAGE_GAP: Duration = Duration::from_secs(15);

/// The pauses and the problems of all functions.
pub(super) struct BackendClientState {
    /// The first and the largest back-off.
    retry: (Duration, Duration),
    /// The current outage.
    outage: Option<Outage>,
    /// Functions that the backend asked not to call for a while.
    paused_functions: BTreeMap<BackendFunction, HeldError>,
    /// The refusal of this device.
    pub barred: Option<HeldError>,
    /// The current problems, by function.
    problems: BTreeMap<BackendFunction, ConnectionProblem>,
    /// The time of the last answer.
    pub answered: Option<Instant>,
}

/// A time in which no backend answers any call. Polls go on, and of all other calls only one now and then.
struct Outage {
    error: BackendError,
    /// The time from which another call than a poll may be made.
    next_call: Instant,
    gap: Duration,
}

/// An error that stays in force for a while.
#[derive(Clone)]
pub(super) struct HeldError {
    pub until: Instant,
    pub error: BackendError,
}

impl HeldError {
    /// Returns the error while it is in force; a wait that the backend asked for is reduced to the remaining time.
    pub fn remaining(&self, now: Instant) -> Option<BackendError> {
        let left = self
            .until
            .checked_duration_since(now)
            .filter(|left| !left.is_zero())?;
        let mut error = self.error.clone();
        if let BackendError::Busy { retry_after, .. } = &mut error {
            *retry_after = Some(left);
        }
        Some(error)
    }
}

/// The kind of a call that the backend answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerKind {
    /// The call needs an open session.
    WithSession,
    /// A heartbeat, which is signed by itself.
    Signed,
}

impl BackendClientState {
    /// Creates the state before the first call; `retry` is the first and the largest back-off.
    pub fn new(retry: (Duration, Duration)) -> Self {
        Self {
            retry,
            outage: None,
            paused_functions: BTreeMap::new(),
            barred: None,
            problems: BTreeMap::new(),
            answered: None,
        }
    }

    /// Returns whether no backend answers.
    pub fn is_outage(&self) -> bool {
        self.outage.is_some()
    }

    /// Records a call that reached no backend. While others are answered, it says nothing about the backend.
    fn record_unreachable(&mut self, error: &BackendError, began: Instant, now: Instant) {
        if self.answered.is_some_and(|answered| answered >= began) {
            return;
        }
        let first = self.retry.0;
        let outage = self.outage.get_or_insert_with(|| Outage {
            error: error.clone(),
            next_call: now + first,
            gap: first,
        });
        outage.error = error.clone();
    }

    /// Records how a call ended that began at `began`, and returns how the backend answered it, if it did.
    pub fn record_call(
        &mut self,
        function: BackendFunction,
        error: Option<&BackendError>,
        began: Instant,
        now: Instant,
    ) -> Option<AnswerKind> {
        match error {
            Some(error) if error.is_unreachable() => self.record_unreachable(error, began, now),
            _ => self.outage = None,
        }
        // A refusal of one request is an answer like any other.
        let is_answer = |error: &BackendError| {
            matches!(error, BackendError::Refused(_))
                && function != BackendFunction::OpenSession
                && error.recovery_action() != RecoveryAction::ReopenSession
        };
        if let Some(error) = error.filter(|error| !is_answer(error)) {
            if let BackendError::Busy {
                retry_after: Some(time),
                ..
            } = error
            {
                let held = HeldError {
                    until: now + *time,
                    error: error.clone(),
                };
                self.paused_functions.insert(function, held);
            }
            // An error of a rarely called function says nothing about the connection now.
            if !function.is_rare() {
                self.problems.insert(function, error.connection_problem());
            }
            return None;
        }
        self.answered = Some(now);
        self.problems.remove(&function);
        // The backend is there. A poll that does not reach it is made again soon, and shows so again.
        self.problems.retain(|function, problem| {
            *function == BackendFunction::Poll || !ConnectionProblem::UNREACHABLE.contains(problem)
        });
        let answered = if function == BackendFunction::Beat {
            AnswerKind::Signed
        } else {
            AnswerKind::WithSession
        };
        // A call that was started before the refusal proves nothing; one started since does.
        if self
            .barred
            .as_ref()
            .is_none_or(|held| held.remaining(now).is_none())
        {
            self.barred = None;
            self.problems.remove(&BackendFunction::OpenSession);
            // A call that was refused before the session was reopened may be repeated only much later.
            if answered == AnswerKind::WithSession {
                self.problems
                    .retain(|_, problem| *problem != ConnectionProblem::Refused);
            }
        }
        Some(answered)
    }

    /// Returns the error for a call that has to wait.
    pub fn find_held_error(
        &mut self,
        function: BackendFunction,
        now: Instant,
    ) -> Option<BackendError> {
        let asked = self
            .barred
            .iter()
            .chain(self.paused_functions.get(&function))
            .find_map(|held| held.remaining(now));
        asked.or_else(|| self.find_outage_error(function, now))
    }

    /// Returns the outage's error, unless this call may be made to find out whether it is over.
    fn find_outage_error(
        &mut self,
        function: BackendFunction,
        now: Instant,
    ) -> Option<BackendError> {
        let outage = self.outage.as_mut()?;
        if function == BackendFunction::Poll {
            return None;
        }
        if now < outage.next_call {
            return Some(outage.error.clone());
        }
        let (first, longest) = self.retry;
        // A poll that the backend holds, or that hangs, does not find out whether the outage is over.
        outage.gap = if self.problems.contains_key(&BackendFunction::Poll) {
            (outage.gap * 2).min(longest).min(LONGEST_OUTAGE_GAP)
        } else {
            first
        };
        outage.next_call = now + outage.gap;
        None
    }

    /// The problem that matters most to a person; `None` while all calls come through.
    pub fn worst_problem(&self) -> Option<ConnectionProblem> {
        self.problems.values().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn state() -> BackendClientState {
        BackendClientState::new((Duration::from_secs(1), Duration::from_mins(1)))
    }

    fn refused() -> BackendError {
        BackendError::Unauthorized {
            code: String::new(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_over_once_a_call_with_the_new_session_is_answered() {
        let mut state = state();
        let now = Instant::now();
        state.record_call(BackendFunction::Poll, Some(&refused()), now, now);
        assert_eq!(state.worst_problem(), Some(ConnectionProblem::Refused));
        // It needs no session.
        assert_eq!(
            state.record_call(BackendFunction::Beat, None, now, now),
            Some(AnswerKind::Signed)
        );
        assert_eq!(state.worst_problem(), Some(ConnectionProblem::Refused));
        // The current poll is held by the backend and shows nothing for half a minute.
        assert_eq!(
            state.record_call(BackendFunction::OpenSession, None, now, now),
            Some(AnswerKind::WithSession)
        );
        assert_eq!(state.worst_problem(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn in_an_outage_polls_go_on_and_other_calls_are_made_now_and_then_until_one_is_answered()
    {
        let mut state = state();
        let begun = Instant::now();
        let gone = BackendError::Intercepted {
            url: String::new(),
            cause: String::new(),
        };
        state.record_call(BackendFunction::Poll, None, begun, begun);
        // It began before the answer.
        state.record_call(BackendFunction::Post, Some(&gone), begun, begun);
        assert!(!state.is_outage());
        // While a poll is held, others find out.
        for second in 1..=5 {
            let now = begun + Duration::from_secs(second);
            assert!(state.find_held_error(BackendFunction::Post, now).is_none());
            state.record_call(BackendFunction::Post, Some(&gone), now, now);
            let at_once = state.find_held_error(BackendFunction::Claim, now);
            assert_eq!(at_once.is_some(), state.is_outage());
        }
        let begun = begun + Duration::from_secs(5);
        state.record_call(BackendFunction::Poll, None, begun, begun);
        let mut made = Vec::new();
        for second in 1..=120 {
            let now = begun + Duration::from_secs(second);
            assert!(state.find_held_error(BackendFunction::Poll, now).is_none());
            state.record_call(BackendFunction::Poll, Some(&gone), now, now);
            for function in [BackendFunction::Claim, BackendFunction::Beat] {
                if state.find_held_error(function, now).is_none() {
                    state.record_call(function, Some(&gone), now, now);
                    made.push(second);
                }
            }
        }
        assert_eq!(made, [2, 4, 8, 16, 31, 46, 61, 76, 91, 106]);
        let now = begun + Duration::from_secs(121);
        state.record_call(BackendFunction::Beat, None, now, now);
        assert_eq!(
            state.worst_problem(),
            Some(ConnectionProblem::Intercepted),
            "the poll has not been answered"
        );
        state.record_call(BackendFunction::Poll, None, now, now);
        assert_eq!(state.worst_problem(), None);
        assert!(state.find_held_error(BackendFunction::Claim, now).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn while_the_device_is_barred_calls_of_before_do_not_end_the_refusal() {
        let mut state = state();
        let now = Instant::now();
        state.record_call(BackendFunction::OpenSession, Some(&refused()), now, now);
        state.barred = Some(HeldError {
            until: now + Duration::from_mins(3),
            error: refused(),
        });
        state.record_call(BackendFunction::Post, None, now, now);
        assert_eq!(state.worst_problem(), Some(ConnectionProblem::Refused));
        state.record_call(
            BackendFunction::Post,
            None,
            now,
            now + Duration::from_mins(4),
        );
        assert_eq!(state.worst_problem(), None);
    }
}
