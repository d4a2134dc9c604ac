//! A runner in this process with tools that no device has, for faults that no real tool should have.

use std::sync::Arc;
use std::time::Duration;

use punie_core::clock::ExpiryClock;
use punie_core::ids::{LeaseId, RequestId};
use punie_engine::audit::{AuditLog, AuditPaths, AuditRetention};
use punie_engine::backend::{
    CatalogEntry, CatalogKind, ConvexBackend, DeviceCredentials, HttpFunctions, TransportOptions,
};
use punie_engine::journal::{BackendIdentity, Journal};
use punie_engine::runner::{
    BackgroundCommands, CatalogSource, Clock, EndedCommands, EndingCommands, InspectedEffects,
    LeftoverCleanup, Runner, RunnerError, RunnerParts, RunnerSettings, ShutdownSignal, ToolThreads,
    TrialCommand, wake_channel,
};
use punie_home::{
    ApprovalQuestions, BackendTokens, CanaryFile, DeviceIdentity, Home, OwnerSwitches,
    RunnerPeople, SupervisionStore,
};
use punie_host::local::confinement::Confinement;
use punie_host::permission::PermissionGate;
use punie_text::output::OutputStore;
use punie_text::redact::Redactor;
use punie_tool::{CallIntent, IntentOutcome, NoObserver, ToolRegistry};
use tokio::task::JoinSet;

use super::instant_backend::InstantBackend;
use super::stage::RunnerFixture;
use super::stepped_time::SteppedTime;

/// A runner that runs in this process.
pub struct RunnerInProcess {
    stop: ShutdownSignal,
    running: JoinSet<Result<(), RunnerError>>,
}

impl RunnerInProcess {
    /// Starts a runner as the fixture's device, with these tools.
    pub fn start(setup: &RunnerFixture, tools: ToolRegistry, settings: RunnerSettings) -> Self {
        Self::with_tools(setup, tools, settings, |_| {})
    }

    /// Starts a runner with some parts changed.
    pub fn with_tools(
        setup: &RunnerFixture,
        tools: ToolRegistry,
        settings: RunnerSettings,
        change: impl FnOnce(&mut RunnerParts),
    ) -> Self {
        Self::build_runner(
            setup,
            &setup.setting.url,
            TransportOptions::default(),
            tools,
            settings,
            change,
        )
    }

    /// Starts a runner at another address, with some parts changed.
    pub fn with_at(
        setup: &RunnerFixture,
        url: &str,
        tools: ToolRegistry,
        settings: RunnerSettings,
        change: impl FnOnce(&mut RunnerParts),
    ) -> Self {
        Self::build_runner(
            setup,
            url,
            TransportOptions::default(),
            tools,
            settings,
            change,
        )
    }

    /// Starts a runner in stepped time, which waits for its backend calls and its journal writes.
    pub fn with_stepped_time(
        setup: &RunnerFixture,
        url: &str,
        tools: ToolRegistry,
        settings: RunnerSettings,
        time: &mut SteppedTime,
        change: impl FnOnce(&mut RunnerParts),
    ) -> Self {
        Self::with_at(setup, url, tools, settings, |parts| {
            parts.backend = Arc::new(InstantBackend(Arc::clone(&parts.backend)));
            time.wait_for_journal(parts.journal.clone());
            change(parts);
        })
    }

    /// Starts a runner at another address and with other transport options.
    pub fn start_at(
        setup: &RunnerFixture,
        url: &str,
        way: TransportOptions,
        tools: ToolRegistry,
        settings: RunnerSettings,
    ) -> Self {
        Self::build_runner(setup, url, way, tools, settings, |_| {})
    }

