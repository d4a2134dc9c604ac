//! A runner in this process, of tools that no device has: for faults that no real tool should have.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punie_runner::acp::local::confinement::Confinement;
use punie_runner::acp::permission::InsideWorkspace;
use punie_runner::audit::{Audit, Keep, Places};
use punie_runner::backend::{
    CatalogItem, CatalogKind, ConvexBackend, HttpFunctions, Signer, TokenStore, TransportOptions,
};
use punie_runner::home::{Approvals, DeviceIdentity, Home, Supervision, Switches, fresh_token};
use punie_runner::ids::{DeviceId, LeaseId, RequestId};
use punie_runner::journal::{BackendIdentity, Journal};
use punie_runner::output::OutputStore;
use punie_runner::redact::{Redactor, Secret};
use punie_runner::runner::{
    Catalog, Clock, LookedAfter, Parts, Runner, RunnerError, Settings, Stop, Survivors, ToolThreads, wakes,
};
use punie_runner::tool::{Aftermath, Intent, Registry, Unobserved};
use tokio::task::JoinSet;

use super::stage::Stage;

/// A runner at work in this process.
pub struct Inside {
    stop: Stop,
    running: JoinSet<Result<(), RunnerError>>,
}

impl Inside {
    /// As the device of this stage, with these tools.
    pub fn start(stage: &Stage, tools: Registry, settings: Settings) -> Self {
        Self::with(stage, tools, settings, |_| {})
    }

    /// The same with some parts changed.
    pub fn with(stage: &Stage, tools: Registry, settings: Settings, change: impl FnOnce(&mut Parts)) -> Self {
        Self::made(stage, &stage.setting.url, TransportOptions::default(), tools, settings, change)
    }

    /// The same at another address.
    pub fn with_at(
        stage: &Stage,
        url: &str,
        tools: Registry,
        settings: Settings,
        change: impl FnOnce(&mut Parts),
    ) -> Self {
        Self::made(stage, url, TransportOptions::default(), tools, settings, change)
    }

    /// The same, at another address and by another way.
    pub fn start_at(
        stage: &Stage,
        url: &str,
        way: TransportOptions,
        tools: Registry,
        settings: Settings,
    ) -> Self {
        Self::made(stage, url, way, tools, settings, |_| {})
    }

    fn made(
        stage: &Stage,
        url: &str,
        way: TransportOptions,
        tools: Registry,
        settings: Settings,
        change: impl FnOnce(&mut Parts),
    ) -> Self {
        let home = Home::open(&stage.setting.home).expect("a home");
        let identity = DeviceIdentity::load_or_create(&home).expect("an identity");
        let functions = HttpFunctions::new(url, way).expect("an address");
        let (signer, tokens) = (Arc::new(Device(identity)), Arc::new(InMemory::default()));
        let backend = ConvexBackend::new(functions, signer, tokens, None, Duration::from_mins(1));
        let backend_at = BackendIdentity { address: url.to_owned(), id: None, adopts_unassigned: true };
        let mut parts = Parts {
            backend: Arc::new(backend),
            journal: Journal::open_for(&home.journal_file(), &backend_at).expect("a journal"),
            audit: Audit::open(
                Places::within(&home.audit_dir()),
                Keep { age: Duration::from_hours(24), bytes: 1 << 20 },
                None,
            )
            .expect("a thread"),
            request_auth: None,
            registry: Arc::new(tools),
            gate: Arc::new(InsideWorkspace::default()),
            redactor: Redactor::default(),
            outputs: OutputStore::open(&home.outputs_dir()).expect("a folder"),
            lease: LeaseId::random(),
            survivors: Arc::new(Nobody),
            catalog: Arc::new(Nobody),
            settings,
            clock: Clock::system(),
            confinement: Arc::new(Confinement::default()),
            switches: Switches::of(&home),
            approvals: Approvals::of(&home),
            supervision: Supervision::of(&home),
            watchdog: None,
            observer: Arc::new(Unobserved),
            tool_threads: ToolThreads::default(),
        };
        change(&mut parts);
        let (stop, runner) = (Stop::new(), Runner::new(parts, wakes()));
        let mut running = JoinSet::new();
        let asked = stop.clone();
        running.spawn(async move { runner.run(&asked).await });
        Self { stop, running }
    }

    /// Stops it; it must not have ended before.
    pub async fn stop(mut self) {
        assert!(self.running.try_join_next().is_none(), "the runner ended by itself");
        self.stop.ask();
        let ended = self.running.join_next().await.expect("it ran");
        ended.expect("it did not panic").expect("it ended well");
    }
}

struct Device(DeviceIdentity);

impl Signer for Device {
    fn device_id(&self) -> &DeviceId {
        self.0.id()
    }
    fn public_key(&self) -> String {
        self.0.public_key_base64().to_owned()
    }
    fn sign(&self, text: &str) -> String {
        self.0.sign(text)
    }
    fn name(&self) -> String {
        "inside".to_owned()
    }
}

#[derive(Default)]
struct InMemory(Mutex<Option<Secret<String>>>);

impl TokenStore for InMemory {
    fn load(&self) -> Option<Secret<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    fn renew(&self) -> io::Result<Secret<String>> {
        let token = fresh_token();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(token.clone());
        Ok(token)
    }
}

struct Nobody;

impl Survivors for Nobody {
    fn end(&self, _request: &RequestId, _identity: &str) -> bool {
        true
    }
    fn look_after<'a>(&'a self, _request: &'a RequestId, _intents: Vec<Intent>) -> LookedAfter<'a> {
        Box::pin(std::future::ready(Aftermath::Untouched))
    }
}

impl Catalog for Nobody {
    fn items(&self, _kind: CatalogKind) -> Vec<CatalogItem> {
        Vec::new()
    }
    fn changes(&self) -> Option<tokio::sync::watch::Receiver<u64>> {
        None
    }
}

/// The default figures of a runner with these changes.
pub fn settings_with(change: impl FnOnce(&mut Settings)) -> Settings {
    let mut settings = Settings::default();
    change(&mut settings);
    settings
}
