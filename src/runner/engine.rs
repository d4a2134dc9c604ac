//! What every call shares: made once at start, never changed. Not here: what is done with it.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::clock::{Clock, ServerClock};
use super::leases::Leases;
use super::session::Sessions;
use super::settings::Settings;
use super::wake::Waker;
use crate::backend::{Backend, CatalogItem, CatalogKind};
use crate::ids::LeaseId;
use crate::journal::Journal;
use crate::output::OutputStore;
use crate::redact::Redactor;
use crate::tool::{Gate, Registry};

/// The parts that wiring hands over.
pub struct Parts {
    /// The event backend.
    pub backend: Arc<dyn Backend>,
    /// What survives a crash.
    pub journal: Journal,
    /// The tools.
    pub registry: Arc<Registry>,
    /// Who may say no.
    pub gate: Arc<dyn Gate>,
    /// Masks secrets.
    pub redactor: Redactor,
    /// Keeps what is clipped.
    pub outputs: OutputStore,
    /// The lease of this process life.
    pub lease: LeaseId,
    /// Ends processes that an earlier life left running.
    pub survivors: Arc<dyn Survivors>,
    /// What the home offers beside the tools.
    pub catalog: Arc<dyn Catalog>,
    /// The figures.
    pub settings: Settings,
    /// The time of day.
    pub clock: Clock,
    /// The confinement in force, for heartbeats.
    pub confinement: String,
}

/// Ends processes of an earlier life.
pub trait Survivors: Send + Sync + 'static {
    /// Ends the process of this identity, which this request started, with everything that it started in turn; a
    /// stranger that got its number is left alone.
    fn end(&self, request: &crate::ids::RequestId, identity: &str);
}

/// The catalogs of the home, and when they change.
pub trait Catalog: Send + Sync + 'static {
    /// What is there now.
    fn items(&self, kind: CatalogKind) -> Vec<CatalogItem>;
    /// Changes its value whenever something changed; none where changes are not noticed.
    fn changes(&self) -> Option<tokio::sync::watch::Receiver<u64>>;
}

/// [`Parts`], with what the runner adds to them.
pub(super) struct Engine {
    pub backend: Arc<dyn Backend>,
    pub journal: Journal,
    pub registry: Arc<Registry>,
    pub gate: Arc<dyn Gate>,
    pub redactor: Redactor,
    pub outputs: OutputStore,
    pub lease: LeaseId,
    pub survivors: Arc<dyn Survivors>,
    pub catalog: Arc<dyn Catalog>,
    pub settings: Settings,
    pub clock: Clock,
    pub server_clock: ServerClock,
    pub confinement: String,
    pub sessions: Sessions,
    pub leases: Leases,
    pub waker: Waker,
    /// Every task of the runner; a stop waits for them.
    pub tasks: TaskTracker,
    /// Cancelled when no new work is taken.
    pub stopping: CancellationToken,
    /// Cancelled when running calls must end.
    pub ending: CancellationToken,
    /// Cancelled when everything must end.
    pub over: CancellationToken,
    /// Rings when undelivered replies should be looked at.
    pub outbox: tokio::sync::Notify,
}

impl Engine {
    pub(super) fn new(parts: Parts, waker: Waker) -> Arc<Self> {
        let server_clock = ServerClock::new(parts.clock.clone());
        Arc::new(Self {
            sessions: Sessions::new(Arc::clone(&parts.backend), server_clock.clone()),
            backend: parts.backend,
            journal: parts.journal,
            registry: parts.registry,
            gate: parts.gate,
            redactor: parts.redactor,
            outputs: parts.outputs,
            lease: parts.lease,
            survivors: parts.survivors,
            catalog: parts.catalog,
            settings: parts.settings,
            clock: parts.clock,
            server_clock,
            confinement: parts.confinement,
            leases: Leases::default(),
            waker,
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            ending: CancellationToken::new(),
            over: CancellationToken::new(),
            outbox: tokio::sync::Notify::new(),
        })
    }
}
