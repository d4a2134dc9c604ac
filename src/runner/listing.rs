//! Asking for everything that is open at the backend: what a page may have missed shows there. First the ids, then the
//! bodies of those that the journal does not know, a page at a time.

use std::sync::Arc;

use tokio_util::task::AbortOnDropHandle;

use super::wake::Wake;
use super::{Mode, Runner, RunnerError, failed_for_good};
use crate::backend::{BackendError, Disposition, Offered};
use crate::ids::RequestId;

/// So many bodies are asked for at once.
const BODIES: usize = 64;

impl Runner {
    /// Asks for the ids; the answer wakes the loop.
    pub(super) fn list_open(&self) {
        let engine = Arc::clone(&self.engine);
        self.engine.tasks.spawn(async move {
            let asking = Arc::clone(&engine);
            let list = async move { asking.with_session(|| asking.backend.list_open()).await };
            tokio::select! {
                open = engine.apart(list) => engine.waker.wake(Wake::OpenListed(open)),
                () = engine.stopping.cancelled() => {}
            }
        });
    }

    /// Takes a list of ids, or a page of bodies, and asks for the next page where one is needed.
    pub(super) async fn take_open(&mut self, open: Vec<Offered>) -> Result<(), RunnerError> {
        self.list_retry.reset();
        self.list_again = None;
        match self.engine.admit(open, None).await {
            Ok(admitted) => self.take_in(admitted).await,
            Err(error) => {
                self.unknown.clear();
                self.listed = true;
                return self.page_refused(error);
            }
        }
        self.listed = self.unknown.is_empty();
        if !self.listed {
            self.fetch_open();
        }
        Ok(())
    }

    /// Asks for the bodies of requests that the journal does not know. Those that do not come are not open any more; one
    /// that does not fit into the answer is asked for again.
    fn fetch_open(&mut self) {
        let rest = self.unknown.split_off(self.unknown.len().min(BODIES));
        let ids = std::mem::replace(&mut self.unknown, rest);
        let engine = Arc::clone(&self.engine);
        self.engine.tasks.spawn(async move {
            let asking = Arc::clone(&engine);
            let fetch = async move {
                let mut open = asking.with_session(|| asking.backend.fetch_open(&ids)).await?;
                // The first body always fits, so that this ends.
                let came: Vec<_> = open.iter().filter_map(id_of).cloned().collect();
                if let Some(last) = came.last().and_then(|last| ids.iter().position(|id| id == last)) {
                    open.extend(
                        ids[last + 1..].iter().map(|id| Offered::Open { id: id.clone(), cancelled: false }),
                    );
                }
                Ok(open)
            };
            tokio::select! {
                open = engine.apart(fetch) => engine.waker.wake(Wake::OpenListed(open)),
                () = engine.stopping.cancelled() => {}
            }
        });
    }

    pub(super) fn list_failed(&mut self, error: &BackendError) -> Result<(), RunnerError> {
        tracing::warn!(%error, "the open requests could not be listed now");
        self.listed = true;
        self.unknown.clear();
        // Any other failure can wait for the next regular look; a list that is too long does not get shorter so soon.
        let is_long = matches!(error, BackendError::Oversized { .. });
        if let (Mode::Stay, false, Disposition::Retry(pause)) = (self.mode, is_long, error.disposition()) {
            let (engine, wait) = (Arc::clone(&self.engine), self.list_retry.after(pause));
            let again = self.engine.tasks.spawn(async move {
                tokio::select! {
                    () = tokio::time::sleep(wait) => engine.waker.wake(Wake::ListOpenDue),
                    () = engine.stopping.cancelled() => {}
                }
            });
            self.list_again = Some(AbortOnDropHandle::new(again));
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
