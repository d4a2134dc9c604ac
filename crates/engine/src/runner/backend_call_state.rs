//! The state of the calls to the backend: the pauses that it asked for, and the current problems. This file makes no
//! calls. Not here: the calls (`backend_client`).

use std::collections::BTreeMap;

use tokio::time::Instant;

use crate::backend::{BackendError, ConnectionProblem, RecoveryAction};

/// A function of the backend.
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

/// The pauses and the problems of all functions.
#[derive(Default)]
pub(super) struct BackendClientState {
    /// Functions that the backend asked not to call for a while.
    paused_functions: BTreeMap<BackendFunction, HeldError>,
    /// The refusal of this device.
    pub barred: Option<HeldError>,
    /// The current problems, by function.
    problems: BTreeMap<BackendFunction, ConnectionProblem>,
    /// The time of the last answer.
    pub answered: Option<Instant>,
}

/// An error that stays in force for a while.
#[derive(Clone)]
pub(super) struct HeldError {
    pub until: Instant,
    pub error: BackendError,
}

impl HeldError {
    /// Returns the error while it is in force; a wait that the backend asked for is reduced to the remaining time.
    pub fn remaining_error(&self, now: Instant) -> Option<BackendError> {
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
    /// Records how a call ended, and returns how the backend answered it, if it did.
    pub fn record_call(
        &mut self,
        function: BackendFunction,
        error: Option<&BackendError>,
        now: Instant,
    ) -> Option<AnswerKind> {
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
        let answered = if function == BackendFunction::Beat {
            AnswerKind::Signed
        } else {
            AnswerKind::WithSession
        };
        // A call that was started before the refusal proves nothing; one started since does.
        if self
            .barred
            .as_ref()
            .is_none_or(|held| held.remaining_error(now).is_none())
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
    pub fn find_held_error(&self, function: BackendFunction, now: Instant) -> Option<BackendError> {
        self.barred
            .iter()
            .chain(self.paused_functions.get(&function))
            .find_map(|held| held.remaining_error(now))
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

    fn refused() -> BackendError {
        BackendError::Unauthorized {
            code: String::new(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_over_once_a_call_with_the_new_session_is_answered() {
        let (mut state, now) = (BackendClientState::default(), Instant::now());
        state.record_call(BackendFunction::Poll, Some(&refused()), now);
        assert_eq!(state.worst_problem(), Some(ConnectionProblem::Refused));
        // It needs no session.
        assert_eq!(
            state.record_call(BackendFunction::Beat, None, now),
            Some(AnswerKind::Signed)
        );
        assert_eq!(state.worst_problem(), Some(ConnectionProblem::Refused));
        // The current poll is held by the backend and shows nothing for half a minute.
        assert_eq!(
            state.record_call(BackendFunction::OpenSession, None, now),
            Some(AnswerKind::WithSession)
        );
        assert_eq!(state.worst_problem(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn while_the_device_is_barred_calls_of_before_do_not_end_the_refusal() {
        let (mut state, now) = (BackendClientState::default(), Instant::now());
        state.record_call(BackendFunction::OpenSession, Some(&refused()), now);
        state.barred = Some(HeldError {
            until: now + Duration::from_mins(3),
            error: refused(),
        });
        state.record_call(BackendFunction::Post, None, now);
        assert_eq!(state.worst_problem(), Some(ConnectionProblem::Refused));
        state.record_call(BackendFunction::Post, None, now + Duration::from_mins(4));
        assert_eq!(state.worst_problem(), None);
    }
}
