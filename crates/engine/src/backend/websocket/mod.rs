//! The WebSocket backend: a worker sends `tool_call` frames over one connection and gets a `tool_result` for each.
//! Journal and outbox are the same as for Convex.
//!
//! The protocol has no acknowledgement. A result counts as delivered when the worker answers a ping that was sent after
//! it: a connection keeps its order, so the worker has read the result by then. A result without that answer is sent
//! again, on a new connection if need be.
//!
//! The worker may lose a result after that, so the journal keeps it for a day. A call with the same id gets the same
//! result again. A worker that reconnects repeats the calls that it still waits for.

mod connection;
mod frames;
mod inbox;
mod socket_task;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;

use self::connection::WorkerConnector;
use self::inbox::CallInbox;
use self::socket_task::PingPolicy;
use super::address::BadUrl;
use super::dial::WebSocketDialer;

use super::{
    Backend, BackendReply, BackendSession, CatalogEntry, CatalogKind, ClaimReply, DeclineReason,
    EventPage, HeartbeatReply, NextPoll, OfferedEvent, PostOutcome, ResultPost,
};
use punie_core::ids::{LeaseId, RequestId};
use punie_core::owner_choices::ProxyVariables;
use punie_text::redact::Secret;

/// The longest message that is accepted: the largest file that a tool writes, escaped as JSON.
const MOST_BYTES: usize = 16 << 20;

/// The shortest wait of a poll for more events, because the protocol does not announce the end of a batch.
const POLL_WAIT: Duration = Duration::from_secs(1);

/// Returns the token that the worker is shown; called for each connection.
pub type TokenSource = Arc<dyn Fn() -> Option<Secret<String>> + Send + Sync>;

/// The options of the connection.
#[derive(Debug, Clone)]
pub struct WebSocketOptions {
    /// Silence after which a ping is sent.
    pub ping: Duration,
    /// The time after a ping at which the connection counts as dead.
    pub pong_timeout: Duration,
    /// Allows plain `ws` to other hosts than this machine.
    pub allow_insecure: bool,
    /// The proxies to use.
    pub proxies: ProxyVariables,
}

impl Default for WebSocketOptions {
    fn default() -> Self {
        let seconds = Duration::from_secs(20);
        Self {
            ping: seconds,
            pong_timeout: seconds,
            allow_insecure: false,
            proxies: ProxyVariables::default(),
        }
    }
}

/// A backend that is a worker at the other end of a WebSocket.
pub struct WebSocketBackend {
    connector: WorkerConnector,
    inbox: Arc<CallInbox>,
}

impl WebSocketBackend {
    /// Creates the backend for the worker at this address, without connecting.
    ///
    /// # Errors
    /// [`BadUrl`].
    pub fn new(url: &str, token: TokenSource, options: &WebSocketOptions) -> Result<Self, BadUrl> {
        let dialer =
            WebSocketDialer::new(url, options.allow_insecure, MOST_BYTES, &options.proxies)?;
        let pace = PingPolicy {
            idle: options.ping,
            patience: options.pong_timeout,
        };
        let inbox = Arc::new(CallInbox::new());
        Ok(Self {
            connector: WorkerConnector::new(dialer, token, Arc::clone(&inbox), pace),
            inbox,
        })
    }

    /// Returns the events that arrived since the cursor, if there are any.
    fn arrived_page(&self, cursor: Option<&str>, limit: u32) -> Option<EventPage> {
        let (events, cursor) = self.inbox.page_after(cursor, limit);
        cursor.map(|cursor| EventPage {
            events,
            cursor: Some(cursor),
            is_done: false,
            next: NextPoll::Pushed,
        })
    }

