//! Assembles the host: the tools with all that they work on.

use std::sync::Arc;

use super::configured_servers::configured_servers;
use super::confinement_setup::confinement_setup;
#[cfg(unix)]
use super::protected_path_records::HomeRecords;
#[cfg(feature = "packages")]
use super::self_mod_setup::open_self_mod;
#[cfg(feature = "packages")]
use super::settings::open_packages;
use super::settings::open_trash;
use super::terminal_setup::open_terminals;
#[cfg(feature = "signals")]
use super::user_signals::signal_deps;
use super::workspaces::{log_missing_folders, open_workspace, session_folders};
use super::{adapters, masked_values, permission_rules, shell_records};
use crate::cli::exit::{CommandError, Exit};
use crate::cli::logging;
use crate::config::{Config, ProcessEnvironment};
use punie_core::clock::ExpiryClock;
use punie_editor::{AttachedEditors, EditorOverlay};
use punie_engine::journal::Journal;
use punie_handlers::plugin::{PluginDeps, PluginHost};
use punie_handlers::state::background_tasks::{NoTasks, TaskBoard};
use punie_handlers::{self, file, git, search, shell, sqlite, state, terminal, user};
#[cfg(feature = "packages")]
use punie_handlers::{self_mod, store};
use punie_home::{ApprovalQuestions, Home, PeopleAsker, RunnerPeople, SecretStore};
use punie_host::local::confinement::Confinement;
use punie_host::local::local_files::LocalFiles;
use punie_host::local::local_terminals::LocalTerminals;
use punie_host::local::running_program::running_program;
use punie_host::network_proxy::{HostAsker, HostGate};
use punie_host::permission::{GatePolicy, PermissionGate, SessionGate};
use punie_host::worker::WorkerProgram;
use punie_host::{FileClient, FileViews, ReachableFolders, Workspace};
use punie_text::output::{OutputLimits, OutputStore};
use punie_text::redact::Redactor;
use punie_tool::{BeforeImages, ToolRegistry};
use punie_undo::{BeforeImageStore, Trash};

/// The host with its tools, shared by `call`, `tools` and the runner.
pub struct ToolHost {
    pub base: HostBase,
    pub registry: Arc<ToolRegistry>,
    pub gate: Arc<PermissionGate>,
    /// Lets sessions work in their folders.
    pub(super) sessions: SessionGate,
    pub plugins: PluginHost,
}

/// Assembles the host. Processes are recorded in the journal, if there is one; the tools also use connected editors.
pub fn assemble_host(
    config: &Config,
    home: &Home,
    environment: &ProcessEnvironment,
    board: Arc<dyn TaskBoard>,
    journal: Option<&Journal>,
    expiry: &ExpiryClock,
    editors: &AttachedEditors,
) -> anyhow::Result<ToolHost> {
    let base = HostBase::open(config, home, environment, journal, expiry)?;
    editors.set_workspace(base.workspace.clone());
    let registry = base.build_registry(config, home, environment, board, editors)?;
    let registry = Arc::new(registry);
    let plugin_deps = PluginDeps {
        terminals: base.terminals.clone(),
        workspace: base.workspace.clone(),
        home: home.clone(),
        redactor: base.redactor.clone(),
    };
    let servers = configured_servers(config);
    let plugins = PluginHost::load_stored(plugin_deps, Arc::clone(&registry), servers);
    let rules = permission_rules::load_policy_rules(home, &base.workspace, &registry)?;
    let rules = Arc::new(rules);
    let folders = session_folders(
        config,
        home,
        environment,
        &base.workspace,
        Arc::clone(&rules),
    );
    base.reachable.add_folders(&folders.allowed());
    let repositories = folders.allowed_repositories(None);
    base.confinement.open_repositories(None, repositories);
    let sessions = SessionGate::new(
        folders,
        base.reachable.clone(),
        base.confinement.clone(),
        base.people.clone(),
        config.policy.patience,
    );
    let host_questions = host_asker(config, &base);
    let hosts = HostGate::new(Some(Arc::clone(&rules)), Some(host_questions));
    base.confinement.network_proxy().set_gate(hosts);
    let policy = GatePolicy {
        active_rules: rules,
        workspace: base.workspace.clone(),
        terminals: base.terminals.clone(),
    };
    let asked = permission_rules::parse_ask_list(config, &registry)?;
    let gate = PermissionGate::with_asked_calls(asked)
        .with_confinement(base.confinement.clone())
        .with_policy(policy);
    let gate = Arc::new(gate);
    base.checkers
        .judge_by(adapters::command_judge(&gate, &registry));
    Ok(ToolHost {
        base,
        registry,
        gate,
        sessions,
        plugins,
    })
}

