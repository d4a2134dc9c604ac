//! What the Bash tool costs over starting bash. `cargo bench --bench shell`.
#![cfg(target_os = "linux")]
#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark starts the processes that it compares with"
)]

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use divan::Bencher;
use punie_core::ids::RequestId;
use punie_handlers::shell::{self, ShellDeps, ShellList};
use punie_home::Home;
use punie_host::Workspace;
use punie_host::local::child_log::NoChildLog;
use punie_host::local::confinement::{Confinement, ConfinementSetup};
use punie_host::local::local_terminals::{LocalTerminalSetup, LocalTerminals};
use punie_host::terminals::TerminalClient;
use punie_sandbox::{ConfinementLevel, NetworkAccess, RequiredLevel, SandboxRules};
use punie_text::output::OutputStore;
use punie_text::redact::Redactor;
use punie_tool::{ToolContext, ToolRegistry};
use serde_json::json;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::runtime::Runtime;

/// Nothing, and a megabyte of lines.
const COMMANDS: &[&str] = &["true", "seq 150000"];

fn main() {
    divan::main();
}

#[divan::bench(args = COMMANDS)]
fn tokio_output(bencher: Bencher<'_, '_>, command: &str) {
    let runtime = Runtime::new().expect("a runtime");
    bencher.bench_local(|| {
        let mut bash = Command::new("/bin/bash");
        bash.args(["--noprofile", "--norc", "-c", command])
            .stdin(Stdio::null());
        runtime.block_on(async { bash.output().await.expect("bash") })
    });
}

#[divan::bench(args = COMMANDS)]
fn bash_tool(bencher: Bencher<'_, '_>, command: &str) {
    let (runtime, place) = (
        Runtime::new().expect("a runtime"),
        tempfile::tempdir().expect("a folder"),
    );
    let tools = shell_tools(&place, place.path(), Confinement::default());
    let (entry, args) = (
        tools.find("Bash").expect("a tool"),
        json!({"command": command}).to_string(),
    );
    bencher.bench_local(|| {
        let call = entry.decode_call(&args).expect("its arguments");
        runtime
            .block_on(call.run_call(ToolContext::for_detached_call(RequestId::new())))
            .expect("an answer")
    });
}

/// The same, confined: the first call, which waits for the self-test, is not counted.
#[divan::bench(args = COMMANDS)]
fn confined_bash_tool(bencher: Bencher<'_, '_>, command: &str) {
    confined(bencher, command, &[]);
}

/// The same in a workspace with protected paths, which commands find read-only.
#[divan::bench(args = COMMANDS)]
fn confined_bash_tool_in_a_repository(bencher: Bencher<'_, '_>, command: &str) {
    confined(
        bencher,
        command,
        &[
            ".git/config",
            ".git/hooks/pre-push",
            ".vscode/tasks.json",
            ".envrc",
        ],
    );
}

fn confined(bencher: Bencher<'_, '_>, command: &str, files: &[&str]) {
    let (runtime, place) = (
        Runtime::new().expect("a runtime"),
        tempfile::tempdir().expect("a folder"),
    );
    let home = Home::open_home(&place.path().join("home")).expect("a home");
    let work = place.path().join("work");
    std::fs::create_dir(&work).expect("a folder");
    for file in files.iter().map(|file| work.join(file)) {
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        std::fs::write(file, "").expect("written");
    }
    let confinement = Confinement::new(ConfinementSetup {
        rules: SandboxRules {
            workspaces: vec![work],
            user_home: std::env::home_dir(),
            pipes: home.shells_dir(),
            network: NetworkAccess::Loopback,
            ..SandboxRules::minimal(home.root_dir().to_owned(), home.temp_dir())
        },
        require: RequiredLevel::Full,
        confine: true,
        apps: false,
        java_trust_store: home.authorities_dir().join("java.jks"),
        self_test: home.self_test_dir(),
    });
    assert_eq!(
        runtime.block_on(confinement.level()),
        ConfinementLevel::Full,
        "this system confines"
    );
    let tools = shell_tools(&place, &place.path().join("work"), confinement);
    let (entry, args) = (
        tools.find("Bash").expect("a tool"),
        json!({"command": command}).to_string(),
    );
    bencher.bench_local(|| {
        let call = entry.decode_call(&args).expect("its arguments");
        runtime
            .block_on(call.run_call(ToolContext::for_detached_call(RequestId::new())))
            .expect("an answer")
    });
}

fn shell_tools(place: &TempDir, work: &Path, confinement: Confinement) -> ToolRegistry {
    let path = std::env::var("PATH").unwrap_or_default();
    let setup = LocalTerminalSetup {
        base_env: vec![("PATH".to_owned(), path)],
        store: OutputStore::open_output_folder(&place.path().join("outputs")).expect("a store"),
        redactor: Redactor::default(),
        log: Arc::new(NoChildLog),
        confinement,
    };
    let terminals = LocalTerminals::new(setup).expect("a thread");
    let apps = terminals.clone();
    let terminals: Arc<dyn TerminalClient> = Arc::new(terminals);
    let home = Home::open_home(&place.path().join("home")).expect("a home");
    let workspace = Workspace::open_roots(&[work.to_owned()]).expect("a workspace");
    let redactor = Redactor::default();
    let deps = ShellDeps {
        terminals,
        workspace,
        shells: Arc::new(ShellList::new()),
        apps,
        home,
        redactor,
        command_rules: String::new(),
        apps_obstacle: Some("not here"),
    };
    ToolRegistry::new([shell::tools(deps)]).expect("the names of one domain differ")
}
