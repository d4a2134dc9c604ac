//! The backend client that all calls of the runner share. It keeps the pauses that the backend asked for, and records
//! the results of the calls for `status`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::backend_call_state::{AnswerKind, BackendClientState, BackendFunction, HeldError};
use super::backoff::RetryBudget;
use super::delivery::outbox::Outbox;
use crate::backend::{
    Backend, BackendError, BackendReply, BackendSession, CatalogEntry, CatalogKind, ClaimReply,
    ConnectionProblem, DeclineReason, EventPage, HeartbeatReply, OfferedEvent, PostOutcome,
    ProgressReply, RemoteAnswer, RemoteApprovals, RemoteQuestion, ResultPost, StoredQuestion,
};
use punie_core::approval_answer::ApprovalOption;
use punie_core::ids::{LeaseId, RequestId};

/// A backend that is called no sooner than it allows.
pub(super) struct BackendClient {
    backend: Arc<dyn Backend>,
    budget: Arc<RetryBudget>,
    /// Notified of every answer.
    outbox: Arc<Outbox>,
    /// The pause of all calls after the backend refused to open a session.
    refusal_pause: Duration,
    /// Cancelled once the backend accepts this device.
    connected: CancellationToken,
    state: Mutex<BackendClientState>,
    problem: watch::Sender<Option<ConnectionProblem>>,
    /// Notified of every contact but polls and heartbeats, whose times are stored by themselves.
    contact: watch::Sender<()>,
    outage_end: Notify,
}

impl BackendClient {
    pub(super) fn new(
        backend: Arc<dyn Backend>,
        budget: Arc<RetryBudget>,
        outbox: Arc<Outbox>,
        refusal_pause: Duration,
        retry: (Duration, Duration),
        connected: CancellationToken,
    ) -> Self {
        Self {
            backend,
            budget,
            outbox,
            refusal_pause,
            connected,
            state: Mutex::new(BackendClientState::new(retry)),
            problem: watch::Sender::default(),
            contact: watch::Sender::default(),
            outage_end: Notify::new(),
        }
    }

    /// Waits before a call is repeated: this long, or until an outage ends.
    pub(super) async fn wait_to_retry(&self, wait: Duration) {
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = self.outage_end.notified() => {}
        }
    }

    /// Pauses all calls for a while, because the backend refused this device.
    pub(super) fn pause_refused_device(&self, error: &BackendError) {
        let held = HeldError {
            until: Instant::now() + self.refusal_pause,
            error: error.clone(),
        };
        self.state.lock().barred = Some(held);
    }

    /// Returns the refusal of this device that is in force now.
    pub(super) fn active_refusal(&self) -> Option<BackendError> {
        self.state.lock().barred.as_ref()?.remaining(Instant::now())
    }

    /// Returns a receiver of the current connection problem.
    pub(super) fn subscribe_problem(&self) -> watch::Receiver<Option<ConnectionProblem>> {
        self.problem.subscribe()
    }

    /// Returns the current connection problem; `None` while all calls succeed.
    pub(super) fn current_problem(&self) -> Option<ConnectionProblem> {
        *self.problem.borrow()
    }

    /// Returns a receiver of contacts with the backend other than polls and heartbeats.
    pub(super) fn subscribe_contacts(&self) -> watch::Receiver<()> {
        self.contact.subscribe()
    }

    pub(super) fn announce_contact(&self) {
        self.contact.send_replace(());
    }

    /// Returns whether any call was answered since this moment.
    pub(super) fn has_answered_since(&self, moment: Instant) -> bool {
        self.state
            .lock()
            .answered
            .is_some_and(|answered| answered >= moment)
    }

    /// Makes a call unless it has to wait; then it returns the error without calling the backend.
    fn call<'a, T: 'a>(
        &'a self,
        function: BackendFunction,
        call: BackendReply<'a, T>,
    ) -> BackendReply<'a, T> {
        Box::pin(async move {
            let began = Instant::now();
            let held = self.state.lock().find_held_error(function, began);
            if let Some(error) = held {
                return Err(error);
            }
            let answered = call.await;
            self.record_answer(function, answered.as_ref().err(), began);
            answered
        })
    }

    fn record_answer(
        &self,
        function: BackendFunction,
        error: Option<&BackendError>,
        began: Instant,
    ) {
        let mut state = self.state.lock();
        let was_outage = state.is_outage();
        let answer = state.record_call(function, error, began, Instant::now());
        let problem = state.worst_problem();
        let is_over = was_outage && !state.is_outage();
        drop(state);
        if is_over {
            self.outage_end.notify_waiters();
        }
        if let Some(answer) = answer {
            self.budget.record_success();
            if !matches!(function, BackendFunction::Poll | BackendFunction::Beat) {
                self.announce_contact();
            }
            let has_session = answer == AnswerKind::WithSession;
            if has_session {
                self.connected.cancel();
            }
            self.outbox.record_backend_answer(has_session);
        }
        self.problem
            .send_if_modified(|now| std::mem::replace(now, problem) != problem);
    }
}