/// Asks people about hosts that commands want to reach.
fn host_asker(config: &Config, base: &HostBase) -> HostAsker {
    let patience = config.policy.patience;
    let redactor = base.redactor.clone();
    HostAsker {
        people: base.people.clone(),
        mask: Arc::new(move |text| redactor.mask(text).0.into_owned()),
        patience: Arc::new(move || patience),
    }
}

type FileAccess = (Arc<dyn FileClient>, Option<Arc<dyn FileViews>>);

/// The parts of a host on which its tools are built.
pub struct HostBase {
    /// Masks secrets.
    pub redactor: Redactor,
    /// Stores the full output of clipped results.
    pub outputs: OutputStore,
    pub(super) workspace: Workspace,
    /// The workspaces, and the folders of sessions.
    pub(super) reachable: ReachableFolders,
    /// The confinement of commands.
    pub(super) confinement: Confinement,
    pub terminals: LocalTerminals,
    /// The background shells.
    pub(super) shells: Arc<shell::ShellList>,
    /// The terminals that outlive their call.
    pub(super) lasting: Arc<terminal::TerminalList>,
    /// The dependencies of the git tools.
    pub(super) git: git::GitDeps,
    /// The before-images and removed files.
    pub(super) trash: Trash,
    #[cfg(feature = "packages")]
    expiry: ExpiryClock,
    /// The before-images and snapshots of calls.
    pub(super) before_images: BeforeImageStore,
    /// Asks people, once the runner has given it a way to ask about running calls.
    pub(super) people: PeopleAsker,
    #[cfg(feature = "packages")]
    self_mod: Option<Arc<self_mod::SelfModArea>>,
    /// The dependencies of user signals, with what the owner has set about them.
    #[cfg(feature = "signals")]
    pub(super) signals: user::SignalDeps,
    checkers: file::EditCheckers,
}

impl HostBase {
    fn open(
        config: &Config,
        home: &Home,
        environment: &ProcessEnvironment,
        journal: Option<&Journal>,
        expiry: &ExpiryClock,
    ) -> anyhow::Result<Self> {
        let redactor = masked_values::open_redactor(home, environment)?;
        logging::mask_with(&redactor);
        let limits = OutputLimits::by_clock(expiry);
        let outputs = OutputStore::with_limits(&home.outputs_dir(), limits).map_err(|cause| {
            let text = format!("{}: {cause}", home.outputs_dir().display());
            CommandError::with_exit(Exit::CannotWrite, text)
        })?;
        let workspace = open_workspace(config, environment);
        log_missing_folders(&workspace);
        let reachable = ReachableFolders::new(workspace.clone());
        let setup = confinement_setup(config, home, environment, &workspace);
        let confinement = Confinement::new(setup);
        let variables = environment.variables();
        let terminals = open_terminals(variables, &outputs, &redactor, journal, &confinement)?;
        let trash = open_trash(config, home).with_expiry_clock(expiry);
        let before_images = BeforeImageStore::new(trash.clone(), workspace.clone())
            .with_snapshots(config.trash.snapshots && config.trash.max_mb > 0);
        #[cfg(unix)]
        confinement
            .set_protected_path_records(Arc::new(HomeRecords::new(home, &trash, &reachable)));
        #[cfg(feature = "packages")]
        let self_mod = open_self_mod(config, home, &workspace, journal.is_some())?;
        let hook_wrappers = adapters::install_hook_wrappers(home, &terminals);
        let git = git::GitDeps {
            hook_wrappers,
            ..git_dependencies(environment, &workspace, &outputs, &redactor, &confinement)
        };
        let checkers = file::EditCheckers::new(&config.after_edit, terminals.clone());
        Ok(Self {
            checkers: checkers.map_err(|why| CommandError::with_exit(Exit::Config, why))?,
            #[cfg(feature = "signals")]
            signals: signal_deps(config, home, environment, &redactor),
            redactor,
            outputs,
            workspace,
            reachable,
            confinement,
            terminals,
            shells: shell_records::shell_board(journal),
            lasting: Arc::default(),
            git,
            trash,
            #[cfg(feature = "packages")]
            expiry: expiry.clone(),
            before_images,
            people: PeopleAsker {
                questions: ApprovalQuestions::in_home(home),
                runner: RunnerPeople::default(),
            },
            #[cfg(feature = "packages")]
            self_mod,
        })
    }

