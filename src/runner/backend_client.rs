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

use super::backoff::Budget;
use super::delivery::outbox::Outbox;
use crate::approval_answer::ApprovalOption;
use crate::backend::{
    Answer, Backend, BackendError, Beat, CatalogItem, CatalogKind, Claim, ConnectionProblem, Declined,
    Disposition, Offered, Page, Permissions, Posted, Question, Reply, ResultPost, Session, Told,
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
    budget: Arc<Budget>,
    /// Notified of every answer.
    outbox: Arc<Outbox>,
    /// The pause of all calls after the backend refused to open a session.
    barred_for: Duration,
    state: Mutex<State>,
    problem: watch::Sender<Option<ConnectionProblem>>,
}

#[derive(Default)]
struct State {
    /// Functions that the backend asked not to call for a while.
    quiet: BTreeMap<BackendFunction, Held>,
    /// The refusal of this device.
    barred: Option<Held>,
    /// The current problems, by function.
    problems: BTreeMap<BackendFunction, ConnectionProblem>,
    /// The time of the last answer.
    answered: Option<Instant>,
}

/// An error that stays in force for a while.
#[derive(Clone)]
struct Held {
    until: Instant,
    error: BackendError,
}

impl Held {
    /// Returns the error while it is in force; a wait that the backend asked for is reduced to the remaining time.
    fn standing(&self, now: Instant) -> Option<BackendError> {
        let left = self.until.checked_duration_since(now).filter(|left| !left.is_zero())?;
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
        budget: Arc<Budget>,
        outbox: Arc<Outbox>,
        barred_for: Duration,
    ) -> Self {
        Self {
            backend,
            budget,
            outbox,
            barred_for,
            state: Mutex::default(),
            problem: watch::Sender::default(),
        }
    }

    /// Pauses all calls for a while, because the backend refused this device.
    pub(super) fn bar(&self, error: &BackendError) {
        let held = Held { until: Instant::now() + self.barred_for, error: error.clone() };
        self.state().barred = Some(held);
    }

    /// Returns the refusal of this device that is in force now.
    pub(super) fn barred(&self) -> Option<BackendError> {
        self.state().barred.as_ref()?.standing(Instant::now())
    }

    /// Returns a receiver of the current connection problem.
    pub(super) fn subscribe_problem(&self) -> watch::Receiver<Option<ConnectionProblem>> {
        self.problem.subscribe()
    }

    /// Returns the current connection problem; `None` while all calls succeed.
    pub(super) fn problem(&self) -> Option<ConnectionProblem> {
        *self.problem.borrow()
    }

    /// Returns whether any call was answered since this moment.
    pub(super) fn has_answered_since(&self, moment: Instant) -> bool {
        self.state().answered.is_some_and(|answered| answered >= moment)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a call unless it has to wait; then it returns the error without calling the backend.
    async fn made<T>(&self, function: BackendFunction, call: Reply<'_, T>) -> Result<T, BackendError> {
        if let Some(error) = self.must_wait(function) {
            return Err(error);
        }
        let answered = call.await;
        self.heard(function, answered.as_ref().err());
        answered
    }

    fn must_wait(&self, function: BackendFunction) -> Option<BackendError> {
        let (state, now) = (self.state(), Instant::now());
        state.barred.iter().chain(state.quiet.get(&function)).find_map(|held| held.standing(now))
    }

    fn heard(&self, function: BackendFunction, error: Option<&BackendError>) {
        let mut state = self.state();
        let answer = state.record(function, error, Instant::now());
        let problem = state.worst_problem();
        drop(state);
        if let Some(answer) = answer {
            self.budget.earn();
            self.outbox.backend_answered(answer == Answered::WithSession);
        }
        self.problem.send_if_modified(|now| std::mem::replace(now, problem) != problem);
    }
}

/// The kind of a call that the backend answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answered {
    /// The call needs an open session.
    WithSession,
    /// A heartbeat, which is signed by itself.
    Signed,
}

