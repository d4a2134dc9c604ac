//! The parts that wiring hands to the runner, and the traits for code that the runner does not know.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::clock::Clock;
use super::settings::Settings;
use super::tool_threads::ToolThreads;
use super::watchdog::Watchdog;
use crate::audit::Audit;
use crate::backend::{Backend, CatalogItem, CatalogKind};
use crate::home::{Approvals, Supervision, Switches};
use crate::ids::{LeaseId, RequestId};
use crate::journal::Journal;
use crate::output::OutputStore;
use crate::redact::Redactor;
use crate::request::RequestAuth;
use crate::tool::{Aftermath, Gate, Intent, Observer, Registry};

/// The parts that wiring hands to the runner.
pub struct Parts {
    /// The event backend.
    pub backend: Arc<dyn Backend>,
    /// The crash-safe store.
    pub journal: Journal,
    /// The audit of requests, decisions and results.
    pub audit: Audit,
    /// The check of the signature that every request must have; `None` if requests need no signature.
    pub request_auth: Option<RequestAuth>,
    /// The tools.
    pub registry: Arc<Registry>,
    /// The gate that may refuse calls.
    pub gate: Arc<dyn Gate>,
    /// Masks secrets.
    pub redactor: Redactor,
    /// The store of truncated outputs.
    pub outputs: OutputStore,
    /// The lease of this process.
    pub lease: LeaseId,
    /// Ends processes that an earlier process left running.
    pub survivors: Arc<dyn Survivors>,
    /// The catalogs of the home, beside the tools.
    pub catalog: Arc<dyn Catalog>,
    /// The runner's settings.
    pub settings: Settings,
    /// The time of day.
    pub clock: Clock,
    /// The confinement in force, for results and heartbeats.
    pub confinement: Arc<dyn Confines>,
    /// The owner's switches.
    pub switches: Switches,
    /// The approval questions for the person at this device.
    pub approvals: Approvals,
    /// The conversations that a person has stopped.
    pub supervision: Supervision,
    /// The service manager, if there is one.
    pub watchdog: Option<Watchdog>,
    /// The observer of calls.
    pub observer: Arc<dyn Observer>,
    /// The threads of tools.
    pub tool_threads: ToolThreads,
}

/// Completes with the state of declared effects.
pub type LookedAfter<'a> = Pin<Box<dyn Future<Output = Aftermath> + Send + 'a>>;

/// Cleans up after an earlier process: ends its child processes and inspects its effects.
pub trait Survivors: Send + Sync + 'static {
    /// Ends the process of this identity, which this request started, with all its descendants. Another process that
    /// got the same number is left alone. Returns whether nothing of it is left.
    fn end(&self, request: &RequestId, identity: &str) -> bool;

    /// Inspects the effects that this request's call declared, in the order of declaration.
    fn look_after<'a>(&'a self, request: &'a RequestId, intents: Vec<Intent>) -> LookedAfter<'a>;
}

/// The confinement of this device's commands.
pub trait Confines: Send + Sync + 'static {
    /// Describes the confinement; the description changes once it is proven.
    fn in_words(&self) -> String;

    /// Completes once it is proven.
    fn proven(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// The catalogs of the home and their changes.
pub trait Catalog: Send + Sync + 'static {
    /// Returns the current entries.
    fn items(&self, kind: CatalogKind) -> Vec<CatalogItem>;
    /// Returns a receiver that changes with the catalogs; `None` if changes are not noticed.
    fn changes(&self) -> Option<tokio::sync::watch::Receiver<u64>>;
}
