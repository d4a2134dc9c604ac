//! The list of everything open at the backend, which shows requests that a page missed. First the ids are requested,
//! then the bodies of those that the journal does not know, a page at a time.

use std::sync::Arc;

use tokio_util::task::AbortOnDropHandle;

use super::{Intake, RunMode, check_permanent_failure};
use crate::backend::{Backend as _, BackendError, OfferedEvent, RecoveryAction};
use crate::journal::OfferOutcome;
use crate::runner::backoff::RetryIntervals;
use crate::runner::error::RunnerError;
use crate::runner::wake_event::WakeEvent;
use punie_core::ids::RequestId;

/// The number of bodies requested at once.
const BODIES_PER_FETCH: usize = 64;

/// The state of the list of everything open at the backend.
pub(super) struct OpenRequests {
    /// Requests that the journal does not know, whose bodies must still be fetched.
    unknown: Vec<RequestId>,
    is_listed: bool,
    retry: RetryIntervals,
    /// The wait for the next list after a failed one. There is only one such wait, however many lists fail.
    next_listing: Option<AbortOnDropHandle<()>>,
}

impl OpenRequests {
    pub(super) fn new(retry: RetryIntervals) -> Self {
        Self {
            unknown: Vec::new(),
            is_listed: false,
            retry,
            next_listing: None,
        }
    }

    /// Returns whether everything open was listed, or the listing failed.
    pub(super) fn is_listed(&self) -> bool {
        self.is_listed
    }
}

impl Intake {
    /// Requests the ids; the answer wakes the loop.
    pub fn request_open_list(&self) {
        let handles = Arc::clone(&self.handles);
        self.handles.background.spawn(async move {
            let sessions = Arc::clone(&handles.sessions);
            let list = async move {
                sessions
                    .with_session(|| sessions.backend_client().list_open_requests())
                    .await
            };
            tokio::select! {
                open = handles.background.call_in_task(list) => {
                    handles.waker.wake(WakeEvent::OpenListed(open));
                }
                () = handles.phases.stopping.cancelled() => {}
            }
        });
    }

    /// Accepts a list of ids, or a page of bodies, into the journal; returns its decisions.
    pub async fn accept_open_page(
        &mut self,
        open: Vec<OfferedEvent>,
    ) -> Result<Option<Vec<OfferOutcome>>, RunnerError> {
        self.open.retry.reset();
        self.open.next_listing = None;
        match self.admissions.admit_page(open, None).await {
            Ok(admitted) => Ok(Some(admitted)),
            Err(error) => {
                self.open.unknown.clear();
                self.open.is_listed = true;
                self.handle_unaccepted_page(error).map(|()| None)
            }
        }
    }

    /// Adds open requests whose bodies must still be fetched.
    pub fn add_unknown(&mut self, ids: Vec<RequestId>) {
        self.open.unknown.extend(ids);
    }

    /// Requests the next page of bodies, if one is needed.
    pub fn fetch_next_unknown(&mut self) {
        self.open.is_listed = self.open.unknown.is_empty();
        if !self.open.is_listed {
            self.fetch_open_bodies();
        }
    }

    /// Requests the bodies of requests that the journal does not know. Missing ones are no longer open; one that does
    /// not fit into the answer is requested again.
    fn fetch_open_bodies(&mut self) {
        let rest = self
            .open
            .unknown
            .split_off(self.open.unknown.len().min(BODIES_PER_FETCH));
        let ids = std::mem::replace(&mut self.open.unknown, rest);
        let handles = Arc::clone(&self.handles);
        self.handles.background.spawn(async move {
            let sessions = Arc::clone(&handles.sessions);
            let fetch = async move {
                let mut open = sessions
                    .with_session(|| sessions.backend_client().fetch_open_requests(&ids))
                    .await?;
                // The first body always fits, so this ends.
                let came: Vec<_> = open.iter().filter_map(offered_id).cloned().collect();
                if let Some(last) = came
                    .last()
                    .and_then(|last| ids.iter().position(|id| id == last))
                {
                    open.extend(ids[last + 1..].iter().map(|id| OfferedEvent::Open {
                        id: id.clone(),
                        cancelled: false,
                    }));
                }
                Ok(open)
            };
            tokio::select! {
                open = handles.background.call_in_task(fetch) => {
                    handles.waker.wake(WakeEvent::OpenListed(open));
                }
                () = handles.phases.stopping.cancelled() => {}
            }
        });
    }

    pub fn handle_list_failure(&mut self, error: &BackendError) -> Result<(), RunnerError> {
        // An error that ends the runner is reported then, and an outage by the poll.
        if error.recovery_action() != RecoveryAction::GiveUp && !error.is_unreachable() {
            tracing::warn!(%error, "the open requests could not be listed now");
        }
        self.open.is_listed = true;
        self.open.unknown.clear();
        // Any other failure can wait for the next regular list; a list that is too long stays so for a while.
        let is_long = matches!(error, BackendError::Oversized { .. });
        if let (RunMode::UntilStopped, false, RecoveryAction::Retry(pause)) =
            (self.mode, is_long, error.recovery_action())
        {
            let wait = self.open.retry.delay_after(pause);
            let handles = Arc::clone(&self.handles);
            let next_look = self.handles.background.spawn(async move {
                tokio::select! {
                    () = tokio::time::sleep(wait) => handles.waker.wake(WakeEvent::ListOpenDue),
                    () = handles.phases.stopping.cancelled() => {}
                }
            });
            self.open.next_listing = Some(AbortOnDropHandle::new(next_look));
        }
        check_permanent_failure(error)
    }
}

fn offered_id(offered: &OfferedEvent) -> Option<&RequestId> {
    match offered {
        OfferedEvent::Request(request) | OfferedEvent::Unreadable { request, .. } => {
            Some(&request.id)
        }
        _ => None,
    }
}