    /// Starts a runner with all options given.
    pub fn build_runner(
        setup: &RunnerFixture,
        url: &str,
        way: TransportOptions,
        tools: ToolRegistry,
        settings: RunnerSettings,
        change: impl FnOnce(&mut RunnerParts),
    ) -> Self {
        let home = Home::open_home(&setup.setting.home).expect("a home");
        let identity = DeviceIdentity::load_or_create(&home).expect("an identity");
        let functions = HttpFunctions::new(url, way).expect("an address");
        let credentials = DeviceCredentials {
            identity,
            name: "inside".to_owned(),
            // A folder of its own: every runner begins without a session.
            tokens: BackendTokens::for_backend(&home, LeaseId::random().as_str()),
            redactor: Redactor::default(),
        };
        let backend = ConvexBackend::new(functions, credentials, None, Duration::from_mins(1));
        let backend_at = BackendIdentity {
            address: url.to_owned(),
            id: None,
            adopts_unassigned: true,
        };
        let mut parts = RunnerParts {
            backend: Arc::new(backend),
            journal: Journal::open_for_backend(&home.journal_file(), &backend_at)
                .expect("a journal"),
            audit: AuditLog::open(
                AuditPaths::within_folder(&home.audit_dir()),
                AuditRetention {
                    age: Duration::from_hours(24),
                    bytes: 1 << 20,
                    clock: ExpiryClock::default(),
                },
                None,
            )
            .expect("a thread"),
            request_auth: None,
            registry: Arc::new(tools),
            titles: None,
            call_records: None,
            finished_calls: None,
            gate: Arc::new(PermissionGate::default()),
            redactor: Redactor::default(),
            outputs: OutputStore::open_output_folder(&home.outputs_dir()).expect("a folder"),
            lease: LeaseId::random(),
            survivors: Arc::new(NoApprover),
            background_commands: Arc::new(NoApprover),
            canary_file: CanaryFile::in_home(&home),
            catalog: Arc::new(NoApprover),
            settings,
            sleep_inhibitor: None,
            clock: Clock::system(),
            expiry: ExpiryClock::default(),
            confinement: Arc::new(Confinement::default()),
            switches: OwnerSwitches::in_home(&home),
            approvals: ApprovalQuestions::in_home(&home),
            people: RunnerPeople::default(),
            supervision: SupervisionStore::in_home(&home),
            watchdog: None,
            observer: Arc::new(NoObserver),
            tool_threads: ToolThreads::default(),
        };
        change(&mut parts);
        let stop = ShutdownSignal::new();
        let runner = Runner::new(parts, wake_channel());
        let mut running = JoinSet::new();
        let asked = stop.clone();
        running.spawn(async move { runner.run_until_stopped(&asked).await });
        Self { stop, running }
    }

    /// Stops the runner, which must not have ended before.
    pub async fn stop(mut self) {
        assert!(
            self.running.try_join_next().is_none(),
            "the runner ended by itself"
        );
        self.stop.request_stop();
        let ended = self.running.join_next().await.expect("it ran");
        ended.expect("it did not panic").expect("it ended well");
    }
}

struct NoApprover;

impl LeftoverCleanup for NoApprover {
    fn end_leftover(&self, _request: &RequestId, _identity: &str) -> bool {
        true
    }
    fn end_unrecorded(&self, _request: &RequestId) {}
    fn inspect_effects<'a>(
        &'a self,
        _request: &'a RequestId,
        _intents: Vec<CallIntent>,
    ) -> InspectedEffects<'a> {
        Box::pin(std::future::ready(IntentOutcome::Untouched))
    }
}

impl BackgroundCommands for NoApprover {
    fn end_commands<'a>(&'a self, _only: Option<&'a str>) -> EndingCommands<'a> {
        Box::pin(std::future::ready(EndedCommands::default()))
    }
    fn kill_processes(&self, _request: &RequestId) -> Vec<String> {
        Vec::new()
    }
    fn run_trial_command(&self) -> TrialCommand<'_> {
        Box::pin(std::future::ready(Ok(())))
    }
}

impl CatalogSource for NoApprover {
    fn catalog_items(&self, _kind: CatalogKind) -> Vec<CatalogEntry> {
        Vec::new()
    }
    fn subscribe_catalog(&self) -> Option<tokio::sync::watch::Receiver<u64>> {
        None
    }
}

/// The default settings of a runner with these changes.
pub fn settings_with(change: impl FnOnce(&mut RunnerSettings)) -> RunnerSettings {
    let mut settings = RunnerSettings::default();
    change(&mut settings);
    settings
}
