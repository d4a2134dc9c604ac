//! The wire to the event backend, as the device sees it: one trait, its errors with what to do about each, and the
//! client that speaks Convex's HTTP functions API. Not here: when anything is called (runner).

mod convex;
mod dial;
mod error;
#[cfg(any(fuzzing, test))]
pub(crate) mod fuzzing;
mod http;
mod permissions;
mod proxy;
mod session;
mod signing_clock;
mod subscription;
mod transport;
mod upload;
mod wakeup;
mod websocket;
mod wire;

pub use convex::ConvexBackend;
pub use error::{BackendError, ConnectionProblem, Disposition, Pause, Refusal};
pub use http::{FunctionKind, HttpFunctions};
pub use permissions::{Answer, Permissions, Question};
pub use proxy::{ProxyRules, ProxyServer};
pub use session::{Signer, TokenStore};
pub use subscription::{Change, SyncSocket};
pub use transport::{BadUrl, TransportOptions};
pub use websocket::{ShownToken, WebSocketBackend, WebSocketOptions};

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;

use crate::ids::{LeaseId, RequestId};
use crate::request::{OutcomeKind, ToolRequest};

/// What every backend call gives back.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, BackendError>> + Send + 'a>>;

/// An event backend. Every call is safe to repeat.
pub trait Backend: Send + Sync + 'static {
    /// Makes this device known and its token valid.
    fn open_session(&self) -> Reply<'_, Session>;
    /// The next page of events after the cursor, oldest first; may be held for `wait` until there is one.
    fn poll<'a>(&'a self, cursor: Option<&'a str>, limit: u32, wait: Duration) -> Reply<'a, Page>;
    /// Every request that has no result yet, whatever the cursor says, by its id ([`Offered::Open`]).
    fn list_open(&self) -> Reply<'_, Vec<Offered>>;
    /// Those of these requests that have no result yet, with their bodies; not more than a page of them.
    fn fetch_open<'a>(&'a self, ids: &'a [RequestId]) -> Reply<'a, Vec<Offered>>;
    /// Claims a request for this lease, or renews the claim.
    fn claim<'a>(&'a self, id: &'a RequestId, lease: &'a LeaseId) -> Reply<'a, Claim>;
    /// Tells what a running request has to show so far: the `n`-th piece, JSON text. A backend without a place for it
    /// drops it.
    fn tell<'a>(
        &'a self,
        _id: &'a RequestId,
        _lease: &'a LeaseId,
        _n: u64,
        _data: &'a str,
    ) -> Reply<'a, Told> {
        Box::pin(std::future::ready(Ok(Told { cancelled: false, watched: false })))
    }
    /// Stores a result; storing it again changes nothing.
    fn post<'a>(&'a self, result: ResultPost<'a>) -> Reply<'a, Posted>;
    /// Says that the device is there, or about to go, and how long after this it means to say so again.
    fn beat(&self, online: bool, every: Duration, health: Value) -> Reply<'_, Beat>;
    /// Replaces the catalog of one kind.
    fn publish<'a>(&'a self, kind: CatalogKind, revision: u64, items: &'a [CatalogItem]) -> Reply<'a, ()>;
    /// Tells whoever waits that a request offered again gets no result, where the wire has a way to say so.
    fn decline<'a>(&'a self, _id: &'a RequestId, _why: Declined) -> Reply<'a, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
    /// Calls `heard` whenever there may be something to poll for, until what it listens on ends; says why it did.
    fn wakeups<'a>(&'a self, _heard: &'a (dyn Fn() + Send + Sync)) -> Reply<'a, Infallible> {
        Box::pin(std::future::pending())
    }
    /// Whether the lasting connection is up, where the wire has one.
    fn link(&self) -> Option<watch::Receiver<bool>> {
        None
    }
    /// The backend's clock minus ours in milliseconds, to the second, as its answers' dates tell; none before an answer.
    fn dated_offset_ms(&self) -> Option<i64> {
        None
    }
    /// The way to ask the caller's side; none where this backend has no such thing.
    fn permissions(&self) -> Option<&dyn Permissions> {
        None
    }
    /// Forgets pooled connections, after a sleep or an outage.
    fn refresh_connections(&self) {}
}

