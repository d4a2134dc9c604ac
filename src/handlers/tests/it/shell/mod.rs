//! The shell and terminal tools with real processes: how commands end, are stopped, and what they leave behind.
#![cfg(target_os = "linux")]

mod admission;
mod answers;
mod background;
mod bash;
mod keeping;
mod kill_shell;
mod open_app;
mod ports;
mod screen;
mod shell_status;
mod skill_bash;
mod skill_secrets;
mod stopping;
mod tree;
mod write_shell;

use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use punie_core::ids::RequestId;
use punie_handlers::shell::{self, ShellDeps, ShellList};
use punie_handlers::state::{self, StateDeps};
use punie_handlers::terminal::{self, TerminalDeps};
use punie_home::Home;
use punie_host::local::child_log::{ChildLog, ChildLogFuture, NoChildLog};
use punie_host::local::confinement::Confinement;
use punie_host::local::local_terminals::{LocalTerminalSetup, LocalTerminals};
use punie_host::local::process_identity::ProcessIdentity;
use punie_host::local::process_kill::kill_survivor;
use punie_host::terminals::{
    CommandLaunch, CreateTerminal, ExitStatus, StopSignal, TerminalClient,
};
use punie_host::{TerminalId, Workspace};
use punie_text::output::{OutputLimits, OutputStore};
use punie_text::redact::{Redactor, Secret};
use punie_tool::request::{CallFailure, ErrorCode, ResultMeta, ToolReply};
use punie_tool::{ToolContext, ToolError, ToolRegistry};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::tools;
use crate::harness::wait::wait_for_some;

/// A workspace with its tools. What still runs is killed when it is dropped.
pub(crate) struct Bench {
    pub(crate) registry: Arc<ToolRegistry>,
    terminals: LocalTerminals,
    pub(crate) workspace: TempDir,
    outputs: TempDir,
    home: TempDir,
}

fn base() -> Vec<(String, String)> {
    let entries = [
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("HOME", "/"),
        ("PUNIE_TOKEN", "hidden"),
        ("AWS_REGION", "hidden"),
    ];
    entries
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(base(), Arc::new(NoChildLog))
    }

    fn with(base_env: Vec<(String, String)>, log: Arc<dyn ChildLog>) -> Self {
        Self::whole(OutputLimits::default(), base_env, log, Redactor::default())
    }

    fn keeping(limits: OutputLimits) -> Self {
        Self::whole(limits, base(), Arc::new(NoChildLog), Redactor::default())
    }

    /// With one secret, which is masked.
    fn masking(secret: &str) -> Self {
        let redactor = Redactor::new([Secret::new(secret.to_owned())]);
        Self::whole(
            OutputLimits::default(),
            base(),
            Arc::new(NoChildLog),
            redactor,
        )
    }

    fn whole(
        limits: OutputLimits,
        base_env: Vec<(String, String)>,
        log: Arc<dyn ChildLog>,
        redactor: Redactor,
    ) -> Self {
        let (folder, outputs) = (
            tempfile::tempdir().expect("a folder"),
            tempfile::tempdir().expect("a folder"),
        );
        let store = OutputStore::with_limits(outputs.path(), limits).expect("a store");
        let state = StateDeps {
            outputs: store.clone(),
            board: Arc::new(state::background_tasks::NoTasks),
        };
        let terminals = LocalTerminals::new(LocalTerminalSetup {
            base_env,
            store,
            redactor: redactor.clone(),
            log,
            confinement: Confinement::default(),
        })
        .expect("a thread");
        let workspace = Workspace::open_roots(&[folder.path().to_owned()]).expect("a workspace");
        let client: Arc<dyn TerminalClient> = Arc::new(terminals.clone());
        let shells = Arc::new(ShellList::new());
        let home = tempfile::tempdir().expect("a folder");
        let own = Home::open_home(&home.path().join("punie")).expect("a home");
        let entries = shell::tools(ShellDeps {
            terminals: Arc::clone(&client),
            workspace: workspace.clone(),
            shells,
            apps: terminals.clone(),
            home: own,
            redactor,
            command_rules: String::new(),
            apps_obstacle: None,
        });
        let more = terminal::tools(TerminalDeps {
            terminals: client,
            workspace,
            board: Arc::default(),
            command_rules: Arc::new(String::new),
        });
        let registry = Arc::new(
            ToolRegistry::new([entries, more, state::tools(state)]).expect("the names differ"),
        );
        Self {
            registry,
            terminals,
            workspace: folder,
            outputs,
            home,
        }
    }

    pub(crate) async fn call(&self, tool: &str, args: Value) -> Result<ToolReply, ToolError> {
        within(tools::call_tool(&self.registry, tool, args)).await
    }

    async fn bash(&self, command: &str) -> (String, ResultMeta) {
        let reply = self
            .call("Bash", json!({"command": command}))
            .await
            .expect(command);
        (tools::reply_text(&reply).to_owned(), reply.meta)
    }

    pub(crate) async fn text(&self, tool: &str, args: Value) -> String {
        tools::reply_text(&self.call(tool, args).await.expect(tool)).to_owned()
    }

    /// What ShellStatus says, asked again until it shows this: one call waits for half a minute at most.
    async fn shows(&self, mut args: Value, words: &str) -> String {
        args["wait_ms"] = json!(30_000);
        wait_for_some(words, async || {
            let shown = self.text("ShellStatus", args.clone()).await;
            shown.contains(words).then_some(shown)
        })
        .await
    }
}