    async fn wait_for_page(
        &self,
        cursor: Option<&str>,
        limit: u32,
        wait: Duration,
    ) -> Result<EventPage, super::BackendError> {
        // Calls that arrived on a lost connection still count.
        if let Some(page) = self.arrived_page(cursor, limit) {
            return Ok(page);
        }
        let link = self.connector.get_or_connect().await?;
        let nothing = EventPage {
            events: Vec::new(),
            cursor: None,
            is_done: true,
            next: NextPoll::Pushed,
        };
        // A new connection ends the poll, so that waiting results are sent.
        if link.is_first_use() && !wait.is_zero() {
            return Ok(nothing);
        }
        let until = tokio::time::sleep(wait.max(POLL_WAIT));
        tokio::pin!(until);
        loop {
            if let Some(page) = self.arrived_page(cursor, limit) {
                return Ok(page);
            }
            tokio::select! {
                () = self.inbox.wait_for_arrival() => {}
                end = link.wait_for_end() => return self.arrived_page(cursor, limit).ok_or(end),
                () = &mut until => return Ok(nothing),
            }
        }
    }
}

/// Returns the local time as a session: the protocol has no other clock.
fn local_session() -> BackendSession {
    BackendSession {
        server_now_ms: frames::wall_clock_ms(),
        backend_id: None,
        other_process: false,
        is_new_device: false,
    }
}

impl Backend for WebSocketBackend {
    /// Does nothing, because there are no sessions. Each connection sends the current token.
    fn open_session(&self) -> BackendReply<'_, BackendSession> {
        Box::pin(std::future::ready(Ok(local_session())))
    }

    fn poll_events<'a>(
        &'a self,
        cursor: Option<&'a str>,
        limit: u32,
        wait: Duration,
    ) -> BackendReply<'a, EventPage> {
        Box::pin(self.wait_for_page(cursor, limit, wait))
    }

    fn list_open_requests(&self) -> BackendReply<'_, Vec<OfferedEvent>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn fetch_open_requests<'a>(
        &'a self,
        _ids: &'a [RequestId],
    ) -> BackendReply<'a, Vec<OfferedEvent>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Grants every claim: a call that was sent here belongs to this device.
    fn claim_request<'a>(
        &'a self,
        _id: &'a RequestId,
        _lease: &'a LeaseId,
    ) -> BackendReply<'a, ClaimReply> {
        let granted = ClaimReply {
            granted: true,
            reason: String::new(),
            leased_for: None,
            attempt: 1,
            answered: false,
            cancelled: false,
            watched: false,
        };
        Box::pin(std::future::ready(Ok(granted)))
    }

    fn post_result<'a>(&'a self, result: ResultPost<'a>) -> BackendReply<'a, PostOutcome> {
        Box::pin(async move {
            let link = self.connector.get_or_connect().await?;
            self.connector
                .deliver_text(&link, Some(frames::result_frame(&result)))
                .await?;
            Ok(PostOutcome::Sent)
        })
    }

    /// Ensures a connection, which is all that a worker can observe; its own pings do the rest. The last heartbeat
    /// closes the connection.
    fn send_heartbeat(
        &self,
        online: bool,
        _every: Duration,
        _health: Value,
    ) -> BackendReply<'_, HeartbeatReply> {
        Box::pin(async move {
            if online {
                self.connector.get_or_connect().await?;
            } else {
                self.connector.close_connection().await;
            }
            Ok(HeartbeatReply {
                server_now_ms: local_session().server_now_ms,
                next: None,
                other_process: false,
            })
        })
    }

    /// Does nothing: a worker has no catalog.
    fn publish_catalog<'a>(
        &'a self,
        _kind: CatalogKind,
        _revision: u64,
        _complete: bool,
        _items: &'a [CatalogEntry],
    ) -> BackendReply<'a, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn decline_request<'a>(
        &'a self,
        id: &'a RequestId,
        why: DeclineReason,
    ) -> BackendReply<'a, ()> {
        Box::pin(async move {
            self.connector
                .get_or_connect()
                .await?
                .send_unconfirmed(frames::decline_frame(id, why))
                .await
        })
    }

    fn connection_status(&self) -> Option<watch::Receiver<bool>> {
        Some(self.connector.subscribe_status())
    }

    fn refresh_connections(&self) {
        self.connector.drop_connection();
    }
}
