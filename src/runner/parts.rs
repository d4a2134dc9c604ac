//! The parts that wiring hands to the runner, and the traits by which the runner reaches what it does not know.

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

/// The parts that wiring hands over.
pub struct Parts {
    /// The event backend.
    pub backend: Arc<dyn Backend>,
    /// What survives a crash.
    pub journal: Journal,
    /// What was asked, decided and done.
    pub audit: Audit,
    /// Whose signature every request must have; none where the backend's word is enough.
    pub request_auth: Option<RequestAuth>,
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
    /// Which confinement is in force, for results and heartbeats.
    pub confinement: Arc<dyn Confines>,
    /// What the owner has switched on.
    pub switches: Switches,
    /// What waits for the word of the person here.
    pub approvals: Approvals,
    /// The conversations that a person has stopped.
    pub supervision: Supervision,
    /// The service manager, where there is one.
    pub watchdog: Option<Watchdog>,
    /// Who follows calls.
    pub observer: Arc<dyn Observer>,
    /// Where tools run.
    pub tool_threads: ToolThreads,
}

/// Done once it is known what became of declared effects.
pub type LookedAfter<'a> = Pin<Box<dyn Future<Output = Aftermath> + Send + 'a>>;

/// Ends processes of an earlier life, and sees what became of its effects.
pub trait Survivors: Send + Sync + 'static {
    /// Ends the process of this identity, which this request started, with everything that it started in turn; a
    /// stranger that got its number is left alone. Returns whether nothing of it is left.
    fn end(&self, request: &RequestId, identity: &str) -> bool;

    /// Looks what became of what this request's call declared, in the order in which it did.
    fn look_after<'a>(&'a self, request: &'a RequestId, intents: Vec<Intent>) -> LookedAfter<'a>;
}

/// How far this device's commands are confined.
pub trait Confines: Send + Sync + 'static {
    /// In words; those are others once it is proven.
    fn in_words(&self) -> String;

    /// Completes once it is proven.
    fn proven(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// The catalogs of the home, and when they change.
pub trait Catalog: Send + Sync + 'static {
    /// What is there now.
    fn items(&self, kind: CatalogKind) -> Vec<CatalogItem>;
    /// Changes its value whenever something changed; none where changes are not noticed.
    fn changes(&self) -> Option<tokio::sync::watch::Receiver<u64>>;
}
