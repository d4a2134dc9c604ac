//! The WebSocket backend: a worker sends `tool_call` frames over one connection and gets a `tool_result` for each.
//! Journal and outbox are the same as for Convex.
//! Not here: the runner's poll schedule, and the tools' answers.
//!
//! The protocol has no acknowledgement. A result counts as delivered when the worker answers a ping that was sent after
//! it: a connection keeps its order, so the worker has read the result by then. A result without that answer is sent
//! again, on a new connection if need be.
//!
//! The worker may lose a result after that, so the journal keeps it for a day. A call with the same id gets the same
//! result again. A worker that reconnects repeats the calls that it still waits for.

mod frames;
mod inbox;
mod link;
mod traffic;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;

use self::inbox::Inbox;
use self::link::Links;
use self::traffic::Pace;
use super::dial::Dialer;
use super::proxy::ProxyRules;
use super::transport::BadUrl;
use super::{
    Backend, Beat, CatalogItem, CatalogKind, Claim, Declined, Next, Offered, Page, Posted, Reply, ResultPost,
    Session,
};
use crate::ids::{LeaseId, RequestId};
use crate::redact::Secret;

/// The longest message that is accepted: the largest file that a tool writes, escaped as JSON.
const MOST_BYTES: usize = 16 << 20;

/// The shortest wait of a poll for more events, because the protocol does not announce the end of a batch.
const QUIET: Duration = Duration::from_secs(1);

/// Returns the token that the worker is shown; called for each connection.
pub type ShownToken = Arc<dyn Fn() -> Option<Secret<String>> + Send + Sync>;

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
    pub proxies: ProxyRules,
}

impl Default for WebSocketOptions {
    fn default() -> Self {
        let seconds = Duration::from_secs(20);
        Self { ping: seconds, pong_timeout: seconds, allow_insecure: false, proxies: ProxyRules::default() }
    }
}

/// A backend that is a worker at the other end of a WebSocket.
pub struct WebSocketBackend {
    links: Links,
    inbox: Arc<Inbox>,
}

impl WebSocketBackend {
    /// Creates the backend for the worker at this address, without connecting.
    ///
    /// # Errors
    /// [`BadUrl`].
    pub fn new(url: &str, token: ShownToken, options: &WebSocketOptions) -> Result<Self, BadUrl> {
        let dialer = Dialer::new(url, options.allow_insecure, MOST_BYTES, &options.proxies)?;
        let pace = Pace { idle: options.ping, patience: options.pong_timeout };
        let inbox = Arc::new(Inbox::new());
        Ok(Self { links: Links::new(dialer, token, Arc::clone(&inbox), pace), inbox })
    }

    /// Returns the events that arrived since the cursor, if there are any.
    fn page(&self, cursor: Option<&str>, limit: u32) -> Option<Page> {
        let (events, cursor) = self.inbox.after(cursor, limit);
        cursor.map(|cursor| Page { events, cursor: Some(cursor), is_done: false, next: Next::Pushed })
    }

    async fn next_page(
        &self,
        cursor: Option<&str>,
        limit: u32,
        wait: Duration,
    ) -> Result<Page, super::BackendError> {
        // Calls that arrived on a lost connection still count.
        if let Some(page) = self.page(cursor, limit) {
            return Ok(page);
        }
        let link = self.links.get().await?;
        let nothing = Page { events: Vec::new(), cursor: None, is_done: true, next: Next::Pushed };
        // A new connection ends the poll, so that waiting results are sent.
        if link.is_new() && !wait.is_zero() {
            return Ok(nothing);
        }
        let until = tokio::time::sleep(wait.max(QUIET));
        tokio::pin!(until);
        loop {
            if let Some(page) = self.page(cursor, limit) {
                return Ok(page);
            }
            tokio::select! {
                () = self.inbox.arrival() => {}
                end = link.end() => return self.page(cursor, limit).ok_or(end),
                () = &mut until => return Ok(nothing),
            }
        }
    }
}

/// Returns the local time as a session: the protocol has no other clock.
fn now() -> Session {
    Session { server_now_ms: frames::now_ms(), backend_id: None, other_process: false }
}

impl Backend for WebSocketBackend {
    /// Does nothing, because there are no sessions. Each connection sends the current token.
    fn open_session(&self) -> Reply<'_, Session> {
        Box::pin(std::future::ready(Ok(now())))
    }

    fn poll<'a>(&'a self, cursor: Option<&'a str>, limit: u32, wait: Duration) -> Reply<'a, Page> {
        Box::pin(self.next_page(cursor, limit, wait))
    }

    fn list_open(&self) -> Reply<'_, Vec<Offered>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn fetch_open<'a>(&'a self, _ids: &'a [RequestId]) -> Reply<'a, Vec<Offered>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Grants every claim: a call that was sent here belongs to this device.
    fn claim<'a>(&'a self, _id: &'a RequestId, _lease: &'a LeaseId) -> Reply<'a, Claim> {
        let granted = Claim {
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

    fn post<'a>(&'a self, result: ResultPost<'a>) -> Reply<'a, Posted> {
        Box::pin(async move {
            let link = self.links.get().await?;
            self.links.arrives(&link, Some(frames::result(&result))).await?;
            Ok(Posted::Sent)
        })
    }

    /// Ensures a connection, which is all that a worker can observe; its own pings do the rest. The last heartbeat
    /// closes the connection.
    fn beat(&self, online: bool, _every: Duration, _health: Value) -> Reply<'_, Beat> {
        Box::pin(async move {
            if online {
                self.links.get().await?;
            } else {
                self.links.close().await;
            }
            Ok(Beat { server_now_ms: now().server_now_ms, next: None, other_process: false })
        })
    }

    /// Does nothing: a worker has no catalog.
    fn publish<'a>(&'a self, _kind: CatalogKind, _revision: u64, _items: &'a [CatalogItem]) -> Reply<'a, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn decline<'a>(&'a self, id: &'a RequestId, why: Declined) -> Reply<'a, ()> {
        Box::pin(async move { self.links.get().await?.tell(frames::declined(id, why)).await })
    }

    fn link(&self) -> Option<watch::Receiver<bool>> {
        Some(self.links.is_up())
    }

    fn refresh_connections(&self) {
        self.links.drop_link();
    }
}
