//! The composition root: assembles the concrete types into a host with tools, and into a runner. No other module
//! combines them.

mod approvals;
mod backends;
mod board;
mod confining;
mod device;
mod joints;
mod settings;
mod shells;

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::task::JoinSet;

use super::exit::{self, Exit};
use super::logging;
use crate::acp::editor::{Editors, Overlay};
use crate::acp::local::apps::has_display;
use crate::acp::local::client_tools::LocalPolicy;
use crate::acp::local::confinement::Confinement;
use crate::acp::local::environment;
use crate::acp::local::terminals::{LocalSetup, LocalTerminals};
use crate::acp::permission::{InsideWorkspace, Policy};
use crate::acp::terminals::Ladder;
use crate::acp::{LocalClient, Workspace};
use crate::config::{Config, Environment};
use crate::handlers::state::board::{NoTasks, TaskBoard};
use crate::handlers::{self, file, git, search, shell, sqlite, state, terminal};
use crate::home::{self, Approvals, DeviceIdentity, Home, Secrets, Supervision, Switches, Tokens};
use crate::ids::LeaseId;
use crate::journal::Journal;
use crate::output::OutputStore;
use crate::redact::{Redactor, Secret};
use crate::runner::{Clock, Parts, Runner, Stop, TaskRequests, ToolThreads, Watchdog, wakes};
use crate::tool::{BeforeImages, Registry};
use crate::trash::{self, BeforeImageStore, Trash};
use crate::worker::WorkerProgram;

use backends::device_backend;
pub use backends::{BackendSource, backend, functions, probe, tokens};
pub use confining::confinement;
pub use device::{Device, StoredToken};
pub use settings::{editor_settings, least_free};

/// The host with its tools, shared by `call`, `tools` and the runner.
pub struct Machine {
    /// The tools.
    pub registry: Arc<Registry>,
    /// The permission gate.
    pub gate: Arc<InsideWorkspace>,
    /// Masks secrets.
    pub redactor: Redactor,
    /// Stores the full output of clipped results.
    pub outputs: OutputStore,
    /// The workspaces.
    pub workspace: Workspace,
    /// The dependencies of the git tools.
    pub git: git::GitDeps,
    /// The local terminals.
    pub terminals: LocalTerminals,
    /// The background shells.
    pub shells: Arc<shell::ShellBoard>,
    /// The confinement of commands.
    pub confinement: Confinement,
    /// The before-images and removed files.
    trash: Trash,
}

