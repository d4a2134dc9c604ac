//! The backend client that all calls of the runner share. It keeps the pauses that the backend asked for, and records
//! the results of the calls for `status`. Not here: the content of a call (backend), and the retries of a failed one
//! (its caller, with `backoff`).

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use super::backoff::RetryBudget;
use super::delivery::outbox::Outbox;
use crate::approval_answer::ApprovalOption;
use crate::backend::{
    Backend, BackendError, BackendReply, BackendSession, CatalogEntry, CatalogKind, ClaimReply,
    ConnectionProblem, DeclineReason, EventPage, HeartbeatReply, OfferedEvent, PostOutcome,
    ProgressReply, RecoveryAction, RemoteAnswer, RemoteApprovals, RemoteQuestion, ResultPost,
};
use crate::ids::{LeaseId, RequestId};

/// A function of the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum BackendFunction {
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

/// A backend that is called no sooner than it allows.
pub(super) struct BackendClient {
    backend: Arc<dyn Backend>,
    budget: Arc<RetryBudget>,
    /// Notified of every answer.
    outbox: Arc<Outbox>,
    /// The pause of all calls after the backend refused to open a session.
    refusal_pause: Duration,
    state: Mutex<BackendClientState>,
    problem: watch::Sender<Option<ConnectionProblem>>,
}

#[derive(Default)]
struct BackendClientState {
    /// Functions that the backend asked not to call for a while.
    paused_functions: BTreeMap<BackendFunction, HeldError>,
    /// The refusal of this device.
    barred: Option<HeldError>,
    /// The current problems, by function.
    problems: BTreeMap<BackendFunction, ConnectionProblem>,
    /// The time of the last answer.
    answered: Option<Instant>,
}

/// An error that stays in force for a while.
#[derive(Clone)]
struct HeldError {
    until: Instant,
    error: BackendError,
}

impl HeldError {
    /// Returns the error while it is in force; a wait that the backend asked for is reduced to the remaining time.
    fn remaining_error(&self, now: Instant) -> Option<BackendError> {
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

impl BackendClient {
    pub(super) fn new(
        backend: Arc<dyn Backend>,
        budget: Arc<RetryBudget>,
        outbox: Arc<Outbox>,
        refusal_pause: Duration,
    ) -> Self {
        Self {
            backend,
            budget,
            outbox,
            refusal_pause,
            state: Mutex::default(),
            problem: watch::Sender::default(),
        }
    }

    /// Pauses all calls for a while, because the backend refused this device.
    pub(super) fn pause_refused_device(&self, error: &BackendError) {
        let held = HeldError {
            until: Instant::now() + self.refusal_pause,
            error: error.clone(),
        };
        self.lock_client_state().barred = Some(held);
    }

    /// Returns the refusal of this device that is in force now.
    pub(super) fn active_refusal(&self) -> Option<BackendError> {
        self.lock_client_state()
            .barred
            .as_ref()?
            .remaining_error(Instant::now())
    }

    /// Returns a receiver of the current connection problem.
    pub(super) fn subscribe_problem(&self) -> watch::Receiver<Option<ConnectionProblem>> {
        self.problem.subscribe()
    }

    /// Returns the current connection problem; `None` while all calls succeed.
    pub(super) fn current_problem(&self) -> Option<ConnectionProblem> {
        *self.problem.borrow()
    }

    /// Returns whether any call was answered since this moment.
    pub(super) fn has_answered_since(&self, moment: Instant) -> bool {
        self.lock_client_state()
            .answered
            .is_some_and(|answered| answered >= moment)
    }

    fn lock_client_state(&self) -> MutexGuard<'_, BackendClientState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a call unless it has to wait; then it returns the error without calling the backend.
    async fn call_backend<T>(
        &self,
        function: BackendFunction,
        call: BackendReply<'_, T>,
    ) -> Result<T, BackendError> {
        if let Some(error) = self.find_held_error(function) {
            return Err(error);
        }
        let answered = call.await;
        self.record_answer(function, answered.as_ref().err());
        answered
    }

    fn find_held_error(&self, function: BackendFunction) -> Option<BackendError> {
        let (state, now) = (self.lock_client_state(), Instant::now());
        state
            .barred
            .iter()
            .chain(state.paused_functions.get(&function))
            .find_map(|held| held.remaining_error(now))
    }

    fn record_answer(&self, function: BackendFunction, error: Option<&BackendError>) {
        let mut state = self.lock_client_state();
        let answer = state.record_call(function, error, Instant::now());
        let problem = state.worst_problem();
        drop(state);
        if let Some(answer) = answer {
            self.budget.record_success();
            self.outbox
                .record_backend_answer(answer == AnswerKind::WithSession);
        }
        self.problem
            .send_if_modified(|now| std::mem::replace(now, problem) != problem);
    }
}

/// The kind of a call that the backend answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnswerKind {
    /// The call needs an open session.
    WithSession,
    /// A heartbeat, which is signed by itself.
    Signed,
}

impl BackendClientState {
    /// Records how a call ended, and returns how the backend answered it, if it did.
    fn record_call(
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

    /// The problem that matters most to a person; `None` while all calls come through.
    fn worst_problem(&self) -> Option<ConnectionProblem> {
        self.problems.values().min().copied()
    }
}

impl Backend for BackendClient {
    fn open_session(&self) -> BackendReply<'_, BackendSession> {
        Box::pin(self.call_backend(BackendFunction::OpenSession, self.backend.open_session()))
    }

