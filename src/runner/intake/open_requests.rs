//! The list of everything open at the backend, which shows requests that a page missed. First the ids are requested,
//! then the bodies of those that the journal does not know, a page at a time.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::AbortOnDropHandle;

use super::{Intake, Mode, failed_for_good};
use crate::backend::{Backend as _, BackendError, Disposition, Offered};
use crate::ids::RequestId;
use crate::journal::Admission;
use crate::runner::backoff::{Budget, Retry};
use crate::runner::error::RunnerError;
use crate::runner::wake::Wake;

/// The number of bodies requested at once.
const BODIES: usize = 64;

/// The state of the list of everything open at the backend.
pub(super) struct OpenRequests {
    /// Requests that the journal does not know, whose bodies must still be fetched.
    unknown: Vec<RequestId>,
    is_listed: bool,
    retry: Retry,
    /// The wait for the next list after a failed one. There is only one such wait, however many lists fail.
    next_look: Option<AbortOnDropHandle<()>>,
}

impl OpenRequests {
    pub(super) fn new(retry: (Duration, Duration), budget: &Arc<Budget>) -> Self {
        let retry = Retry::new(retry).within(budget);
        Self { unknown: Vec::new(), is_listed: false, retry, next_look: None }
    }

    /// Returns whether everything open was listed, or the listing failed.
    pub(super) fn is_listed(&self) -> bool {
        self.is_listed
    }
}

impl Intake {
    /// Requests the ids; the answer wakes the loop.
    pub(in crate::runner) fn list_open(&self) {
        let (sessions, background, waker) =
            (Arc::clone(&self.sessions), self.background.clone(), self.waker.clone());
        self.background.spawn(async move {
            let list = async move { sessions.with_session(|| sessions.backend().list_open()).await };
            tokio::select! {
                open = background.call_apart(list) => waker.wake(Wake::OpenListed(open)),
                () = background.phases.stopping.cancelled() => {}
            }
        });
    }

    /// Accepts a list of ids, or a page of bodies, into the journal; returns its decisions.
    pub(in crate::runner) async fn take_open(
        &mut self,
        open: Vec<Offered>,
    ) -> Result<Option<Vec<Admission>>, RunnerError> {
        self.open.retry.reset();
        self.open.next_look = None;
        match self.admissions.admit(open, None).await {
            Ok(admitted) => Ok(Some(admitted)),
            Err(error) => {
                self.open.unknown.clear();
                self.open.is_listed = true;
                self.page_refused(error).map(|()| None)
            }
        }
    }

    /// Adds open requests whose bodies must still be fetched.
    pub(in crate::runner) fn add_unknown(&mut self, ids: Vec<RequestId>) {
        self.open.unknown.extend(ids);
    }

    /// Requests the next page of bodies, if one is needed.
    pub(in crate::runner) fn fetch_unknown(&mut self) {
        self.open.is_listed = self.open.unknown.is_empty();
        if !self.open.is_listed {
            self.fetch_open();
        }
    }

    /// Requests the bodies of requests that the journal does not know. Missing ones are no longer open; one that does
    /// not fit into the answer is requested again.
    fn fetch_open(&mut self) {
        let rest = self.open.unknown.split_off(self.open.unknown.len().min(BODIES));
        let ids = std::mem::replace(&mut self.open.unknown, rest);
        let (sessions, background, waker) =
            (Arc::clone(&self.sessions), self.background.clone(), self.waker.clone());
        self.background.spawn(async move {
            let fetch = async move {
                let mut open = sessions.with_session(|| sessions.backend().fetch_open(&ids)).await?;
                // The first body always fits, so this ends.
                let came: Vec<_> = open.iter().filter_map(id_of).cloned().collect();
                if let Some(last) = came.last().and_then(|last| ids.iter().position(|id| id == last)) {
                    open.extend(
                        ids[last + 1..].iter().map(|id| Offered::Open { id: id.clone(), cancelled: false }),
                    );
                }
                Ok(open)
            };
            tokio::select! {
                open = background.call_apart(fetch) => waker.wake(Wake::OpenListed(open)),
                () = background.phases.stopping.cancelled() => {}
            }
        });
    }

    pub(in crate::runner) fn list_failed(&mut self, error: &BackendError) -> Result<(), RunnerError> {
        tracing::warn!(%error, "the open requests could not be listed now");
        self.open.is_listed = true;
        self.open.unknown.clear();
        // Any other failure can wait for the next regular list; a list that is too long stays so for a while.
        let is_long = matches!(error, BackendError::Oversized { .. });
        if let (Mode::Stay, false, Disposition::Retry(pause)) = (self.mode, is_long, error.disposition()) {
            let wait = self.open.retry.after(pause);
            let (waker, stopping) = (self.waker.clone(), self.background.phases.stopping.clone());
            let next_look = self.background.spawn(async move {
                tokio::select! {
                    () = tokio::time::sleep(wait) => waker.wake(Wake::ListOpenDue),
                    () = stopping.cancelled() => {}
                }
            });
            self.open.next_look = Some(AbortOnDropHandle::new(next_look));
        }
        failed_for_good(error)
    }
}

fn id_of(offered: &Offered) -> Option<&RequestId> {
    match offered {
        Offered::Request(request) | Offered::Unreadable { request, .. } => Some(&request.id),
        _ => None,
    }
}