/// The `since` that an answer of ShellStatus gives.
fn cursor(text: &str) -> u64 {
    let shown = text
        .split("[since=")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    shown.expect("a cursor").parse().expect("a number")
}

/// Nothing here takes long; a hang is a failure and not a wait.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_mins(1), work)
        .await
        .expect("an answer in time")
}

pub(crate) fn is_there(pid: &str) -> bool {
    let pid = pid.trim().parse().expect("a process id");
    ProcessIdentity::from_pid(pid).is_some_and(|process| process.is_alive())
}

/// Shell words that go on when the last background job runs its own program.
fn once_it_is(program: &str) -> String {
    format!("until [ \"$(cat /proc/$!/comm)\" = {program} ]; do :; done")
}

/// Waits for the end of a process. One that has closed its files, as the other end of a connection sees, may still
/// be on its way out.
async fn gone(pid: &str) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    let pid = pid
        .trim()
        .parse()
        .ok()
        .and_then(Pid::from_raw)
        .expect("a process id");
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
        return;
    };
    let ended = move || {
        poll(
            &mut [PollFd::new(&process, PollFlags::IN)],
            Some(&Timespec {
                tv_sec: 90,
                tv_nsec: 0,
            }),
        )
    };
    assert_eq!(
        tokio::task::spawn_blocking(ended).await.expect("no panic"),
        Ok(1),
        "it lives on"
    );
}

pub(crate) fn meta_of(error: ToolError) -> ResultMeta {
    CallFailure::from(error).meta
}

/// A place where a command reports that it has come so far: it sends one line, and may be sent one.
pub(crate) struct Checkpoint {
    listener: TcpListener,
    port: u16,
}

impl Checkpoint {
    pub(crate) async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        Self { listener, port }
    }

    /// Shell words that open a connection to here as descriptor 9.
    pub(crate) fn connect(&self) -> String {
        format!("exec 9<>/dev/tcp/127.0.0.1/{}", self.port)
    }

    pub(crate) async fn line(&self) -> (String, BufReader<TcpStream>) {
        let (stream, _) = within(self.listener.accept()).await.expect("a connection");
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        within(stream.read_line(&mut line)).await.expect("a line");
        (line.trim().to_owned(), stream)
    }
}
