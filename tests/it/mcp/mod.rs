//! `mcp` as a client of the protocol uses it: the program over pipes, with the official client.
#![cfg(unix)]
#![expect(deprecated, reason = "editors name their folders as roots")]

mod approvals;
mod background;
mod folders;
mod http;
mod importing;
mod profiles;
mod remote;
mod repositories;
mod serving;
mod sessions;
mod starting;
mod warnings;

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use punie_home::{Home, RunnerLock};
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ElicitRequestParams,
    ElicitResult, ElicitationAction, ElicitationCapability, Implementation, ListRootsResult,
    ProgressNotificationParam, Root, RootsCapabilities,
};
use rmcp::service::{NotificationContext, RequestContext, RunningService, ServiceExt as _};
use rmcp::{ClientHandler, ErrorData, RoleClient};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::harness::running::processes_with_argument;
use crate::harness::wait::wait_until;

/// A user with a home and a workspace of their own. Dropping it ends the runner of the home.
struct McpUser {
    dir: TempDir,
    /// The user's `HOME`, relative to `dir`.
    home: &'static str,
}

impl McpUser {
    fn new() -> Self {
        Self::in_folder(tempfile::tempdir().expect("a folder for the test"), "")
    }

    fn in_folder(dir: TempDir, home: &'static str) -> Self {
        let user = Self { dir, home };
        std::fs::create_dir_all(user.path(home)).expect("made");
        std::fs::create_dir_all(user.path("work/sub")).expect("made");
        user.configure("");
        user
    }

    /// Writes a configuration with this user's workspace and these lines.
    fn configure(&self, lines: &str) {
        let work = self.path("work");
        let text = format!("[workspaces]\npaths = [\"{}\"]\n{lines}", work.display());
        self.write("home/config.toml", text);
    }

    /// Returns the processes that name this home: the runner, those that start it, and its helpers.
    fn processes(&self) -> Vec<u32> {
        processes_with_argument(self.path("home").to_str().expect("text"))
    }

    /// Waits until the runner is the only one. A process that it forks looks like a second runner for a moment.
    async fn has_one_runner(&self) {
        let runner = self.runner();
        wait_until("one runner", || self.runners() == [runner]).await;
    }

    /// Returns the background runners of this home.
    fn runners(&self) -> Vec<u32> {
        let detached = processes_with_argument("--detached");
        let mut found = self.processes();
        found.retain(|pid| detached.contains(pid));
        found
    }

    /// Returns the process id of the runner.
    fn runner(&self) -> u32 {
        let home = Home::find(&self.path("home")).expect("a home");
        let holder = RunnerLock::find_holder(&home).expect("readable");
        holder.and_then(|holder| holder.pid).expect("a runner")
    }

    fn path(&self, below: &str) -> PathBuf {
        let root = std::fs::canonicalize(self.dir.path()).expect("there");
        root.join(below)
    }

    fn write(&self, below: &str, text: impl AsRef<[u8]>) {
        let path = self.path(below);
        std::fs::create_dir_all(path.parent().expect("below")).expect("made");
        std::fs::write(path, text).expect("written");
    }

    /// Returns a command of the program, without the tester's own environment.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_punie-runner"));
        command
            .args(args)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.path(self.home))
            .env("TMPDIR", self.dir.path())
            .env("PUNIE_HOME", self.path("home"))
            .current_dir(self.path("work"))
            .kill_on_drop(true);
        command
    }

    /// Starts the server for a client that works in this folder.
    async fn connects_in(&self, below: &str) -> ConnectedClient {
        let mut command = self.command(&["mcp"]);
        command.current_dir(self.path(below));
        connect_to(command, TestClient::default()).await
    }

    /// Starts the server for this client.
    async fn connects(&self, client: TestClient, args: &[&str]) -> ConnectedClient {
        let words: Vec<&str> = [&["mcp"], args].concat();
        connect_to(self.command(&words), client).await
    }

    /// Runs a command of this home; returns its output.
    async fn run_cli(&self, args: &[&str]) -> String {
        let output = self.command(args).output().await.expect("started");
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }
}

impl Drop for McpUser {
    fn drop(&mut self) {
        // A process that is just being started may appear after the others have ended.
        loop {
            let left = self.processes();
            if left.is_empty() {
                break;
            }
            left.into_iter().for_each(kill_process_now);
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }
}

/// Ends a process as a power cut would. It may have ended already.
fn kill_process_now(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let _ = kill_process(pid.expect("a process id"), Signal::KILL);
}

/// A client, with the answers of its person, and the forms and progress that it received.
#[derive(Clone, Default)]
struct TestClient {
    roots: Option<Vec<PathBuf>>,
    answers: Option<(ElicitationAction, Value)>,
    shows_no_forms: bool,
    asked: Arc<Mutex<Vec<String>>>,
    progress: Arc<Mutex<Vec<String>>>,
}

impl ClientHandler for TestClient {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = self.roots.is_some().then(RootsCapabilities::default);
        capabilities.elicitation = self.answers.is_some().then(ElicitationCapability::default);
        ClientConfig::new(capabilities, Implementation::new("test", "1"))
    }

    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        let roots = self.roots.iter().flatten();
        let roots = roots.map(|root| Root::new(format!("file://{}", root.display())));
        Ok(ListRootsResult::new(roots.collect()))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let shown = serde_json::to_string(&request).expect("JSON");
        self.asked.lock().push(shown);
        if self.shows_no_forms {
            return Err(ErrorData::internal_error("there is no window", None));
        }
        let (action, content) = self
            .answers
            .clone()
            .expect("it is asked only if it can answer");
        let mut result = ElicitResult::new(action);
        result.content = Some(content);
        Ok(result)
    }

    async fn on_progress(
        &self,
        progress: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.progress.lock().extend(progress.message);
    }
}

/// A client and its running server.
struct ConnectedClient {
    service: RunningService<RoleClient, TestClient>,
    child: Child,
}

impl ConnectedClient {
    async fn call(&self, tool: &'static str, args: Value) -> CallToolResult {
        let args = args.as_object().expect("arguments").clone();
        let call = CallToolRequestParams::new(tool).with_arguments(args);
        self.service.call_tool(call).await.expect("an answer")
    }

    /// Calls a tool that must succeed; returns its text.
    async fn call_ok(&self, tool: &'static str, args: Value) -> String {
        let answer = self.call(tool, args).await;
        assert_eq!(answer.is_error, Some(false), "{answer:?}");
        result_text(&answer)
    }

    /// Ends the server as a power cut would.
    async fn killed(mut self) {
        self.child.kill().await.expect("killed");
    }

    /// Closes the server's input and waits for its end.
    async fn close(mut self) {
        self.service.cancel().await.expect("closed");
        let ended = self.child.wait().await.expect("waited for");
        assert!(ended.success(), "{ended:?}");
    }
}

fn result_text(result: &CallToolResult) -> String {
    let texts = result.content.iter().filter_map(|block| block.as_text());
    texts.map(|block| block.text.as_str()).collect()
}

/// Returns the id of the request that a result belongs to.
fn request_id(result: &CallToolResult) -> String {
    let meta = result.meta.as_ref().expect("metadata");
    meta.0["punie-runner/requestId"]
        .as_str()
        .expect("an id")
        .to_owned()
}

/// Starts a server with this command, for this client.
async fn connect_to(mut command: Command, client: TestClient) -> ConnectedClient {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().expect("started");
    let pipes = (
        child.stdout.take().expect("a pipe"),
        child.stdin.take().expect("a pipe"),
    );
    let service = client.serve(pipes).await.expect("the server answers");
    ConnectedClient { service, child }
}
