//! A workspace with a repository, a plain git beside it that nothing is switched off in, and traps.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use punie_core::ids::RequestId;
use punie_handlers::git::{COMMIT_HOOKS, GitDeps, RepoLocks, tools};
use punie_handlers::shell::{self, ShellDeps};
use punie_home::Home;
use punie_host::Workspace;
use punie_host::local::child_log::NoChildLog;
use punie_host::local::confinement::Confinement;
use punie_host::local::hook_environment::HookWrappers;
use punie_host::local::local_terminals::{LocalTerminalSetup, LocalTerminals};
use punie_host::terminals::TerminalClient;
use punie_text::output::OutputStore;
use punie_text::redact::Redactor;
use punie_tool::request::{ErrorCode, ToolReply};
use punie_tool::{ToolContext, ToolError, ToolRegistry};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::program::make_program;
use crate::harness::tools::{build_registry, call_tool, call_with, reply_text};

/// A workspace with a repository in `repo`, and a place outside it.
pub struct Bench {
    pub inside: TempDir,
    pub outside: TempDir,
    pub outputs: OutputStore,
    pub tools: ToolRegistry,
}

impl Bench {
    pub fn new() -> Self {
        let inside = tempfile::tempdir().expect("a folder");
        let outside = tempfile::tempdir().expect("a folder");
        let (tools, outputs) = bench_tools(inside.path(), outside.path(), &system_path());
        let bench = Self {
            inside,
            outside,
            outputs,
            tools,
        };
        fs::create_dir(bench.repo()).expect("a folder");
        bench.git(&["init", "-q", "-b", "main"]);
        bench.git(&["config", "user.name", "Ada"]);
        bench.git(&["config", "user.email", "ada@example.org"]);
        bench.write("a.txt", "one\ntwo\n");
        bench.git(&["add", "a.txt"]);
        bench.git(&["commit", "-q", "-m", "first"]);
        bench
    }

    pub fn repo(&self) -> PathBuf {
        self.inside
            .path()
            .canonicalize()
            .expect("real")
            .join("repo")
    }

    pub fn write(&self, path: &str, content: &str) {
        let path = self.repo().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(path, content).expect("a file");
    }