/// An opened session.
#[derive(Debug, Clone)]
pub struct Session {
    /// The backend's clock, in milliseconds.
    pub server_now_ms: f64,
    /// The id of the deployment; none where it has none.
    pub backend_id: Option<String>,
    /// Whether another process with this device's identity is there, too.
    pub other_process: bool,
}

/// One page of events.
#[derive(Debug, Clone)]
pub struct Page {
    /// The events, oldest first.
    pub events: Vec<Offered>,
    /// Where the next page begins.
    pub cursor: Option<String>,
    /// Whether there is nothing more for now.
    pub is_done: bool,
    /// When the next one is asked for.
    pub next: Next,
}

/// When the next page is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// As the runner's own rhythm has it.
    Rhythm,
    /// After this time.
    After(Duration),
    /// At once: asking waits by itself for what is pushed to us. The cursor means something to this life only.
    Pushed,
}

/// Why a request that was offered again gets no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Declined {
    /// Its tool or its arguments are not those that its id is known with.
    Conflict,
    /// It was answered, and the result is not kept any more.
    Forgotten,
}

/// One event of a page.
#[derive(Debug, Clone)]
pub enum Offered {
    /// A request.
    Request(ToolRequest),
    /// The caller took this request back.
    Cancel(RequestId),
    /// A request without a result, by its id alone.
    Open {
        /// Its id.
        id: RequestId,
        /// Whether the caller took it back.
        cancelled: bool,
    },
    /// A request of which only the id (and perhaps more) can be read.
    Unreadable {
        /// What could be read, the rest empty.
        request: ToolRequest,
        /// What is wrong with it.
        why: String,
    },
    /// An event that names no request, or is of a kind that this version does not know.
    Skipped {
        /// What is wrong with it.
        why: String,
    },
}

/// The answer to a claim.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "they are four answers of the wire, each by itself")]
pub struct Claim {
    /// Whether the request is ours now.
    pub granted: bool,
    /// Why not, in the backend's word.
    pub reason: String,
    /// How long another lease is in force, where that is why: asking again then may help.
    pub leased_for: Option<Duration>,
    /// How many leases were granted for it, ours among them.
    pub attempt: u32,
    /// Whether it is refused because there is a result already.
    pub answered: bool,
    /// Whether the caller took it back meanwhile.
    pub cancelled: bool,
    /// Whether a caller listens for progress.
    pub watched: bool,
}

/// The answer to a piece of progress.
#[derive(Debug, Clone, Copy)]
pub struct Told {
    /// Whether the caller took the request back.
    pub cancelled: bool,
    /// Whether a caller still listens.
    pub watched: bool,
}

/// A result on its way out.
#[derive(Debug, Clone, Copy)]
pub struct ResultPost<'a> {
    /// The request answered.
    pub id: &'a RequestId,
    /// The lease it was claimed under.
    pub lease: &'a LeaseId,
    /// How the call ended.
    pub kind: OutcomeKind,
    /// The JSON text.
    pub payload: &'a str,
    /// Whether something was left out.
    pub truncated: bool,
}

/// The backend has the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Posted {
    /// It was stored now.
    Stored,
    /// It was there already.
    Duplicate,
    /// It was sent and has arrived; whether it was kept there nobody says, and it may be asked for again.
    Sent,
}

/// The answer to a heartbeat.
#[derive(Debug, Clone)]
pub struct Beat {
    /// The backend's clock, in milliseconds.
    pub server_now_ms: f64,
    /// When it wants the next one.
    pub next: Option<Duration>,
    /// Whether another process with this device's identity is there, too.
    pub other_process: bool,
}

/// What a catalog lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the wire's own words")]
pub enum CatalogKind {
    Tool,
    Skill,
    Agent,
}

impl CatalogKind {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Skill => "skill",
            Self::Agent => "agent",
        }
    }
}

/// One entry of a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogItem {
    /// Unique within its kind.
    pub key: String,
    /// SHA-256 of the body in hex: an unchanged item is not written again.
    pub hash: String,
    /// JSON text.
    pub body: String,
}