impl Backend for BackendClient {
    fn open_session(&self) -> BackendReply<'_, BackendSession> {
        self.call(BackendFunction::OpenSession, self.backend.open_session())
    }

    fn poll_events<'a>(
        &'a self,
        cursor: Option<&'a str>,
        limit: u32,
        wait: Duration,
    ) -> BackendReply<'a, EventPage> {
        self.call(
            BackendFunction::Poll,
            self.backend.poll_events(cursor, limit, wait),
        )
    }

    fn list_open_requests(&self) -> BackendReply<'_, Vec<OfferedEvent>> {
        self.call(BackendFunction::ListOpen, self.backend.list_open_requests())
    }

    fn fetch_open_requests<'a>(
        &'a self,
        ids: &'a [RequestId],
    ) -> BackendReply<'a, Vec<OfferedEvent>> {
        self.call(
            BackendFunction::FetchOpen,
            self.backend.fetch_open_requests(ids),
        )
    }

    fn claim_request<'a>(
        &'a self,
        id: &'a RequestId,
        lease: &'a LeaseId,
    ) -> BackendReply<'a, ClaimReply> {
        self.call(
            BackendFunction::Claim,
            self.backend.claim_request(id, lease),
        )
    }

    fn send_progress<'a>(
        &'a self,
        id: &'a RequestId,
        lease: &'a LeaseId,
        n: u64,
        data: &'a str,
    ) -> BackendReply<'a, ProgressReply> {
        self.call(
            BackendFunction::Tell,
            self.backend.send_progress(id, lease, n, data),
        )
    }

    fn post_result<'a>(&'a self, result: ResultPost<'a>) -> BackendReply<'a, PostOutcome> {
        self.call(BackendFunction::Post, self.backend.post_result(result))
    }

    fn send_heartbeat(
        &self,
        online: bool,
        every: Duration,
        health: Value,
    ) -> BackendReply<'_, HeartbeatReply> {
        self.call(
            BackendFunction::Beat,
            self.backend.send_heartbeat(online, every, health),
        )
    }

    fn publish_catalog<'a>(
        &'a self,
        kind: CatalogKind,
        revision: u64,
        complete: bool,
        items: &'a [CatalogEntry],
    ) -> BackendReply<'a, ()> {
        self.call(
            BackendFunction::Publish,
            self.backend
                .publish_catalog(kind, revision, complete, items),
        )
    }

    fn decline_request<'a>(
        &'a self,
        id: &'a RequestId,
        why: DeclineReason,
    ) -> BackendReply<'a, ()> {
        self.call(
            BackendFunction::Decline,
            self.backend.decline_request(id, why),
        )
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
    fn call_permissions<'a, T: Default + Send + 'a>(
        &'a self,
        function: BackendFunction,
        call: impl FnOnce(&'a dyn RemoteApprovals) -> BackendReply<'a, T>,
    ) -> BackendReply<'a, T> {
        match self.backend.remote_approvals() {
            Some(permissions) => self.call(function, call(permissions)),
            None => Box::pin(std::future::ready(Ok(T::default()))),
        }
    }
}

impl RemoteApprovals for BackendClient {
    fn ask_caller<'a>(&'a self, question: &'a RemoteQuestion) -> BackendReply<'a, StoredQuestion> {
        self.call_permissions(BackendFunction::Ask, move |there| {
            there.ask_caller(question)
        })
    }

    fn fetch_answer<'a>(
        &'a self,
        id: &'a RequestId,
        wait: Duration,
    ) -> BackendReply<'a, Option<RemoteAnswer>> {
        self.call_permissions(BackendFunction::AnswerTo, move |there| {
            there.fetch_answer(id, wait)
        })
    }

    fn submit_answer<'a>(
        &'a self,
        id: &'a RequestId,
        option: ApprovalOption,
        text: Option<&'a str>,
    ) -> BackendReply<'a, Option<RemoteAnswer>> {
        self.call_permissions(BackendFunction::Answer, move |there| {
            there.submit_answer(id, option, text)
        })
    }
}
