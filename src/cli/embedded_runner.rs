//! An embedded backend and a runner in this process, paired with each other, for `dev` and `mcp`. Not here: what these
//! commands print and serve.

use super::context::CliContext;
use super::embedded_tokens;
use super::wiring::{self, AssembledRunner, BackendSource};
use crate::acp::editor::AttachedEditors;
use crate::backend::Backend as _;
use crate::config::{Config, WorkspaceRule};
use crate::dev_backend::{BackendClock, DevBackend, DevBackendOptions, MAX_CONNECTIONS};
use crate::home::{BackendTokens, DeviceIdentity, EmbeddedBackendAddress, Home};
use crate::ids::DeviceId;
use crate::redact::Redactor;
use crate::runner::ToolThreads;

/// A started backend, and a runner that is assembled for it but does not run yet.
pub struct EmbeddedRunner {
    /// The backend.
    pub backend: DevBackend,
    /// Its tokens.
    pub tokens: BackendTokens,
    /// The configuration with this backend.
    pub config: Config,
    /// The paired device.
    pub device: DeviceId,
    /// The runner.
    pub assembled: AssembledRunner,
    /// The editors that may connect to it.
    pub editors: AttachedEditors,
    /// Names the backend's address to other commands of this home until it is dropped.
    pub _address: Option<EmbeddedBackendAddress>,
}

impl EmbeddedRunner {
    /// Starts the backend and assembles the runner. The caller holds the lock of the home.
    pub async fn start(context: &CliContext, home: &Home, port: u16) -> anyhow::Result<Self> {
        let backend = start_dev_backend(home, port).await?;
        let tokens = embedded_tokens::prepare_tokens(&backend, home)?;
        let config = context
            .with_embedded_backend(backend.listen_url())
            .effective_config(WorkspaceRule::OrCurrentDir)?;
        let code = Some(backend.pairing_code().to_owned());
        let identity = DeviceIdentity::load_or_create(home)?;
        let device = identity.device_id().clone();
        // This goes first, because a request for a device without a session is refused.
        wiring::convex_backend(&config, home, identity, &Redactor::default(), code.clone())?
            .open_session()
            .await?;
        let editors = AttachedEditors::default();
        let assembled = wiring::assemble_runner(
            &config,
            home,
            context.environment(),
            BackendSource::Embedded,
            code,
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
}

/// Starts the embedded backend on this home's database.
pub async fn start_dev_backend(home: &Home, port: u16) -> anyhow::Result<DevBackend> {
    let options = DevBackendOptions {
        db: home.dev_backend_file(),
        port: EmbeddedBackendAddress::choose_port(home, port),
        clock: BackendClock::from_system(),
        production_errors: false,
        holds: true,
        max_connections: MAX_CONNECTIONS,
        faults: None,
    };
    Ok(DevBackend::start_server(options).await?)
}
