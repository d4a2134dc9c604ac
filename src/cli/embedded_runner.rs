//! An embedded backend and a runner in this process, paired with each other, for `dev` and the runner in the
//! background.

use std::convert::Infallible;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::acp::{self, EditorHost};
use super::call_line;
use super::context::CliContext;
use super::embedded_tokens;
use super::wiring::{self, AssembledRunner, BackendSource, RunnerProcesses};
use crate::config::{Config, WorkspaceRule};
use punie_core::ids::DeviceId;
use punie_dev_backend::{BackendClock, DevBackend, DevBackendOptions, MAX_CONNECTIONS};
use punie_editor::AttachedEditors;
use punie_engine::backend::Backend as _;
use punie_engine::journal::Journal;
use punie_engine::runner::{ShutdownSignal, ToolThreads};
use punie_home::{BackendTokens, DeviceIdentity, EmbeddedBackendAddress, Home};
use punie_text::redact::Redactor;

/// A started backend, and a runner that is assembled for it but does not run yet.
pub struct EmbeddedRunner {
    pub backend: DevBackend,
    pub tokens: BackendTokens,
    /// The configuration with this backend.
    pub config: Config,
    /// The paired device.
    pub device: DeviceId,
    assembled: AssembledRunner,
    editors: AttachedEditors,
    /// Names the backend's address to other commands of this home until it is dropped.
    _address: Option<EmbeddedBackendAddress>,
}

/// The running runner, for what goes on beside it.
pub struct RunningRunner<'a> {
    pub processes: &'a RunnerProcesses,
    pub journal: Journal,
    /// The editors that are connected to it.
    pub editors: AttachedEditors,
    /// Cancelled once the backend accepts this device.
    pub connected: CancellationToken,
    /// Cancelled once the backend has the catalogs of this device.
    pub published: CancellationToken,
}

impl EmbeddedRunner {
    /// Starts the backend and assembles the runner. The caller holds the lock of the home.
    pub async fn start(
        context: &CliContext,
        home: &Home,
        port: u16,
        workspaces: WorkspaceRule,
    ) -> anyhow::Result<Self> {
        let backend = start_dev_backend(home, port).await?;
        let tokens = embedded_tokens::prepare_tokens(&backend, home)?;
        let config = context
            .with_embedded_backend(backend.listen_url())
            .effective_config(workspaces)?;
        let code = backend.pairing_code()?;
        let identity = DeviceIdentity::load_or_create(home)?;
        let device = identity.device_id().clone();
        // This goes first, because a request for a device without a session is refused.
        wiring::convex_backend(&config, home, identity, &Redactor::default(), code)?
            .open_session()
            .await?;
        let editors = AttachedEditors::default();
        let assembled = wiring::assemble_runner(
            &config,
            home,
            context.environment(),
            BackendSource::Embedded,
            None,
            &editors,
            &ToolThreads::default(),
        )?;
        let address = EmbeddedBackendAddress::publish(home, backend.listen_url())?;
        Ok(Self {
            backend,
            tokens,
            config,
            device,
            assembled,
            editors,
            _address: address,
        })
    }

    /// Runs until stopped, with `beside`. Editors may connect meanwhile.
    pub async fn run_beside(
        self,
        home: &Home,
        stop: &ShutdownSignal,
        beside: impl AsyncFnOnce(RunningRunner<'_>) -> Infallible,
    ) -> anyhow::Result<()> {
        let AssembledRunner {
            runner,
            processes,
            registry,
            journal,
        } = self.assembled;
        let runner =
            runner.with_call_listener(call_line::finished_call_lines(self.config.log.level));
        let host = Arc::new(EditorHost::already_running(
            home,
            &self.editors,
            registry,
            journal.clone(),
        ));
        let _door = acp::admit_editors(&self.config, home, host, self.editors.clone(), stop);
        let _warming = processes.start_background_work();
        let running = RunningRunner {
            processes: &processes,
            journal,
            editors: self.editors,
            connected: runner.connected_token(),
            published: runner.published_token(),
        };
        let running = async {
            tokio::select! {
                biased;
                never = beside(running) => match never {},
                ended = Box::pin(runner.run_until_stopped(stop)) => ended,
            }
        };
        let ended = Box::pin(processes.serve(stop, running)).await;
        self.backend.stop_server().await;
        Ok(ended?)
    }
}

/// Starts the embedded backend on this home's database.
pub async fn start_dev_backend(home: &Home, port: u16) -> anyhow::Result<DevBackend> {
    let options = DevBackendOptions {
        db: home.dev_backend_file(),
        port: EmbeddedBackendAddress::choose_port(home, port),
        clock: BackendClock::from_system(),
        holds: true,
        max_connections: MAX_CONNECTIONS,
        faults: None,
    };
    Ok(DevBackend::start_server(options).await?)
}
