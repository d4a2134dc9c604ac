//! The composition root: assembles the concrete types into a host with tools, and into a runner. No other module
//! combines them.

mod adapters;
mod backends;
mod confinement_setup;
mod device;
mod permission_rules;
mod settings;
mod shell_records;
mod task_board;

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::task::JoinSet;

use super::exit::{self, Exit};
use super::logging;
use crate::acp::editor::{AttachedEditors, EditorOverlay};
use crate::acp::local::command_environment;
use crate::acp::local::confinement::Confinement;
use crate::acp::local::desktop_apps::has_display;
use crate::acp::local::local_client_tools::LocalPolicy;
use crate::acp::local::local_terminals::{LocalTerminalSetup, LocalTerminals};
use crate::acp::permission::{GatePolicy, PermissionGate};
use crate::acp::terminals::StopSequence;
use crate::acp::{LocalClient, Workspace};
use crate::config::{Config, ProcessEnvironment};
use crate::handlers::state::background_tasks::{NoTasks, TaskBoard};
use crate::handlers::{self, file, git, search, shell, sqlite, state, terminal};
use crate::home::{
    self, ApprovalQuestions, BackendTokens, DeviceIdentity, Home, OwnerSwitches, SecretStore,
    SupervisionStore,
};
use crate::ids::LeaseId;
use crate::journal::Journal;
use crate::output::OutputStore;
use crate::redact::{Redactor, Secret};
use crate::runner::{
    Clock, Runner, RunnerParts, ShutdownSignal, TaskRequests, ToolThreads, Watchdog, wake_channel,
};
use crate::tool::{BeforeImages, ToolRegistry};
use crate::trash::{self, BeforeImageStore, Trash};
use crate::worker::WorkerProgram;

use backends::device_backend;
pub use backends::{
    BackendSource, backend_tokens, convex_backend, http_functions, probe_configured,
};
pub use confinement_setup::build_confinement;
pub use device::{IdentitySigner, StoredToken};
pub use settings::{editor_settings, min_free_bytes};

/// The host with its tools, shared by `call`, `tools` and the runner.
pub struct ToolHost {
    /// The tools.
    pub registry: Arc<ToolRegistry>,
    /// The permission gate.
    pub gate: Arc<PermissionGate>,
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
    pub shells: Arc<shell::ShellList>,
    /// The confinement of commands.
    pub confinement: Confinement,
    /// The before-images and removed files.
    trash: Trash,
}