/// Assembles the host. Processes are recorded in the journal, if there is one; the tools also use connected editors.
pub fn machine(
    config: &Config,
    home: &Home,
    environment: &Environment,
    board: Arc<dyn TaskBoard>,
    journal: Option<&Journal>,
    editors: &Editors,
) -> anyhow::Result<Machine> {
    let redactor = Redactor::new(known_secrets(home)?);
    logging::mask_by(&redactor);
    let outputs = OutputStore::open(&home.outputs_dir()).map_err(|cause| {
        exit::Stop::with(Exit::CannotWrite, format!("{}: {cause}", home.outputs_dir().display()))
    })?;
    let workspace = self::workspace(config, environment)?;
    editors.work_in(workspace.clone());
    let trash = trash(config, home);
    let confinement = confinement(config, home, environment);
    let keeps_removed = config.trash.max_mb > 0;
    let rules = command_rules(config, confinement.clone());
    let terminals = local_terminals(
        LocalSetup {
            base_env: readable(environment.variables()),
            store: outputs.clone(),
            filters: joints::masking(&redactor),
            log: joints::child_log(journal),
            confinement: confinement.clone(),
        },
        &redactor,
    )?;
    let local = LocalClient::new(terminals.clone(), workspace.clone(), LocalPolicy::Deny);
    let client = Arc::new(Overlay::new(editors.clone(), local, home.scripts_dir()));
    let shells = shells::board(journal);
    let git = git_deps(environment, &workspace, &outputs, &redactor, &confinement);
    let worker = worker_program(home, environment)?;
    let registry = handlers::registry(handlers::Deps {
        file: file::FileDeps::new(client.clone(), workspace.clone(), worker.clone()),
        search: search::SearchDeps {
            workspace: workspace.clone(),
            user_ignore: ignore::gitignore::gitconfig_excludes_path(),
        },
        shell: shell::ShellDeps {
            terminals: client.clone(),
            workspace: workspace.clone(),
            shells: Arc::clone(&shells),
            apps: client.clone(),
            home: home.clone(),
            redactor: redactor.clone(),
            command_rules: rules(),
            opens_apps: confinement.permit_app().is_ok()
                && has_display(|name| environment.get(name).is_some_and(|value| !value.is_empty())),
        },
        terminal: terminal::TerminalDeps {
            terminals: client,
            workspace: workspace.clone(),
            board: Arc::default(),
            command_rules: rules,
        },
        git: git.clone(),
        state: state::StateDeps { outputs: outputs.clone(), board },
        sqlite: sqlite::SqliteDeps {
            workspace: workspace.clone(),
            scratch: home.state_dir().join("scratch"),
            home: home.root().to_owned(),
            redactor: redactor.clone(),
            worker,
        },
    })?;
    let registry = if keeps_removed { keeping(registry, &trash, &workspace, &terminals) } else { registry };
    let policy = Policy {
        standing: approvals::rules(home, &workspace, &registry)?,
        workspace: workspace.clone(),
        terminals: terminals.clone(),
    };
    let gate = InsideWorkspace::asking(approvals::asked_about(config, &registry)?);
    Ok(Machine {
        gate: Arc::new(gate.confined(confinement.clone()).ruled(policy)),
        registry: Arc::new(registry),
        redactor,
        outputs,
        workspace,
        git,
        terminals,
        shells,
        confinement,
        trash,
    })
}

/// Assembles the host for a command that runs no requests: without tasks, journal and editors.
pub fn machine_alone(config: &Config, home: &Home, environment: &Environment) -> anyhow::Result<Machine> {
    machine(config, home, environment, Arc::new(NoTasks), None, &Editors::default())
}

/// Returns this program, to be started as a worker.
fn worker_program(home: &Home, environment: &Environment) -> anyhow::Result<WorkerProgram> {
    // The file that runs, also when another version has taken its name.
    let program = if cfg!(target_os = "linux") { "/proc/self/exe".into() } else { std::env::current_exe()? };
    let temp_root = home.state_dir().join("scratch");
    Ok(WorkerProgram { program, temp_root, time_zone: environment.get("TZ").map(ToOwned::to_owned) })
}

/// Builds the dependencies of the git tools.
fn git_deps(
    environment: &Environment,
    workspace: &Workspace,
    outputs: &OutputStore,
    redactor: &Redactor,
    confinement: &Confinement,
) -> git::GitDeps {
    git::GitDeps {
        workspace: workspace.clone(),
        search_path: environment.path().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default(),
        home: environment.user_dir().map(std::path::Path::to_owned).unwrap_or_default(),
        outputs: outputs.clone(),
        filters: joints::masking(redactor),
        turns: git::Turns::default(),
        confinement: confinement.clone(),
    }
}

/// Creates the local terminals. Environment values that are withheld from commands are masked from then on.
fn local_terminals(setup: LocalSetup, redactor: &Redactor) -> anyhow::Result<LocalTerminals> {
    redactor.add_all(environment::withheld(&setup.base_env).into_iter().map(Secret::new));
    let terminals = LocalTerminals::new(setup).context("no thread for starting processes")?;
    terminals.tell_withheld(joints::learning(redactor));
    Ok(terminals)
}

