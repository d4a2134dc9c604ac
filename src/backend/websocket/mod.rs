//! The second wire: a worker sends `tool_call` frames over one WebSocket, and gets a `tool_result` for each. The same
//! journal and outbox stand behind it as behind Convex. Not here: the runner's rhythm, and what any tool says.
//!
//! The protocol has no acknowledgement. A result counts as delivered when a ping that was sent after it is answered: the
//! other end has then read it, for a connection keeps its order. Before that, whatever happens to the connection, it is
//! sent again. What the worker does with it nobody says, so the journal keeps it for a day, and a call that comes again
//! under the same id gets the same result again. A worker that reconnects sends again what it still waits for.

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

/// The longest message that is read. The largest file that a tool writes, with what JSON makes of it.
const MOST_BYTES: usize = 16 << 20;

/// How long one pass waits for something more to arrive: the wire does not say when there is no more.
const QUIET: Duration = Duration::from_secs(1);

/// Gives the token that the worker is shown, read anew for each connection.
pub type ShownToken = Arc<dyn Fn() -> Option<Secret<String>> + Send + Sync>;

/// How the connection is kept.
#[derive(Debug, Clone)]
pub struct WebSocketOptions {
    /// Silence after which a ping is sent.
    pub ping: Duration,
    /// How long after that the connection counts as dead.
    pub pong_timeout: Duration,
    /// Whether plain `ws` is allowed to hosts other than this machine.
    pub allow_insecure: bool,
    /// The proxies that there are.
    pub proxies: ProxyRules,
}

impl Default for WebSocketOptions {
    fn default() -> Self {
        let seconds = Duration::from_secs(20);
        Self { ping: seconds, pong_timeout: seconds, allow_insecure: false, proxies: ProxyRules::default() }
    }
}

/// A worker at the other end of a WebSocket.
pub struct WebSocketBackend {
    links: Links,
    inbox: Arc<Inbox>,
}

impl WebSocketBackend {
    /// The worker at this address. Nothing is opened yet.
    ///
    /// # Errors
    /// [`BadUrl`].
    pub fn new(url: &str, token: ShownToken, options: &WebSocketOptions) -> Result<Self, BadUrl> {
        let dialer = Dialer::new(url, options.allow_insecure, MOST_BYTES, &options.proxies)?;
        let pace = Pace { idle: options.ping, patience: options.pong_timeout };
        let inbox = Arc::new(Inbox::new());
        Ok(Self { links: Links::new(dialer, token, Arc::clone(&inbox), pace), inbox })
    }

    /// What arrived since the cursor, if anything did.
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
        // What arrived on a connection that is gone by now was asked all the same.
        if let Some(page) = self.page(cursor, limit) {
            return Ok(page);
        }
        let link = self.links.get().await?;
        let nothing = Page { events: Vec::new(), cursor: None, is_done: true, next: Next::Pushed };
        // That there is a connection again is news to whoever has results to send.
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

/// Nobody has another clock to offer.
fn now() -> Session {
    Session { server_now_ms: frames::now_ms(), backend_id: None, other_process: false }
}

impl Backend for WebSocketBackend {
    /// There are no sessions here: the token, which may be another by now, is shown when the connection is opened.
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

    /// A call that is sent to us is ours.
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

    /// That the connection stands is all that a worker can know of us, and its own pings see to that. The last word closes
    /// it.
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

    /// A worker has no catalog.
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
