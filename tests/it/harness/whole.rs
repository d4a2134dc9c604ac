//! Builds the registry of all tools over temporary folders, as `cli::wiring` does for a real device.

use std::sync::Arc;

use punie_editor::{AttachedEditors, EditorOverlay};
use punie_handlers::state::background_tasks::NoTasks;
use punie_handlers::{self, file, git, search, shell, sqlite, state, terminal, user};
#[cfg(feature = "packages")]
use punie_handlers::{self_mod, store};
use punie_home::{ApprovalQuestions, Home, PeopleAsker, RunnerPeople, SecretStore};
use punie_host::Workspace;
use punie_host::local::child_log::NoChildLog;
use punie_host::local::local_files::LocalFiles;
use punie_host::local::local_terminals::{LocalTerminalSetup, LocalTerminals};
#[cfg(feature = "signals")]
use punie_signals::{Category, SignalPlaces, System};
use punie_text::output::OutputStore;
use punie_text::redact::Redactor;
use punie_tool::ToolRegistry;
use tempfile::TempDir;

/// The registry, and the temporary folders that its tools use.
pub struct AllTools {
    pub registry: ToolRegistry,
    _folders: TempDir,
}

/// Builds the tools of a device whose owner switched on nothing.
pub fn all_tools() -> AllTools {
    assemble_tools(false)
}

/// Builds the tools of a device whose owner switched on everything.
pub fn whole_switched_on() -> AllTools {
    assemble_tools(true)
}

fn assemble_tools(is_switched_on: bool) -> AllTools {
    let folders = tempfile::tempdir().expect("a folder for the test");
    let workspace = Workspace::open_roots(&[folders.path().to_owned()]).expect("a workspace");
    let outputs =
        OutputStore::open_output_folder(&folders.path().join("outputs")).expect("a store");
    let terminals = LocalTerminals::new(LocalTerminalSetup {
        base_env: Vec::new(),
        store: outputs.clone(),
        redactor: Redactor::default(),
        log: Arc::new(NoChildLog),
        confinement: punie_host::local::confinement::Confinement::default(),
    })
    .expect("a thread");
    let client = Arc::new(EditorOverlay::new(
        AttachedEditors::default(),
        LocalFiles::new(),
        terminals.clone(),
        folders.path().join("scripts"),
    ));
    let home = Home::open_home(&folders.path().join("home")).expect("a home");
    #[cfg(feature = "packages")]
    let area = self_mod::SelfModArea::open(&home, &workspace, folders.path(), false)
        .expect("a folder of the workspace");
    let user = user_deps(&home);
    #[cfg(feature = "signals")]
    if is_switched_on {
        let off = user.signals.settings.current();
        user.signals.settings.replace(user::SignalSettings {
            switched_on: Category::ALL.to_vec(),
            ..off
        });
    }
    let registry = punie_handlers::build_registry(punie_handlers::HandlerDeps {
        file: file::FileDeps::new(
            client.clone(),
            workspace.clone(),
            super::process::worker_program(),
        ),
        search: search::SearchDeps {
            workspace: workspace.clone(),
            user_ignore: None,
            views: None,
        },
        shell: shell::ShellDeps {
            terminals: client.clone(),
            workspace: workspace.clone(),
            shells: Arc::default(),
            apps: terminals,
            home: home.clone(),
            redactor: Redactor::default(),
            command_rules: String::new(),
            apps_obstacle: None,
        },
        terminal: terminal::TerminalDeps {
            terminals: client,
            workspace: workspace.clone(),
            board: Arc::default(),
            command_rules: Arc::new(String::new),
        },
        git: git::GitDeps {
            workspace: workspace.clone(),
            search_path: String::new(),
            home: folders.path().to_owned(),
            outputs: outputs.clone(),
            redactor: Redactor::default(),
            repo_locks: git::RepoLocks::default(),
            hook_wrappers: None,
            confinement: punie_host::local::confinement::Confinement::default(),
        },
        state: state::StateDeps {
            outputs,
            board: Arc::new(NoTasks),
        },
        sqlite: sqlite::SqliteDeps {
            workspace,
            scratch: folders.path().join("scratch"),
            home: folders.path().join("home"),
            redactor: Redactor::default(),
            worker: super::process::worker_program(),
        },
        user,
        #[cfg(feature = "packages")]
        store: is_switched_on.then(|| store::StoreDeps {
            packages: punie_home::PackageStore::in_home(&home, std::time::Duration::ZERO),
        }),
        #[cfg(feature = "packages")]
        self_mod: is_switched_on.then_some(area),
    })
    .expect("no two tools of one name");
    AllTools {
        registry,
        _folders: folders,
    }
}

/// The dependencies of the tools that ask a person, for this home and without a runner.
pub fn user_deps(home: &Home) -> user::UserDeps {
    user::UserDeps {
        people: PeopleAsker {
            questions: ApprovalQuestions::in_home(home),
            runner: RunnerPeople::default(),
        },
        redactor: Redactor::default(),
        secrets: SecretStore::in_home(home),
        patience: std::time::Duration::from_secs(30),
        default_answer: None,
        turns: user::QuestionTurns::default(),
        #[cfg(feature = "signals")]
        signals: user::SignalDeps {
            reader: user::SignalReader {
                people: Arc::new(punie_home::IdentityMapStore::in_home(home)),
                redactor: Redactor::default(),
            },
            consents: punie_home::SignalConsents::in_home(home),
            settings: user::LiveSignalSettings::new(user::SignalSettings {
                switched_on: Vec::new(),
                places: SignalPlaces::below(
                    System::Linux,
                    home.signals_dir(),
                    home.signals_dir(),
                    std::time::UNIX_EPOCH,
                ),
            }),
        },
    }
}