/// Assembles the host. Processes are recorded in the journal, if there is one; the tools also use connected editors.
pub fn assemble_host(
    config: &Config,
    home: &Home,
    environment: &ProcessEnvironment,
    board: Arc<dyn TaskBoard>,
    journal: Option<&Journal>,
    editors: &AttachedEditors,
) -> anyhow::Result<ToolHost> {
    let redactor = Redactor::new(load_known_secrets(home)?);
    logging::mask_with(&redactor);
    let outputs = OutputStore::open_output_folder(&home.outputs_dir()).map_err(|cause| {
        exit::CommandError::with_exit(
            Exit::CannotWrite,
            format!("{}: {cause}", home.outputs_dir().display()),
        )
    })?;
    let workspace = self::open_workspace(config, environment)?;
    editors.set_workspace(workspace.clone());
    let trash = open_trash(config, home);
    let confinement = build_confinement(config, home, environment);
    let keeps_removed = config.trash.max_mb > 0;
    let rules = command_rules_text(config, confinement.clone());
    let terminals = create_terminals(
        LocalTerminalSetup {
            base_env: utf8_variables(environment.variables()),
            store: outputs.clone(),
            filters: adapters::masking_filters(&redactor),
            log: adapters::open_child_log(journal),
            confinement: confinement.clone(),
        },
        &redactor,
    )?;
    let local = LocalClient::new(terminals.clone(), workspace.clone(), LocalPolicy::Deny);
    let client = Arc::new(EditorOverlay::new(
        editors.clone(),
        local,
        home.scripts_dir(),
    ));
    let shells = shell_records::shell_board(journal);
    let git = git_dependencies(environment, &workspace, &outputs, &redactor, &confinement);
    let worker = worker_program(home, environment)?;
    let registry = handlers::build_registry(handlers::HandlerDeps {
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
            opens_apps: confinement.check_app_allowed().is_ok()
                && has_display(|name| environment.get(name).is_some_and(|value| !value.is_empty())),
        },
        terminal: terminal::TerminalDeps {
            terminals: client,
            workspace: workspace.clone(),
            board: Arc::default(),
            command_rules: rules,
        },
        git: git.clone(),
        state: state::StateDeps {
            outputs: outputs.clone(),
            board,
        },
        sqlite: sqlite::SqliteDeps {
            workspace: workspace.clone(),
            scratch: home.state_dir().join("scratch"),
            home: home.root_dir().to_owned(),
            redactor: redactor.clone(),
            worker,
        },
    })?;
    let registry = if keeps_removed {
        keep_changes_in_trash(registry, &trash, &workspace, &terminals)
    } else {
        registry
    };
    let policy = GatePolicy {
        active_rules: permission_rules::load_policy_rules(home, &workspace, &registry)?,
        workspace: workspace.clone(),
        terminals: terminals.clone(),
    };
    let gate =
        PermissionGate::with_asked_calls(permission_rules::parse_ask_list(config, &registry)?);
    Ok(ToolHost {
        gate: Arc::new(
            gate.with_confinement(confinement.clone())
                .with_policy(policy),
        ),
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
pub fn assemble_lone_host(
    config: &Config,
    home: &Home,
    environment: &ProcessEnvironment,
) -> anyhow::Result<ToolHost> {
    assemble_host(
        config,
        home,
        environment,
        Arc::new(NoTasks),
        None,
        &AttachedEditors::default(),
    )
}

/// Returns this program, to be started as a worker.
fn worker_program(home: &Home, environment: &ProcessEnvironment) -> anyhow::Result<WorkerProgram> {
    // The file that runs, also when another version has taken its name.
    let program = if cfg!(target_os = "linux") {
        "/proc/self/exe".into()
    } else {
        std::env::current_exe()?
    };
    let temp_root = home.state_dir().join("scratch");
    Ok(WorkerProgram {
        program,
        temp_root,
        time_zone: environment.get("TZ").map(ToOwned::to_owned),
    })
}

/// Builds the dependencies of the git tools.
fn git_dependencies(
    environment: &ProcessEnvironment,
    workspace: &Workspace,
    outputs: &OutputStore,
    redactor: &Redactor,
    confinement: &Confinement,
) -> git::GitDeps {
    git::GitDeps {
        workspace: workspace.clone(),
        search_path: environment
            .path_variable()
            .map(|path| path.to_string_lossy().into_owned())
            .unwrap_or_default(),
        home: environment
            .user_dir()
            .map(std::path::Path::to_owned)
            .unwrap_or_default(),
        outputs: outputs.clone(),
        filters: adapters::masking_filters(redactor),
        repo_locks: git::RepoLocks::default(),
        confinement: confinement.clone(),
    }
}

/// Creates the local terminals. Environment values that are withheld from commands are masked from then on.
fn create_terminals(
    setup: LocalTerminalSetup,
    redactor: &Redactor,
) -> anyhow::Result<LocalTerminals> {
    redactor.add_secrets(
        command_environment::withheld_values(&setup.base_env)
            .into_iter()
            .map(Secret::new),
    );
    let terminals = LocalTerminals::new(setup).context("no thread for starting processes")?;
    terminals.set_withheld_observer(adapters::mask_withheld_values(redactor));
    Ok(terminals)
}

/// Describes for a model the limits of commands, and the trash for removed files.
fn command_rules_text(config: &Config, confinement: Confinement) -> terminal::CommandRules {
    let added = config.sandbox.write.clone();
    let removed = if config.trash.max_mb > 0 {
        " What rm removes goes to a trash."
    } else {
        ""
    };
    Arc::new(move || format!("{}{removed}", confinement.describe_rules(&added)))
}

/// Makes the tools and commands store their changes in the trash.
fn keep_changes_in_trash(
    registry: ToolRegistry,
    trash: &Trash,
    workspace: &Workspace,
    terminals: &LocalTerminals,
) -> ToolRegistry {
    adapters::install_trash_shims(trash, workspace, terminals);
    let images: Arc<dyn BeforeImages> =
        Arc::new(BeforeImageStore::new(trash.clone(), workspace.clone()));
    registry.with_before_images(&images)
}

/// Opens the configured workspaces.
pub fn open_workspace(
    config: &Config,
    environment: &ProcessEnvironment,
) -> anyhow::Result<Workspace> {
    let user_home = environment.user_dir().map(std::path::Path::to_owned);
    Workspace::open_with_home(&config.workspaces, user_home).map_err(|cause| {
        exit::CommandError::with_exit(
            Exit::Config,
            format!("a workspace cannot be opened: {cause}"),
        )
    })
}

/// Opens the trash of this home.
pub fn open_trash(config: &Config, home: &Home) -> Trash {
    let limits = trash::TrashLimits {
        max_bytes: (config.trash.max_mb as u64) << 20,
        keep: Duration::from_hours(24 * config.trash.keep_days as u64),
    };
    Trash::new(home, limits)
}

/// Returns the variables that are UTF-8; others cannot be passed on.
fn utf8_variables(variables: &[(OsString, OsString)]) -> Vec<(String, String)> {
    let text = |(name, value): &(OsString, OsString)| {
        Some((name.to_str()?.to_owned(), value.to_str()?.to_owned()))
    };
    variables.iter().filter_map(text).collect()
}

fn load_known_secrets(home: &Home) -> anyhow::Result<Vec<Secret<String>>> {
    let mut known: Vec<_> = DeviceIdentity::private_key_text(home)?
        .into_iter()
        .collect();
    match SecretStore::in_home(home).secret_values() {
        Ok(values) => known.extend(values),
        Err(error) if error.failure_kind() == home::HomeFailureKind::Safety => {
            return Err(error.into());
        }
        // A secret that cannot be read cannot be given to a command either; only copies elsewhere go unmasked.
        Err(error) => {
            tracing::error!(%error, "the owner's secrets cannot be read; they are neither given nor masked");
        }
    }
    for tokens in BackendTokens::for_all_backends(home)?
        .into_iter()
        .chain([BackendTokens::unassigned_tokens(home)])
    {
        known.extend(tokens.read_all_tokens()?);
    }
    Ok(known)
}

/// An assembled runner with its host.
pub struct AssembledRunner {
    /// The runner.
    pub runner: Runner,
    /// The processes, to be ended after the runner.
    pub processes: RunnerProcesses,
    /// The tools.
    pub registry: Arc<ToolRegistry>,
    /// The journal, which survives a crash.
    pub journal: Journal,
}

/// The processes of a runner, and their housekeeping.
pub struct RunnerProcesses {
    terminals: LocalTerminals,
    trash: Trash,
    journal: Journal,
    secrets: SecretStore,
    redactor: Redactor,
    /// Background shells go on when the runner is told to stop.
    keeps_shells: bool,
}

impl RunnerProcesses {
    /// Starts background work: reads the login shell's environment, so that the first command need not wait for a slow
    /// profile; keeps the trash within its limits; masks newly stored secrets. Dropping the returned value stops this.
    pub fn start_background_work(&self) -> JoinSet<()> {
        let terminals = self.terminals.clone();
        let mut warming = JoinSet::new();
        warming.spawn(async move { terminals.warm_up().await });
        let trash = self.trash.clone();
        warming.spawn(adapters::remove_expired_hourly(
            trash,
            self.terminals.clone(),
        ));
        warming.spawn(adapters::mask_new_secrets(
            self.secrets.clone(),
            self.redactor.clone(),
        ));
        warming
    }

    /// Awaits the runner, and ends the processes as soon as no call is awaited, during its last deliveries.
    pub async fn serve_runner<T>(
        &self,
        stop: &ShutdownSignal,
        runner: impl Future<Output = T>,
    ) -> T {
        let running = async {
            let ended = runner.await;
            // A runner that failed at its start drained nothing.
            stop.mark_calls_over();
            ended
        };
        let ending = async {
            stop.wait_for_calls_over().await;
            self.end_processes(stop).await;
        };
        tokio::join!(running, ending).0
    }

    /// Ends all processes, including background shells unless the owner keeps them. Each gets two seconds to end by
    /// itself, or none if the stop is hurried. No call is awaited by now.
    async fn end_processes(&self, stop: &ShutdownSignal) {
        let now_ms = Clock::system_clock().now_ms();
        if let Err(error) = self
            .journal
            .record_shells_stopping(now_ms, self.keeps_shells)
            .await
        {
            tracing::warn!(%error, "the next life will not know that the shells ended with this one");
        }
        if self.keeps_shells {
            let terminals = self.terminals.clone();
            let left = tokio::task::spawn_blocking(move || terminals.leave_all_running())
                .await
                .unwrap_or(0);
            tracing::info!(
                shells = left,
                "shells in the background go on; the next start takes them up again"
            );
        }
        let ladder = if stop.is_hurried() {
            StopSequence::kill_at_once()
        } else {
            StopSequence::for_timeout()
        };
        self.terminals.stop_all_commands(ladder).await;
        self.journal.checkpoint_wal().await;
    }
}

/// Assembles a runner and its host.
pub fn assemble_runner(
    config: &Config,
    home: &Home,
    environment: &ProcessEnvironment,
    source: BackendSource,
    pairing_code: Option<String>,
    editors: &AttachedEditors,
    tool_threads: &ToolThreads,
) -> anyhow::Result<AssembledRunner> {
    // Created before the host, so that its key is masked.
    let identity = DeviceIdentity::load_or_create(home)?;
    let request_auth = backends::configured_request_auth(config, identity.device_id())?;
    let left = home::remove_stale_mounts(home)?;
    if left > 0 {
        tracing::info!(
            folders = left,
            "secrets that commands of an earlier life were given are removed"
        );
    }
    let journal = Journal::open_for_backend(
        &home.journal_file(),
        &backends::backend_identity(config, home, source)?,
    )?;
    editors.set_supervision(SupervisionStore::in_home(home), editor_settings(config).ask);
    let (clock, lease) = (Clock::system_clock(), LeaseId::random());
    let wakes = wake_channel();
    let tasks = TaskRequests::new(
        journal.clone(),
        lease.clone(),
        wakes.0.clone(),
        clock.clone(),
    );
    let board = Arc::new(task_board::RunnerTaskBoard::new(tasks));
    let machine = assemble_host(
        config,
        home,
        environment,
        board.clone(),
        Some(&journal),
        editors,
    )?;
    board.attach_host(&machine);
    let taken_up = shell_records::adopt_shells(
        &journal,
        home,
        &machine.terminals,
        &machine.outputs,
        &machine.shells,
    )?;
    let backend = device_backend(
        config,
        home,
        identity.clone(),
        &machine.redactor,
        pairing_code,
    )?;
    let processes = RunnerProcesses {
        trash: machine.trash,
        terminals: machine.terminals,
        journal: journal.clone(),
        secrets: SecretStore::in_home(home),
        redactor: machine.redactor.clone(),
        keeps_shells: config.limits.keep_shells,
    };
    let parts = RunnerParts {
        backend,
        journal: journal.clone(),
        audit: adapters::open_audit(config, home, identity)?,
        request_auth,
        registry: Arc::clone(&machine.registry),
        gate: machine.gate,
        redactor: machine.redactor,
        outputs: machine.outputs,
        lease,
        survivors: Arc::new(adapters::CrashCleanup {
            adopted: taken_up,
            workspace: machine.workspace,
            git: machine.git,
        }),
        catalog: adapters::home_catalog(home),
        settings: settings::runner_settings(config),
        clock,
        confinement: Arc::new(machine.confinement),
        switches: OwnerSwitches::in_home(home),
        approvals: ApprovalQuestions::in_home(home),
        supervision: SupervisionStore::in_home(home),
        watchdog: Watchdog::from_variables(|name| text_variable(environment, name)),
        observer: Arc::new(editors.clone()),
        tool_threads: tool_threads.clone(),
    };
    Ok(AssembledRunner {
        runner: Runner::new(parts, wakes),
        processes,
        registry: machine.registry,
        journal,
    })
}

fn text_variable(environment: &ProcessEnvironment, name: &str) -> Option<String> {
    let found = environment
        .variables()
        .iter()
        .find(|(known, _)| known == name)?;
    found.1.to_str().map(str::to_owned)
}
