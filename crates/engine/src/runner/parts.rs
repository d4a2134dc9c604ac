//! The parts that wiring hands to the runner, and the traits for code that the runner does not know.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::call_titles::CallTitles;
use super::finished_call::FinishedCallListener;
use super::keep_awake::SleepInhibitor;
use super::runner_settings::RunnerSettings;
use super::tool_threads::ToolThreads;
use super::watchdog::Watchdog;
use crate::audit::AuditLog;
use crate::backend::{Backend, CatalogEntry, CatalogKind};
use crate::journal::Journal;
use punie_core::clock::{Clock, ExpiryClock};
use punie_core::ids::{LeaseId, RequestId};
use punie_home::{ApprovalQuestions, CanaryFile, OwnerSwitches, RunnerPeople, SupervisionStore};
use punie_text::output::{CallRecordStore, OutputStore};
use punie_text::redact::Redactor;
use punie_tool::request::RequestAuth;
use punie_tool::{
    CallGate, CallIntent, CallObserver, ConfinementReport, IntentOutcome, ToolError, ToolRegistry,
};

/// The parts that wiring hands to the runner.
pub struct RunnerParts {
    /// The event backend.
    pub backend: Arc<dyn Backend>,
    /// The crash-safe store.
    pub journal: Journal,
    /// The audit of requests, decisions and results.
    pub audit: AuditLog,
    /// The check of the signature that every request must have; `None` if requests need no signature.
    pub request_auth: Option<RequestAuth>,
    /// The tools.
    pub registry: Arc<ToolRegistry>,
    /// Makes the titles of requests that the journal keeps; `None` if it keeps none.
    pub titles: Option<CallTitles>,
    /// Stores the arguments and answers of calls for the owner; `None` if they are not kept.
    pub call_records: Option<CallRecordStore>,
    /// Receives every finished call; `None` if nobody watches.
    pub finished_calls: Option<FinishedCallListener>,
    /// The gate that may refuse calls.
    pub gate: Arc<dyn CallGate>,
    /// Masks secrets.
    pub redactor: Redactor,
    /// The store of truncated outputs.
    pub outputs: OutputStore,
    /// The lease of this process.
    pub lease: LeaseId,
    /// Ends processes that an earlier process left running.
    pub survivors: Arc<dyn LeftoverCleanup>,
    /// The commands that run beside calls.
    pub background_commands: Arc<dyn BackgroundCommands>,
    /// The attempts to read and write in the home.
    pub canary_file: CanaryFile,
    /// The catalogs of the home, beside the tools.
    pub catalog: Arc<dyn CatalogSource>,
    /// The runner's settings.
    pub settings: RunnerSettings,
    /// Keeps the machine awake while calls run; `None` if the system has no way to do that.
    pub sleep_inhibitor: Option<Arc<dyn SleepInhibitor>>,
    /// The time of day.
    pub clock: Clock,
    /// The time by which old things may be deleted.
    pub expiry: ExpiryClock,
    /// The confinement in force, for results and heartbeats.
    pub confinement: Arc<dyn ConfinementReport>,
    /// The owner's switches.
    pub switches: OwnerSwitches,
    /// The approval questions for the person at this device.
    pub approvals: ApprovalQuestions,
    /// Receives this runner's way to ask people about a running call.
    pub people: RunnerPeople,
    /// The conversations that a person has stopped.
    pub supervision: SupervisionStore,
    /// The service manager, if there is one.
    pub watchdog: Option<Watchdog>,
    /// The observer of calls.
    pub observer: Arc<dyn CallObserver>,
    /// The threads of tools.
    pub tool_threads: ToolThreads,
}

/// Completes with the state of declared effects.
pub type InspectedEffects<'a> = Pin<Box<dyn Future<Output = IntentOutcome> + Send + 'a>>;

/// Cleans up after an earlier process: ends its child processes and inspects its effects.
pub trait LeftoverCleanup: Send + Sync + 'static {
    /// Ends the process of this identity, which this request started, with all its descendants. Another process that
    /// got the same number is left alone. Returns whether nothing of it is left.
    fn end_leftover(&self, request: &RequestId, identity: &str) -> bool;

    /// Ends the processes that this request started, if the earlier process ended before it recorded them.
    fn end_unrecorded(&self, request: &RequestId);

    /// Inspects the effects that this request's call declared, in the order of declaration.
    fn inspect_effects<'a>(
        &'a self,
        request: &'a RequestId,
        intents: Vec<CallIntent>,
    ) -> InspectedEffects<'a>;
}

/// The result of ending commands in the background.
#[derive(Debug, Default)]
pub struct EndedCommands {
    /// Those that ended, by id.
    pub ended: Vec<String>,
    /// Those that did not, for people.
    pub left: Vec<String>,
}

/// Completes once the commands have ended, or have had their time.
pub type EndingCommands<'a> = Pin<Box<dyn Future<Output = EndedCommands> + Send + 'a>>;

/// Completes once the command that does nothing has ended.
pub type TrialCommand<'a> = Pin<Box<dyn Future<Output = Result<(), ToolError>> + Send + 'a>>;

/// The commands that run beside calls: background shells and lasting terminals.
pub trait BackgroundCommands: Send + Sync + 'static {
    /// Ends all of them for the owner, or only the one with this id. Those that have ended are not mentioned.
    fn end_commands<'a>(&'a self, only: Option<&'a str>) -> EndingCommands<'a>;

    /// Kills the processes of this request's call that still run. Names those that SIGKILL does not end. Blocks.
    fn kill_processes(&self, request: &RequestId) -> Vec<String>;

    /// Runs a command that does nothing, in the same way as a call's. `policy_denied` if commands are refused here.
    fn run_trial_command(&self) -> TrialCommand<'_>;
}

/// The catalogs of the home and their changes.
pub trait CatalogSource: Send + Sync + 'static {
    /// Returns the current entries.
    fn catalog_items(&self, kind: CatalogKind) -> Vec<CatalogEntry>;
    /// Returns a receiver that changes with the catalogs; `None` if changes are not noticed.
    fn subscribe_catalog(&self) -> Option<tokio::sync::watch::Receiver<u64>>;
}
