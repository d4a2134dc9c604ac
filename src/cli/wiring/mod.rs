//! The only place where concrete types meet: from the configuration to a machine with tools, and to a runner.

mod board;
mod device;
mod joints;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;

use super::exit::{Exit, Stop};
use crate::acp::local::terminals::{LocalSetup, LocalTerminals};
use crate::acp::permission::InsideWorkspace;
use crate::acp::{LocalClient, Workspace};
use crate::backend::{ConvexBackend, HttpFunctions, TransportOptions};
use crate::config::{Config, Environment};
use crate::handlers::state::board::TaskBoard;
use crate::handlers::{self, file, git, search, shell, sqlite, state, terminal};
use crate::home::{DeviceIdentity, Home, TokenName, Tokens};
use crate::ids::LeaseId;
use crate::journal::Journal;
use crate::output::OutputStore;
use crate::redact::Redactor;
use crate::runner::{Clock, Parts, Runner, Settings, Tasks, wakes};
use crate::tool::{Gate, Registry};

pub use board::NoBoard;
pub use device::{Device, StoredToken};

/// The confinement of commands as it is: none beyond the workspace that the tools themselves keep to.
pub const CONFINEMENT: &str = "none";

/// This machine with its tools: what `call`, `tools` and the runner share.
pub struct Machine {
    /// The tools.
    pub registry: Arc<Registry>,
    /// Who may say no.
    pub gate: Arc<dyn Gate>,
    /// Masks secrets.
    pub redactor: Redactor,
    /// Keeps what is clipped.
    pub outputs: OutputStore,
    /// The processes.
    pub terminals: LocalTerminals,
}

/// Puts the machine together. The journal is told of processes, where there is one.
pub fn machine(
    config: &Config,
    home: &Home,
    environment: &Environment,
    board: Arc<dyn TaskBoard>,
    journal: Option<&Journal>,
) -> anyhow::Result<Machine> {
    let redactor = Redactor::new(known_secrets(home)?);
    let outputs = OutputStore::open(&home.outputs_dir())
        .map_err(|cause| Stop::with(Exit::CannotWrite, format!("{}: {cause}", home.outputs_dir().display())))?;
    let user_home = environment.home().map(std::path::Path::to_owned);
    let workspace = Workspace::open_with_home(&config.workspaces, user_home.as_deref())
        .map_err(|cause| Stop::with(Exit::Config, format!("a workspace cannot be opened: {cause}")))?;
    let terminals = LocalTerminals::new(LocalSetup {
        base_env: environment.entries(),
        store: outputs.clone(),
        filters: joints::masking(&redactor),
        log: joints::child_log(journal),
    })
    .context("no thread for starting processes")?;
    let client = Arc::new(LocalClient::new(workspace.clone(), terminals.clone()));
    let registry = handlers::registry(handlers::Deps {
        file: file::FileDeps { client: client.clone(), workspace: workspace.clone() },
        search: search::SearchDeps { workspace: workspace.clone() },
        shell: shell::ShellDeps::new(client.clone(), workspace.clone()),
        terminal: terminal::TerminalDeps { terminals: client, workspace: workspace.clone() },
        git: git::GitDeps {
            workspace: workspace.clone(),
            search_path: environment.path().to_owned(),
            home: user_home.unwrap_or_default(),
        },
        state: state::StateDeps { outputs: outputs.clone(), board },
        sqlite: sqlite::SqliteDeps { workspace },
    })?;
    Ok(Machine { registry: Arc::new(registry), gate: Arc::new(InsideWorkspace), redactor, outputs, terminals })
}

fn known_secrets(home: &Home) -> anyhow::Result<Vec<crate::redact::Secret<String>>> {
    let tokens = Tokens::of(home);
    let mut known = Vec::new();
    for name in [TokenName::Device, TokenName::Caller, TokenName::Backend] {
        known.extend(tokens.read(name)?);
    }
    Ok(known)
}

/// A runner for this home, with the machine that it works on.
pub struct Assembled {
    /// The runner.
    pub runner: Runner,
    /// The processes, to be ended when the runner has.
    pub terminals: LocalTerminals,
}

/// Puts a runner together.
pub fn runner(
    config: &Config,
    home: &Home,
    environment: &Environment,
    pairing_code: Option<String>,
) -> anyhow::Result<Assembled> {
    let journal = Journal::open(&home.journal_file())?;
    let (clock, lease) = (Clock::system(), LeaseId::random());
    let (waker, woken) = wakes();
    let tasks = Tasks::new(journal.clone(), lease.clone(), waker.clone(), clock.clone());
    let board = Arc::new(board::RunnerBoard::new(tasks));
    let machine = machine(config, home, environment, board.clone(), Some(&journal))?;
    board.know(Arc::clone(&machine.registry));
    let backend = Arc::new(backend(config, home, &machine.redactor, pairing_code)?);
    let parts = Parts {
        backend,
        journal,
        registry: machine.registry,
        gate: machine.gate,
        redactor: machine.redactor,
        outputs: machine.outputs,
        lease,
        survivors: Arc::new(joints::Killer),
        catalog: joints::home_catalog(home),
        settings: settings(config),
        clock,
        confinement: CONFINEMENT.to_owned(),
    };
    Ok(Assembled { runner: Runner::new(parts, waker, woken), terminals: machine.terminals })
}

/// The backend as this device sees it.
pub fn backend(
    config: &Config,
    home: &Home,
    redactor: &Redactor,
    pairing_code: Option<String>,
) -> anyhow::Result<ConvexBackend> {
    let identity = DeviceIdentity::load_or_create(home)?;
    let token = StoredToken::new(Tokens::of(home), redactor.clone());
    Ok(ConvexBackend::new(functions(config)?, Arc::new(Device::new(identity)), Arc::new(token), pairing_code))
}

/// The backend's functions, for whichever side.
pub fn functions(config: &Config) -> anyhow::Result<HttpFunctions> {
    let Some(url) = &config.backend.url else {
        let text = "no backend is set: give --backend-url (PUNIE_BACKEND_URL), or `url` under [backend] in config.toml; \
                    `punie-runner dev` starts one of its own";
        return Err(Stop::with(Exit::Config, text));
    };
    let options =
        TransportOptions { allow_insecure_http: config.backend.allow_insecure_http, ..TransportOptions::default() };
    Ok(HttpFunctions::new(url.as_str(), options)?)
}

fn settings(config: &Config) -> Settings {
    let (poll, limits, millis) = (&config.poll, &config.limits, Duration::from_millis);
    Settings {
        hold: millis(poll.hold_ms),
        active_interval: millis(poll.active_ms),
        active_for: millis(poll.active_for_ms),
        recent_interval: millis(poll.recent_ms),
        recent_for: millis(poll.recent_for_ms),
        idle_interval: millis(poll.idle_ms),
        jitter: poll.jitter,
        retry: (millis(poll.error_base_ms), millis(poll.error_cap_ms)),
        slow_retry: (millis(poll.function_error_min_ms), millis(poll.function_error_max_ms)),
        unauthorized: millis(poll.unauthorized_ms),
        heartbeat: millis(config.backend.heartbeat_ms),
        list_open: millis(config.backend.list_open_ms),
        lease_renew: millis(limits.lease_renew_ms),
        reads: limits.reads,
        total: limits.total,
        queue: limits.queue,
        ttl: millis(limits.ttl_ms),
        drain: millis(limits.drain_ms),
        ..Settings::default()
    }
}