    /// Returns the client of the file tools and the views of searches. Staged files come first, if there are any.
    fn put_staged_files_before(&self, client: Arc<EditorOverlay>) -> FileAccess {
        #[cfg(feature = "packages")]
        if let Some(area) = &self.self_mod {
            let views = self_mod::StagedViews(Arc::clone(area));
            let client = self_mod::StagedFileClient::new(client, Arc::clone(area));
            return (Arc::new(client), Some(Arc::new(views)));
        }
        (client, None)
    }

    /// Builds the tools. Their changes go to the trash, if it keeps anything.
    fn build_registry(
        &self,
        config: &Config,
        home: &Home,
        environment: &ProcessEnvironment,
        board: Arc<dyn TaskBoard>,
        editors: &AttachedEditors,
    ) -> anyhow::Result<ToolRegistry> {
        let workspace = &self.workspace;
        let confinement = self.confinement.clone();
        let rules: terminal::CommandRules = Arc::new(move || confinement.describe_rules());
        let client = Arc::new(EditorOverlay::new(
            editors.clone(),
            LocalFiles::new(),
            self.terminals.clone(),
            home.scripts_dir(),
        ));
        let apps_obstacle = adapters::find_apps_obstacle(&self.confinement, environment);
        let worker = worker_program(home, environment)?;
        let (files, views) = self.put_staged_files_before(client.clone());
        let registry = punie_handlers::build_registry(punie_handlers::HandlerDeps {
            file: file::FileDeps::new(files, workspace.clone(), worker.clone())
                .with_checkers(self.checkers.clone()),
            search: search::SearchDeps {
                workspace: workspace.clone(),
                user_ignore: ignore::gitignore::gitconfig_excludes_path(),
                views,
            },
            shell: shell::ShellDeps {
                terminals: client.clone(),
                workspace: workspace.clone(),
                shells: Arc::clone(&self.shells),
                apps: self.terminals.clone(),
                home: home.clone(),
                redactor: self.redactor.clone(),
                command_rules: rules(),
                apps_obstacle,
            },
            terminal: terminal::TerminalDeps {
                terminals: client,
                workspace: workspace.clone(),
                board: Arc::clone(&self.lasting),
                command_rules: rules,
            },
            git: self.git.clone(),
            state: state::StateDeps {
                outputs: self.outputs.clone(),
                board,
            },
            sqlite: sqlite::SqliteDeps {
                workspace: workspace.clone(),
                scratch: home.state_dir().join("scratch"),
                home: home.root_dir().to_owned(),
                redactor: self.redactor.clone(),
                worker,
            },
            user: user::UserDeps {
                people: self.people.clone(),
                redactor: self.redactor.clone(),
                secrets: SecretStore::in_home(home),
                patience: config.questions.patience,
                default_answer: config.questions.default_answer.clone(),
                turns: user::QuestionTurns::default(),
                #[cfg(feature = "signals")]
                signals: self.signals.clone(),
            },
            #[cfg(feature = "packages")]
            store: config.store.enabled.then(|| store::StoreDeps {
                packages: open_packages(config, home).with_expiry_clock(&self.expiry),
            }),
            #[cfg(feature = "packages")]
            self_mod: self.self_mod.clone(),
        })?
        .with_aliases(&self.redactor)
        .with_profile(config.tools.profile);
        if config.trash.max_mb == 0 {
            return Ok(registry);
        }
        let images: Arc<dyn BeforeImages> = Arc::new(self.before_images.clone());
        Ok(registry.with_before_images(&images))
    }
}

/// Assembles the host for a command that runs no requests: without tasks, journal and editors. It deletes nothing for its
/// age.
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
        &ExpiryClock::default(),
        &AttachedEditors::default(),
    )
}

/// Returns this program, to be started as a worker.
fn worker_program(home: &Home, environment: &ProcessEnvironment) -> anyhow::Result<WorkerProgram> {
    let temp_root = home.state_dir().join("scratch");
    Ok(WorkerProgram {
        program: running_program()?,
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
        redactor: redactor.clone(),
        repo_locks: git::RepoLocks::default(),
        hook_wrappers: None,
        confinement: confinement.clone(),
    }
}