/// Describes for a model the limits of commands, and the trash for removed files.
fn command_rules(config: &Config, confinement: Confinement) -> terminal::CommandRules {
    let added = config.sandbox.write.clone();
    let removed = if config.trash.max_mb > 0 { " What rm removes goes to a trash." } else { "" };
    Arc::new(move || format!("{}{removed}", confinement.describe_rules(&added)))
}

/// Makes the tools and commands store their changes in the trash.
fn keeping(registry: Registry, trash: &Trash, workspace: &Workspace, terminals: &LocalTerminals) -> Registry {
    joints::shims(trash, workspace, terminals);
    let images: Arc<dyn BeforeImages> = Arc::new(BeforeImageStore::new(trash.clone(), workspace.clone()));
    registry.keeping(&images)
}

/// Opens the configured workspaces.
pub fn workspace(config: &Config, environment: &Environment) -> anyhow::Result<Workspace> {
    let user_home = environment.user_dir().map(std::path::Path::to_owned);
    Workspace::open_with_home(&config.workspaces, user_home)
        .map_err(|cause| exit::Stop::with(Exit::Config, format!("a workspace cannot be opened: {cause}")))
}

/// Opens the trash of this home.
pub fn trash(config: &Config, home: &Home) -> Trash {
    let limits = trash::Limits {
        max_bytes: (config.trash.max_mb as u64) << 20,
        keep: Duration::from_hours(24 * config.trash.keep_days as u64),
    };
    Trash::new(home, limits)
}

/// Returns the variables that are UTF-8; others cannot be passed on.
fn readable(variables: &[(OsString, OsString)]) -> Vec<(String, String)> {
    let text =
        |(name, value): &(OsString, OsString)| Some((name.to_str()?.to_owned(), value.to_str()?.to_owned()));
    variables.iter().filter_map(text).collect()
}

fn known_secrets(home: &Home) -> anyhow::Result<Vec<Secret<String>>> {
    let mut known: Vec<_> = DeviceIdentity::key_text(home)?.into_iter().collect();
    match Secrets::of(home).values() {
        Ok(values) => known.extend(values),
        Err(error) if error.cause() == home::Cause::Safety => return Err(error.into()),
        // A secret that cannot be read cannot be given to a command either; only copies elsewhere go unmasked.
        Err(error) => {
            tracing::error!(%error, "the owner's secrets cannot be read; they are neither given nor masked");
        }
    }
    for tokens in Tokens::of_all(home)?.into_iter().chain([Tokens::unassigned(home)]) {
        known.extend(tokens.read_all()?);
    }
    Ok(known)
}

/// An assembled runner with its host.
pub struct Assembled {
    /// The runner.
    pub runner: Runner,
    /// The processes, to be ended after the runner.
    pub processes: Processes,
    /// The tools.
    pub registry: Arc<Registry>,
    /// The journal, which survives a crash.
    pub journal: Journal,
}

/// The processes of a runner, and their housekeeping.
pub struct Processes {
    terminals: LocalTerminals,
    trash: Trash,
    journal: Journal,
    secrets: Secrets,
    redactor: Redactor,
    /// Background shells go on when the runner is told to stop.
    keeps_shells: bool,
}

impl Processes {
    /// Starts background work: reads the login shell's environment, so that the first command need not wait for a slow
    /// profile; keeps the trash within its limits; masks newly stored secrets. Dropping the returned value stops this.
    pub fn warm_up(&self) -> JoinSet<()> {
        let terminals = self.terminals.clone();
        let mut warming = JoinSet::new();
        warming.spawn(async move { terminals.warm_up().await });
        let trash = self.trash.clone();
        warming.spawn(joints::tidying(trash, self.terminals.clone()));
        warming.spawn(joints::hearing_of_secrets(self.secrets.clone(), self.redactor.clone()));
        warming
    }

    /// Awaits the runner, and ends the processes as soon as no call is awaited, during its last deliveries.
    pub async fn serve<T>(&self, stop: &Stop, runner: impl Future<Output = T>) -> T {
        let running = async {
            let ended = runner.await;
            // A runner that failed at its start drained nothing.
            stop.calls_are_over();
            ended
        };
        let ending = async {
            stop.calls_over().await;
            self.end(stop).await;
        };
        tokio::join!(running, ending).0
    }

