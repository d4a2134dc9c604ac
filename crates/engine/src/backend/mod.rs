//! The device's side of the event backend: one trait, its errors with the reaction to each, and clients for Convex's
//! HTTP functions API and for WebSocket workers.

mod address;
mod convex;
mod device_client;
mod dial;
mod error;
#[cfg(any(fuzzing, debug_assertions))]
pub mod fuzzing;
mod http;
mod http_response;
mod proxy;
mod remote_approvals;
mod signing_clock;
mod signing_identity;
mod subscription;
mod transport;
mod upload;
mod wakeup;
#[cfg(feature = "websocket")]
mod websocket;
mod wire;

pub use address::BadUrl;
pub use convex::ConvexBackend;
pub use error::{BackendError, ConnectionProblem, FunctionRefusal, RecoveryAction, RetryDelay};
pub use http::{FunctionKind, HttpFunctions};
pub use proxy::ProxyServer;
pub use remote_approvals::{
    RemoteAnswer, RemoteAnswerKind, RemoteApprovals, RemoteQuestion, StoredQuestion,
};
pub use signing_identity::DeviceCredentials;
pub use subscription::{QueryChange, SyncSocket};
pub use transport::{TransportOptions, build_download_client};
#[cfg(feature = "websocket")]
pub use websocket::{TokenSource, WebSocketBackend, WebSocketOptions};
pub use wire::omit_nulls;

pub use punie_home::CatalogEntry;

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;

use punie_core::ids::{LeaseId, RequestId};
use punie_tool::request::{OutcomeKind, ToolRequest};

/// The future that every backend call returns.
pub type BackendReply<'a, T> = Pin<Box<dyn Future<Output = Result<T, BackendError>> + Send + 'a>>;

/// An event backend. Every call is safe to repeat.
pub trait Backend: Send + Sync + 'static {
    /// Registers this device and makes its token valid.
    fn open_session(&self) -> BackendReply<'_, BackendSession>;
    /// Returns the next page of events after the cursor, oldest first. The backend may hold the call for `wait` until
    /// there is one.
    fn poll_events<'a>(
        &'a self,
        cursor: Option<&'a str>,
        limit: u32,
        wait: Duration,
    ) -> BackendReply<'a, EventPage>;
    /// Lists the ids of all requests without a result, whatever the cursor is ([`OfferedEvent::Open`]).
    fn list_open_requests(&self) -> BackendReply<'_, Vec<OfferedEvent>>;
    /// Fetches the bodies of those of these requests that have no result yet, at most one page of them.
    fn fetch_open_requests<'a>(
        &'a self,
        ids: &'a [RequestId],
    ) -> BackendReply<'a, Vec<OfferedEvent>>;
    /// Claims a request for this lease, or renews the claim.
    fn claim_request<'a>(
        &'a self,
        id: &'a RequestId,
        lease: &'a LeaseId,
    ) -> BackendReply<'a, ClaimReply>;
    /// Sends the `n`-th piece of a running request's progress, as JSON text. A backend without progress drops it.
    fn send_progress<'a>(
        &'a self,
        _id: &'a RequestId,
        _lease: &'a LeaseId,
        _n: u64,
        _data: &'a str,
    ) -> BackendReply<'a, ProgressReply> {
        Box::pin(std::future::ready(Ok(ProgressReply {
            cancelled: false,
            watched: false,
        })))
    }
    /// Stores a result. Storing it again changes nothing.
    fn post_result<'a>(&'a self, result: ResultPost<'a>) -> BackendReply<'a, PostOutcome>;
    /// Reports that the device is online or about to leave, and the time until its next report.
    fn send_heartbeat(
        &self,
        online: bool,
        every: Duration,
        health: Value,
    ) -> BackendReply<'_, HeartbeatReply>;
    /// Stores entries of the catalog of one kind. If they are complete, all others are deleted.
    fn publish_catalog<'a>(
        &'a self,
        kind: CatalogKind,
        revision: u64,
        complete: bool,
        items: &'a [CatalogEntry],
    ) -> BackendReply<'a, ()>;
    /// Tells the caller that a repeated request gets no result, if the protocol can express that.
    fn decline_request<'a>(
        &'a self,
        _id: &'a RequestId,
        _why: DeclineReason,
    ) -> BackendReply<'a, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
    /// Calls `heard` whenever there may be something to poll for. Ends when its connection ends, and returns the
    /// reason.
    fn listen_for_wakeups<'a>(
        &'a self,
        _heard: &'a (dyn Fn() + Send + Sync),
    ) -> BackendReply<'a, Infallible> {
        Box::pin(std::future::pending())
    }
    /// Returns the status of the permanent connection, true while it is up, if the backend has one.
    fn connection_status(&self) -> Option<watch::Receiver<bool>> {
        None
    }
    /// The backend's clock minus the local one, from the `Date` header of its answers: milliseconds, exact to the
    /// second. `None` before the first answer.
    fn clock_offset_ms(&self) -> Option<i64> {
        None
    }
    /// Returns the way to ask the caller for approval, if this backend has one.
    fn remote_approvals(&self) -> Option<&dyn RemoteApprovals> {
        None
    }
    /// Closes pooled connections, after a sleep or an outage.
    fn refresh_connections(&self) {}
}