    fn poll_events<'a>(
        &'a self,
        cursor: Option<&'a str>,
        limit: u32,
        wait: Duration,
    ) -> BackendReply<'a, EventPage> {
        Box::pin(self.call_backend(
            BackendFunction::Poll,
            self.backend.poll_events(cursor, limit, wait),
        ))
    }

    fn list_open_requests(&self) -> BackendReply<'_, Vec<OfferedEvent>> {
        Box::pin(self.call_backend(BackendFunction::ListOpen, self.backend.list_open_requests()))
    }

    fn fetch_open_requests<'a>(
        &'a self,
        ids: &'a [RequestId],
    ) -> BackendReply<'a, Vec<OfferedEvent>> {
        Box::pin(self.call_backend(
            BackendFunction::FetchOpen,
            self.backend.fetch_open_requests(ids),
        ))
    }

    fn claim_request<'a>(
        &'a self,
        id: &'a RequestId,
        lease: &'a LeaseId,
    ) -> BackendReply<'a, ClaimReply> {
        Box::pin(self.call_backend(
            BackendFunction::Claim,
            self.backend.claim_request(id, lease),
        ))
    }

    fn send_progress<'a>(
        &'a self,
        id: &'a RequestId,
        lease: &'a LeaseId,
        n: u64,
        data: &'a str,
    ) -> BackendReply<'a, ProgressReply> {
        Box::pin(self.call_backend(
            BackendFunction::Tell,
            self.backend.send_progress(id, lease, n, data),
        ))
    }

    fn post_result<'a>(&'a self, result: ResultPost<'a>) -> BackendReply<'a, PostOutcome> {
        Box::pin(self.call_backend(BackendFunction::Post, self.backend.post_result(result)))
    }

    fn send_heartbeat(
        &self,
        online: bool,
        every: Duration,
        health: Value,
    ) -> BackendReply<'_, HeartbeatReply> {
        Box::pin(self.call_backend(
            BackendFunction::Beat,
            self.backend.send_heartbeat(online, every, health),
        ))
    }

    fn publish_catalog<'a>(
        &'a self,
        kind: CatalogKind,
        revision: u64,
        items: &'a [CatalogEntry],
    ) -> BackendReply<'a, ()> {
        Box::pin(self.call_backend(
            BackendFunction::Publish,
            self.backend.publish_catalog(kind, revision, items),
        ))
    }

    fn decline_request<'a>(
        &'a self,
        id: &'a RequestId,
        why: DeclineReason,
    ) -> BackendReply<'a, ()> {
        Box::pin(self.call_backend(
            BackendFunction::Decline,
            self.backend.decline_request(id, why),
        ))
    }

    /// Wakeups are not counted among the calls: without them everything works, only slower.
    fn listen_for_wakeups<'a>(
        &'a self,
        heard: &'a (dyn Fn() + Send + Sync),
    ) -> BackendReply<'a, Infallible> {
        match self.active_refusal() {
            Some(error) => Box::pin(std::future::ready(Err(error))),
            None => self.backend.listen_for_wakeups(heard),
        }
    }

    fn connection_status(&self) -> Option<watch::Receiver<bool>> {
        self.backend.connection_status()
    }

    fn clock_offset_ms(&self) -> Option<i64> {
        self.backend.clock_offset_ms()
    }

    fn remote_approvals(&self) -> Option<&dyn RemoteApprovals> {
        self.backend
            .remote_approvals()
            .map(|_| self as &dyn RemoteApprovals)
    }

    fn refresh_connections(&self) {
        self.backend.refresh_connections();
    }
}

impl BackendClient {
    /// Calls the backend's approval functions; returns `None` if it has none.
    async fn call_permissions<'a>(
        &'a self,
        function: BackendFunction,
        call: impl FnOnce(&'a dyn RemoteApprovals) -> BackendReply<'a, Option<RemoteAnswer>>,
    ) -> Result<Option<RemoteAnswer>, BackendError> {
        match self.backend.remote_approvals() {
            Some(permissions) => self.call_backend(function, call(permissions)).await,
            None => Ok(None),
        }
    }
}

impl RemoteApprovals for BackendClient {
    fn ask_caller<'a>(
        &'a self,
        question: &'a RemoteQuestion,
    ) -> BackendReply<'a, Option<RemoteAnswer>> {
        Box::pin(self.call_permissions(BackendFunction::Ask, move |there| {
            there.ask_caller(question)
        }))
    }

    fn fetch_answer<'a>(
        &'a self,
        id: &'a RequestId,
        wait: Duration,
    ) -> BackendReply<'a, Option<RemoteAnswer>> {
        Box::pin(
            self.call_permissions(BackendFunction::AnswerTo, move |there| {
                there.fetch_answer(id, wait)
            }),
        )
    }

    fn submit_answer<'a>(
        &'a self,
        id: &'a RequestId,
        option: ApprovalOption,
    ) -> BackendReply<'a, Option<RemoteAnswer>> {
        Box::pin(
            self.call_permissions(BackendFunction::Answer, move |there| {
                there.submit_answer(id, option)
            }),
        )
    }
}

#[cfg(test)]
mod tests {
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