impl State {
    /// Records how a call ended, and returns how the backend answered it, if it did.
    fn record(
        &mut self,
        function: BackendFunction,
        error: Option<&BackendError>,
        now: Instant,
    ) -> Option<Answered> {
        // A refusal of one request is an answer like any other.
        let is_answer = |error: &BackendError| {
            matches!(error, BackendError::Refused(_))
                && function != BackendFunction::OpenSession
                && error.disposition() != Disposition::Reopen
        };
        if let Some(error) = error.filter(|error| !is_answer(error)) {
            if let BackendError::Busy { retry_after: Some(time), .. } = error {
                let held = Held { until: now + *time, error: error.clone() };
                self.quiet.insert(function, held);
            }
            // An error of a rarely called function says nothing about the connection now.
            if !function.is_rare() {
                self.problems.insert(function, error.problem());
            }
            return None;
        }
        self.answered = Some(now);
        self.problems.remove(&function);
        let answered =
            if function == BackendFunction::Beat { Answered::Signed } else { Answered::WithSession };
        // A call that was started before the refusal proves nothing; one started since does.
        if self.barred.as_ref().is_none_or(|held| held.standing(now).is_none()) {
            self.barred = None;
            self.problems.remove(&BackendFunction::OpenSession);
            // A call that was refused before the session was reopened may be repeated only much later.
            if answered == Answered::WithSession {
                self.problems.retain(|_, problem| *problem != ConnectionProblem::Refused);
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
    fn open_session(&self) -> Reply<'_, Session> {
        Box::pin(self.made(BackendFunction::OpenSession, self.backend.open_session()))
    }

    fn poll<'a>(&'a self, cursor: Option<&'a str>, limit: u32, wait: Duration) -> Reply<'a, Page> {
        Box::pin(self.made(BackendFunction::Poll, self.backend.poll(cursor, limit, wait)))
    }

    fn list_open(&self) -> Reply<'_, Vec<Offered>> {
        Box::pin(self.made(BackendFunction::ListOpen, self.backend.list_open()))
    }

    fn fetch_open<'a>(&'a self, ids: &'a [RequestId]) -> Reply<'a, Vec<Offered>> {
        Box::pin(self.made(BackendFunction::FetchOpen, self.backend.fetch_open(ids)))
    }

    fn claim<'a>(&'a self, id: &'a RequestId, lease: &'a LeaseId) -> Reply<'a, Claim> {
        Box::pin(self.made(BackendFunction::Claim, self.backend.claim(id, lease)))
    }

    fn tell<'a>(&'a self, id: &'a RequestId, lease: &'a LeaseId, n: u64, data: &'a str) -> Reply<'a, Told> {
        Box::pin(self.made(BackendFunction::Tell, self.backend.tell(id, lease, n, data)))
    }

    fn post<'a>(&'a self, result: ResultPost<'a>) -> Reply<'a, Posted> {
        Box::pin(self.made(BackendFunction::Post, self.backend.post(result)))
    }

    fn beat(&self, online: bool, every: Duration, health: Value) -> Reply<'_, Beat> {
        Box::pin(self.made(BackendFunction::Beat, self.backend.beat(online, every, health)))
    }

    fn publish<'a>(&'a self, kind: CatalogKind, revision: u64, items: &'a [CatalogItem]) -> Reply<'a, ()> {
        Box::pin(self.made(BackendFunction::Publish, self.backend.publish(kind, revision, items)))
    }

    fn decline<'a>(&'a self, id: &'a RequestId, why: Declined) -> Reply<'a, ()> {
        Box::pin(self.made(BackendFunction::Decline, self.backend.decline(id, why)))
    }

    /// Wakeups are not counted among the calls: without them everything works, only slower.
    fn wakeups<'a>(&'a self, heard: &'a (dyn Fn() + Send + Sync)) -> Reply<'a, Infallible> {
        match self.barred() {
            Some(error) => Box::pin(std::future::ready(Err(error))),
            None => self.backend.wakeups(heard),
        }
    }

    fn link(&self) -> Option<watch::Receiver<bool>> {
        self.backend.link()
    }

    fn dated_offset_ms(&self) -> Option<i64> {
        self.backend.dated_offset_ms()
    }

    fn permissions(&self) -> Option<&dyn Permissions> {
        self.backend.permissions().map(|_| self as &dyn Permissions)
    }

    fn refresh_connections(&self) {
        self.backend.refresh_connections();
    }
}

impl BackendClient {
    /// Calls the backend's approval functions; returns `None` if it has none.
    async fn put<'a>(
        &'a self,
        function: BackendFunction,
        call: impl FnOnce(&'a dyn Permissions) -> Reply<'a, Option<Answer>>,
    ) -> Result<Option<Answer>, BackendError> {
        match self.backend.permissions() {
            Some(permissions) => self.made(function, call(permissions)).await,
            None => Ok(None),
        }
    }
}

impl Permissions for BackendClient {
    fn ask<'a>(&'a self, question: &'a Question) -> Reply<'a, Option<Answer>> {
        Box::pin(self.put(BackendFunction::Ask, move |there| there.ask(question)))
    }

    fn answer_to<'a>(&'a self, id: &'a RequestId, wait: Duration) -> Reply<'a, Option<Answer>> {
        Box::pin(self.put(BackendFunction::AnswerTo, move |there| there.answer_to(id, wait)))
    }

    fn answer<'a>(&'a self, id: &'a RequestId, option: ApprovalOption) -> Reply<'a, Option<Answer>> {
        Box::pin(self.put(BackendFunction::Answer, move |there| there.answer(id, option)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> BackendError {
        BackendError::Unauthorized { code: String::new() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_over_once_a_call_with_the_new_session_is_answered() {
        let (mut state, now) = (State::default(), Instant::now());
        state.record(BackendFunction::Poll, Some(&refused()), now);
        assert_eq!(state.worst_problem(), Some(ConnectionProblem::Refused));
        // It needs no session.
        assert_eq!(state.record(BackendFunction::Beat, None, now), Some(Answered::Signed));
        assert_eq!(state.worst_problem(), Some(ConnectionProblem::Refused));
        // The current poll is held by the backend and shows nothing for half a minute.
        assert_eq!(state.record(BackendFunction::OpenSession, None, now), Some(Answered::WithSession));
        assert_eq!(state.worst_problem(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn while_the_device_is_barred_calls_of_before_do_not_end_the_refusal() {
        let (mut state, now) = (State::default(), Instant::now());
        state.record(BackendFunction::OpenSession, Some(&refused()), now);
        state.barred = Some(Held { until: now + Duration::from_mins(3), error: refused() });
        state.record(BackendFunction::Post, None, now);
        assert_eq!(state.worst_problem(), Some(ConnectionProblem::Refused));
        state.record(BackendFunction::Post, None, now + Duration::from_mins(4));
        assert_eq!(state.worst_problem(), None);
    }
}