/// An opened session.
#[derive(Debug, Clone)]
pub struct BackendSession {
    /// The backend's clock, in milliseconds.
    pub server_now_ms: f64,
    /// The id of the deployment, if it has one.
    pub backend_id: Option<String>,
    /// True if another process with this device's identity is online.
    pub other_process: bool,
    /// True if the backend did not know this device before.
    pub is_new_device: bool,
}

/// One page of events.
#[derive(Debug, Clone)]
pub struct EventPage {
    /// The events, oldest first.
    pub events: Vec<OfferedEvent>,
    /// The cursor of the next page.
    pub cursor: Option<String>,
    /// True if there are no more events for now.
    pub is_done: bool,
    /// The time of the next poll.
    pub next: NextPoll,
}

/// The time of the next poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextPoll {
    /// By the runner's own poll schedule.
    OnSchedule,
    /// After this time.
    After(Duration),
    /// At once: the poll itself waits for pushed events. The cursor is valid in this process only.
    Pushed,
}

/// The reason why a repeated request gets no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeclineReason {
    /// Its tool or arguments differ from those first seen with its id.
    Conflict,
    /// It was answered before, and the result is no longer stored.
    Forgotten,
}

/// One event of a page.
#[derive(Debug, Clone)]
pub enum OfferedEvent {
    /// A request.
    Request(ToolRequest),
    /// The caller cancelled this request.
    Cancel(RequestId),
    /// A request without a result, by its id only.
    Open {
        /// Its id.
        id: RequestId,
        /// True if the caller cancelled it.
        cancelled: bool,
    },
    /// A request of which only the id, and perhaps more, is readable.
    Unreadable {
        /// The readable parts; the others are empty.
        request: ToolRequest,
        /// The problem with it.
        why: String,
    },
    /// An event without a request id, or of a kind that this version does not know.
    Skipped {
        /// The problem with it.
        why: String,
    },
}

/// The answer to a claim.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are four answers of the wire, each by itself"
)]
pub struct ClaimReply {
    /// True if the request now belongs to this device.
    pub granted: bool,
    /// The reason for a refusal, as the backend names it.
    pub reason: String,
    /// The time until another device's lease ends, if that is the reason. A new claim may succeed then.
    pub leased_for: Option<Duration>,
    /// The number of leases granted for it so far, with this one.
    pub attempt: u32,
    /// True if it was refused because there is a result already.
    pub answered: bool,
    /// True if the caller has cancelled it.
    pub cancelled: bool,
    /// True if a caller listens for progress.
    pub watched: bool,
}

/// The answer to a piece of progress.
#[derive(Debug, Clone, Copy)]
pub struct ProgressReply {
    /// True if the caller cancelled the request.
    pub cancelled: bool,
    /// True if a caller still listens.
    pub watched: bool,
}

/// A result to be sent.
#[derive(Debug, Clone, Copy)]
pub struct ResultPost<'a> {
    /// The answered request.
    pub id: &'a RequestId,
    /// The lease under which it was claimed.
    pub lease: &'a LeaseId,
    /// The outcome of the call.
    pub kind: OutcomeKind,
    /// The JSON text.
    pub payload: &'a str,
    /// True if something was left out.
    pub truncated: bool,
}

/// The backend's acknowledgement of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostOutcome {
    /// It was stored now.
    Stored,
    /// It was stored before.
    Duplicate,
    /// It has arrived. The protocol does not say whether it was stored, so it may be requested again.
    Sent,
}

/// The answer to a heartbeat.
#[derive(Debug, Clone)]
pub struct HeartbeatReply {
    /// The backend's clock, in milliseconds.
    pub server_now_ms: f64,
    /// The backend's wish for the time until the next one.
    pub next: Option<Duration>,
    /// True if another process with this device's identity is online.
    pub other_process: bool,
}

/// The kind of the items of a catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the wire's own words")]
pub enum CatalogKind {
    Tool,
    Skill,
    Agent,
    Plugin,
}

impl CatalogKind {
    /// Returns the name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Skill => "skill",
            Self::Agent => "agent",
            Self::Plugin => "plugin",
        }
    }
}