    /// Ends all processes, including background shells unless the owner keeps them. Each gets two seconds to end by
    /// itself, or none if the stop is hurried. No call is awaited by now.
    async fn end(&self, stop: &Stop) {
        let now_ms = Clock::system().now_ms();
        if let Err(error) = self.journal.shells_stopped(now_ms, self.keeps_shells).await {
            tracing::warn!(%error, "the next life will not know that the shells ended with this one");
        }
        if self.keeps_shells {
            let terminals = self.terminals.clone();
            let left = tokio::task::spawn_blocking(move || terminals.leave_running()).await.unwrap_or(0);
            tracing::info!(
                shells = left,
                "shells in the background go on; the next start takes them up again"
            );
        }
        let ladder = if stop.is_hurried() { Ladder::kill() } else { Ladder::timeout() };
        self.terminals.stop_all(ladder).await;
        self.journal.rest().await;
    }
}

/// Assembles a runner and its host.
pub fn runner(
    config: &Config,
    home: &Home,
    environment: &Environment,
    source: BackendSource,
    pairing_code: Option<String>,
    editors: &Editors,
    tool_threads: &ToolThreads,
) -> anyhow::Result<Assembled> {
    // Created before the host, so that its key is masked.
    let identity = DeviceIdentity::load_or_create(home)?;
    let request_auth = backends::request_auth(config, identity.id())?;
    let left = home::remove_left(home)?;
    if left > 0 {
        tracing::info!(folders = left, "secrets that commands of an earlier life were given are removed");
    }
    let journal = Journal::open_for(&home.journal_file(), &backends::identity(config, home, source)?)?;
    editors.supervise(Supervision::of(home), editor_settings(config).ask);
    let (clock, lease) = (Clock::system(), LeaseId::random());
    let wakes = wakes();
    let tasks = TaskRequests::new(journal.clone(), lease.clone(), wakes.0.clone(), clock.clone());
    let board = Arc::new(board::RunnerBoard::new(tasks));
    let machine = machine(config, home, environment, board.clone(), Some(&journal), editors)?;
    board.know(&machine);
    let taken_up = shells::take_up(&journal, home, &machine.terminals, &machine.outputs, &machine.shells)?;
    let backend = device_backend(config, home, identity.clone(), &machine.redactor, pairing_code)?;
    let processes = Processes {
        trash: machine.trash,
        terminals: machine.terminals,
        journal: journal.clone(),
        secrets: Secrets::of(home),
        redactor: machine.redactor.clone(),
        keeps_shells: config.limits.keep_shells,
    };
    let parts = Parts {
        backend,
        journal: journal.clone(),
        audit: joints::audit(config, home, identity)?,
        request_auth,
        registry: Arc::clone(&machine.registry),
        gate: machine.gate,
        redactor: machine.redactor,
        outputs: machine.outputs,
        lease,
        survivors: Arc::new(joints::Aftercare { taken_up, workspace: machine.workspace, git: machine.git }),
        catalog: joints::home_catalog(home),
        settings: settings::settings(config),
        clock,
        confinement: Arc::new(machine.confinement),
        switches: Switches::of(home),
        approvals: Approvals::of(home),
        supervision: Supervision::of(home),
        watchdog: Watchdog::from_variables(|name| text_variable(environment, name)),
        observer: Arc::new(editors.clone()),
        tool_threads: tool_threads.clone(),
    };
    Ok(Assembled { runner: Runner::new(parts, wakes), processes, registry: machine.registry, journal })
}

fn text_variable(environment: &Environment, name: &str) -> Option<String> {
    let found = environment.variables().iter().find(|(known, _)| known == name)?;
    found.1.to_str().map(str::to_owned)
}
