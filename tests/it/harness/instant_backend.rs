//! A backend whose calls take no time on a paused clock, even if the real sockets and disks are slow.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use punie_core::ids::{LeaseId, RequestId};
use punie_engine::backend::{
    Backend, BackendError, BackendReply, BackendSession, CatalogEntry, CatalogKind, ClaimReply,
    EventPage, HeartbeatReply, OfferedEvent, PostOutcome, ProgressReply, ResultPost,
};
use serde_json::Value;

use super::stepped_time::TimeHold;

/// Wraps a backend, and holds the paused clock during each of its calls.
pub struct InstantBackend(pub Arc<dyn Backend>);

fn without_time<'a, T: 'a>(call: BackendReply<'a, T>) -> BackendReply<'a, T>
where
    Result<T, BackendError>: Send,
{
    Box::pin(async move {
        let _held = TimeHold::begin();
        call.await
    })
}

impl Backend for InstantBackend {
    fn open_session(&self) -> BackendReply<'_, BackendSession> {
        without_time(self.0.open_session())
    }
    fn poll_events<'a>(
        &'a self,
        cursor: Option<&'a str>,
        limit: u32,
        wait: Duration,
    ) -> BackendReply<'a, EventPage> {
        without_time(self.0.poll_events(cursor, limit, wait))
    }
    fn list_open_requests(&self) -> BackendReply<'_, Vec<OfferedEvent>> {
        without_time(self.0.list_open_requests())
    }
    fn fetch_open_requests<'a>(
        &'a self,
        ids: &'a [RequestId],
    ) -> BackendReply<'a, Vec<OfferedEvent>> {
        without_time(self.0.fetch_open_requests(ids))
    }
    fn claim_request<'a>(
        &'a self,
        id: &'a RequestId,
        lease: &'a LeaseId,
    ) -> BackendReply<'a, ClaimReply> {
        without_time(self.0.claim_request(id, lease))
    }
    fn send_progress<'a>(
        &'a self,
        id: &'a RequestId,
        lease: &'a LeaseId,
        n: u64,
        data: &'a str,
    ) -> BackendReply<'a, ProgressReply> {
        without_time(self.0.send_progress(id, lease, n, data))
    }
    fn post_result<'a>(&'a self, result: ResultPost<'a>) -> BackendReply<'a, PostOutcome> {
        without_time(self.0.post_result(result))
    }
    fn send_heartbeat(
        &self,
        online: bool,
        every: Duration,
        health: Value,
    ) -> BackendReply<'_, HeartbeatReply> {
        without_time(self.0.send_heartbeat(online, every, health))
    }
    fn publish_catalog<'a>(
        &'a self,
        kind: CatalogKind,
        revision: u64,
        complete: bool,
        items: &'a [CatalogEntry],
    ) -> BackendReply<'a, ()> {
        without_time(self.0.publish_catalog(kind, revision, complete, items))
    }
    /// Holds the paused clock until the subscription gets its first answer.
    fn listen_for_wakeups<'a>(
        &'a self,
        heard: &'a (dyn Fn() + Send + Sync),
    ) -> BackendReply<'a, Infallible> {
        Box::pin(async move {
            let dialling = Mutex::new(Some(TimeHold::begin()));
            let heard = || {
                dialling.lock().take();
                heard();
            };
            self.0.listen_for_wakeups(&heard).await
        })
    }
}
