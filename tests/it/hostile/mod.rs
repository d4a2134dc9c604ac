//! Hostile inputs: their list (`inputs.txt`, `table`), and the tests that belong to no other module. Tests of commands
//! use the real tools with confinement on. They need a kernel with Landlock, and fail without it.
#![cfg(target_os = "linux")]

mod absence;
mod at_work;
mod caches;
mod closed_view;
mod consent;
mod done;
mod editing;
mod flooded;
mod homes;
mod kept_from_commands;
mod network;
mod packed;
mod paths;
mod planted;
mod processes;
mod protected;
mod protocol;
mod races;
mod shell;
mod shown;
mod table;
mod toolchains;
mod without_links;
mod working_trees;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use punie_handlers::git::{self, GitDeps};
use punie_handlers::shell::{self as shell_tools, ShellDeps, ShellList};
use punie_home::Home;
use punie_host::Workspace;
use punie_host::local::child_log::NoChildLog;
use punie_host::local::confinement::{Confinement, ConfinementSetup};
use punie_host::local::hook_environment::HookWrappers;
use punie_host::local::local_terminals::{LocalTerminalSetup, LocalTerminals};
use punie_host::terminals::TerminalClient;
use punie_sandbox::{NetworkAccess, RequiredLevel, SandboxRules};
use punie_text::output::OutputStore;
use punie_text::redact::Redactor;
use punie_tool::request::ToolReply;
use punie_tool::{ToolError, ToolRegistry};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::tools;

/// A user's folder with secrets, a workspace beside it, and tools whose commands are confined.
struct HostileFixture {
    registry: ToolRegistry,
    confinement: Confinement,
    folder: Arc<TempDir>,
}

impl HostileFixture {
    fn new() -> Self {
        Self::with_rules(NetworkAccess::Loopback, |_| {})
    }

    /// Starts a fixture with changed sandbox rules.
    fn with_rules(network: NetworkAccess, change: impl FnOnce(&mut SandboxRules)) -> Self {
        Self::start_in(Self::lay_out(), network, &[], change)
    }

    /// Creates a user's folder with secrets, and a workspace beside it.
    fn lay_out() -> Arc<TempDir> {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("a resolved path");
        for made in ["user/.ssh", "user/notes", "work", "outside"] {
            std::fs::create_dir_all(root.join(made)).expect("made");
        }
        for (file, text) in [
            ("user/.ssh/id_rsa", "the-private-key"),
            ("user/.netrc", "the-password"),
            ("user/.bashrc", "rc"),
            ("user/.gitconfig", ""),
            ("user/notes/list", "a note"),
            ("outside/kept", "kept"),
        ] {
            std::fs::write(root.join(file), text).expect("written");
        }
        Arc::new(folder)
    }

    /// Starts another runner with the same home and user.
    fn beside(&self) -> Self {
        let folder = Arc::clone(&self.folder);
        Self::start_in(folder, NetworkAccess::Loopback, &[], |_| {})
    }

    fn start_in(
        folder: Arc<TempDir>,
        network: NetworkAccess,
        variables: &[(String, String)],
        change: impl FnOnce(&mut SandboxRules),
    ) -> Self {
        let root = folder.path().canonicalize().expect("a resolved path");
        let home = Home::open_home(&root.join("punie")).expect("a home");
        let mut rules = SandboxRules {
            workspaces: vec![root.join("work")],
            user_home: Some(root.join("user")),
            shown: vec![home.skills_dir(), home.hooks_dir()],
            pipes: home.shells_dir(),
            search_path: std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
                .collect(),
            network,
            ..SandboxRules::minimal(home.root_dir().to_owned(), home.temp_dir())
        };
        change(&mut rules);
        let self_test = home.self_test_dir();
        let confinement = Confinement::new(ConfinementSetup {
            rules,
            require: RequiredLevel::Full,
            confine: true,
            apps: false,
            java_trust_store: home.authorities_dir().join("java.jks"),
            self_test,
        });
        let entry = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let store = OutputStore::open_output_folder(&home.outputs_dir()).expect("a store");
        let path = std::env::var("PATH").expect("a PATH");
        let terminals = LocalTerminals::new(LocalTerminalSetup {
            base_env: [
                entry("PATH", &path),
                entry("HOME", &root.join("user").display().to_string()),
            ]
            .into_iter()
            .chain(variables.iter().cloned())
            .collect(),
            store: store.clone(),
            redactor: Redactor::default(),
            log: Arc::new(NoChildLog),
            confinement: confinement.clone(),
        })
        .expect("a thread");
        terminals.enable_persistence(home.shells_dir());
        let client: Arc<dyn TerminalClient> = Arc::new(terminals.clone());
        let wrappers =
            HookWrappers::install(&home.hooks_dir(), &git::COMMIT_HOOKS, terminals.clone());
        let workspace = Workspace::open_roots(&[root.join("work")]).expect("a workspace");
        let git = git::tools(GitDeps {
            workspace: workspace.clone(),
            search_path: path,
            home: root.join("user"),
            outputs: store,
            redactor: Redactor::default(),
            repo_locks: git::RepoLocks::default(),
            hook_wrappers: Some(wrappers.expect("installed")),
            confinement: confinement.clone(),
        });
        let entries = shell_tools::tools(ShellDeps {
            terminals: client,
            workspace,
            shells: Arc::new(ShellList::new()),
            apps: terminals,
            home,
            redactor: Redactor::default(),
            command_rules: String::new(),
            apps_obstacle: None,
        });
        Self {
            registry: ToolRegistry::new([entries, git]).expect("the names differ"),
            confinement,
            folder,
        }
    }

    /// Returns a path in the folder that holds the workspace, the user's folder and the home.
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().expect("real").join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect(name)
    }

    async fn call(&self, args: Value) -> Result<ToolReply, ToolError> {
        tools::call_tool(&self.registry, "Bash", args).await
    }

    /// Runs a command, and returns its output with the tool's notes. `$OUT` is the folder that holds the workspace.
    async fn bash(&self, command: &str) -> String {
        let args = json!({"command": command, "env": {"OUT": self.path("")}});
        tools::reply_text(&self.call(args).await.expect(command)).to_owned()
    }

    /// Returns the status of a background shell.
    async fn shell_status(&self, id: &str) -> String {
        let status = json!({"shell_id": id});
        let told = tools::call_tool(&self.registry, "ShellStatus", status).await;
        tools::reply_text(&told.expect("it is there")).to_owned()
    }

    /// Compiles `escapes.c` in the sandbox, runs it with these words, and returns its output.
    async fn escape(&self, words: &str) -> String {
        let source = include_str!("escapes.c");
        std::fs::write(self.path("work/escapes.c"), source).expect("written");
        self.bash(&format!(
            "[ -x escapes ] || cc -w -o escapes escapes.c || exit; ./escapes {words}"
        ))
        .await
    }
}

/// Compiles a C program of these tests into a folder, outside any sandbox.
fn compile_program(name: &str, folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/hostile")
        .join(format!("{name}.c"));
    let program = folder.join(name);
    let done = Command::new("cc")
        .arg("-o")
        .arg(&program)
        .arg(source)
        .status()
        .expect("a C compiler");
    assert!(done.success(), "{name} does not compile");
    program
}