    /// git as a user would run it, with nothing switched off.
    pub fn plain(&self, folder: &Path, arguments: &[&str]) -> Output {
        Command::new("git")
            .args(arguments)
            .current_dir(folder)
            .env("HOME", self.outside.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .envs([
                ("GIT_AUTHOR_NAME", "Ada"),
                ("GIT_AUTHOR_EMAIL", "ada@example.org"),
            ])
            .envs([
                ("GIT_COMMITTER_NAME", "Ada"),
                ("GIT_COMMITTER_EMAIL", "ada@example.org"),
            ])
            .output()
            .expect("git is needed for these tests")
    }

    pub fn git_in(&self, folder: &Path, arguments: &[&str]) -> bool {
        self.plain(folder, arguments).status.success()
    }

    pub fn git(&self, arguments: &[&str]) {
        let output = self.plain(&self.repo(), arguments);
        assert!(
            output.status.success(),
            "git {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// What plain git prints, without the end of its last line.
    pub fn told(&self, arguments: &[&str]) -> String {
        String::from_utf8_lossy(&self.plain(&self.repo(), arguments).stdout)
            .trim_end()
            .to_owned()
    }

    /// A commit of everything there is.
    pub fn commit_all(&self, message: &str) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", message]);
        self.told(&["rev-parse", "HEAD"])
    }

    pub async fn ask(&self, tool: &str, args: Value) -> Result<ToolReply, ToolError> {
        call_tool(&self.tools, tool, args).await
    }

    pub async fn answer(&self, tool: &str, args: Value) -> String {
        match self.ask(tool, args.clone()).await {
            Ok(reply) => reply_text(&reply).to_owned(),
            Err(refused) => panic!("{tool} {args}: {refused}"),
        }
    }

    pub async fn refused(&self, tool: &str, args: Value) -> ToolError {
        match self.ask(tool, args.clone()).await {
            Ok(reply) => panic!("{tool} {args}: {}", reply_text(&reply)),
            Err(refused) => refused,
        }
    }

    /// A refusal with this code; its text.
    pub async fn refused_as(&self, tool: &str, args: Value, code: ErrorCode) -> String {
        let refused = self.refused(tool, args.clone()).await;
        assert_eq!(refused.stable_code(), code, "{tool} {args}: {refused}");
        refused.model_text().to_owned()
    }

    /// A call that is taken back before it began.
    pub async fn cancelled(&self, tool: &str, args: Value) {
        let cx = ToolContext::for_detached_call(RequestId::new());
        cx.cancel.cancel();
        let refused = call_with(&self.tools, tool, args, cx)
            .await
            .expect_err("a cancel");
        assert_error!(refused, Cancelled; "{tool}");
    }

    /// A program that says that it ran, by a file outside the workspace.
    pub fn payload(&self) -> (String, PathBuf) {
        let mark = self.outside.path().join("ran");
        let program = self.outside.path().join("payload.sh");
        let script = format!(
            "#!/bin/sh\ntouch '{}'\ncat 2>/dev/null\nexit 0\n",
            mark.display()
        );
        make_program(&program, &script);
        (program.display().to_string(), mark)
    }

    /// A hook that runs these lines.
    pub fn hook(&self, name: &str, lines: &str) {
        let hook = self.repo().join(".git/hooks").join(name);
        make_program(&hook, &format!("#!/bin/sh\n{lines}\n"));
    }

    /// Plain git runs the payload; none of the tools does.
    pub async fn never_runs(&self, mark: &Path, plain: &[&str]) {
        self.plain(&self.repo(), plain);
        assert!(
            mark.exists(),
            "the trap must work with plain git {plain:?}, or this test shows nothing"
        );
        fs::remove_file(mark).expect("a mark");
        self.no_tool_runs(mark).await;
    }

    /// None of the tools leaves the mark. Those that change the repository come last.
    pub async fn no_tool_runs(&self, mark: &Path) {
        for (tool, args) in cases! {
            ("GitStatus", json!({"path": "repo"})),
            ("GitDiff", json!({"path": "repo"})),
            ("GitDiff", json!({"path": "repo", "staged": true})),
            ("GitDiff", json!({"path": "repo", "from": "HEAD"})),
            ("GitDiff", json!({"path": "repo/a.txt", "max_chars": 1000})),
            ("GitLog", json!({"path": "repo"})),
            ("GitLog", json!({"path": "repo/a.txt"})),
            ("GitShow", json!({"path": "repo"})),
            ("GitShow", json!({"path": "repo/a.txt"})),
            ("GitBlame", json!({"path": "repo/a.txt"})),
            ("git_status", json!({"path": "repo"})),
            ("git_diff", json!({"path": "repo"})),
            ("git_diff", json!({"path": "repo", "staged": true})),
            ("git_log", json!({"path": "repo"})),
            ("get_git_status", json!({"path": "repo"})),
            ("get_diff", json!({"path": "repo"})),
            ("GitAdd", json!({"paths": ["repo/a.txt"]})),
            ("git_add_commit", json!({"paths": ["repo"], "message": "all"})),
        } {
            self.touch();
            let answer = self.ask(tool, args.clone()).await;
            assert!(!mark.exists(), "{tool} {args} ran the payload: {answer:?}");
        }
    }

    /// Makes every file look changed to git, so that it compares contents.
    pub fn touch(&self) {
        let file = fs::File::options()
            .append(true)
            .open(self.repo().join("a.txt"))
            .expect("a file");
        file.set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(5))
            .expect("a time");
    }
}

/// The tests' own PATH.
pub fn system_path() -> String {
    std::env::var("PATH").expect("a PATH")
}

pub fn bench_tools(inside: &Path, home: &Path, search_path: &str) -> (ToolRegistry, OutputStore) {
    let workspace = Workspace::open_roots(&[inside.to_owned()]).expect("a workspace");
    tools_in(workspace, home, search_path)
}

pub fn tools_in(
    workspace: Workspace,
    home: &Path,
    search_path: &str,
) -> (ToolRegistry, OutputStore) {
    let outputs = OutputStore::open_output_folder(&home.join("outputs")).expect("a store");
    let terminals = local_terminals(home, search_path, &outputs);
    let own = Home::open_home(&home.join("punie")).expect("a home");
    let wrappers = HookWrappers::install(&own.hooks_dir(), &COMMIT_HOOKS, terminals.clone());
    let client: Arc<dyn TerminalClient> = Arc::new(terminals.clone());
    let commands = shell::tools(ShellDeps {
        terminals: client,
        workspace: workspace.clone(),
        shells: Arc::default(),
        apps: terminals,
        home: own,
        redactor: Redactor::default(),
        command_rules: String::new(),
        apps_obstacle: None,
    });
    let deps = GitDeps {
        workspace,
        search_path: search_path.to_owned(),
        home: home.to_owned(),
        outputs: outputs.clone(),
        redactor: Redactor::default(),
        repo_locks: RepoLocks::default(),
        hook_wrappers: Some(wrappers.expect("installed")),
        confinement: Confinement::default(),
    };
    let entries = tools(deps).into_iter().chain(commands);
    (build_registry(entries.collect()), outputs)
}

fn local_terminals(home: &Path, search_path: &str, store: &OutputStore) -> LocalTerminals {
    let home = home.display().to_string();
    let variables = [
        ("PATH", search_path),
        ("HOME", &home),
        ("SHELL", "/opt/shell"),
        ("USER", "ada"),
        ("TZ", "Europe/Berlin"),
        ("GIT_SSL_CAINFO", "/opt/company's.pem"),
    ];
    let setup = LocalTerminalSetup {
        base_env: variables
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec(),
        store: store.clone(),
        redactor: Redactor::default(),
        log: Arc::new(NoChildLog),
        confinement: Confinement::default(),
    };
    LocalTerminals::new(setup).expect("a thread")
}

/// A git token as a scanner would find it, built from parts so that none finds it here.
pub fn token() -> String {
    format!("ghp_{}", "Ab3".repeat(12))
}
