//! The program as a user runs it: its output on stdout and stderr, and its exit codes.
#![cfg(unix)]

mod alone;
mod config_keys;
mod dev;
mod doctor;
mod first_contact;
mod imports;
mod in_force;
mod keychain;
mod metrics;
mod missing_workspaces;
mod next_steps;
mod operator;
mod optional_parts;
mod owner;
mod recording;
mod remote;
mod secrets;
mod sending;
mod sentences;
mod service;
mod tables;
mod uninstall;
mod what_ran;
mod without_undo;

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::harness::interrupt_signal::restore_interrupts;
use crate::harness::terminal::{open_terminal, read_screen};

/// The time limit of every command here. A command that takes longer hangs.
const PATIENCE: Duration = Duration::from_mins(2);

/// A user with a folder, a home and a workspace of their own.
struct CliUser {
    dir: TempDir,
}

/// The output and the exit code of a command.
#[derive(Debug)]
struct CommandOutput {
    code: i32,
    out: String,
    err: String,
}

/// A command that runs until it is stopped.
struct RunningCommand {
    child: Child,
    /// The JSON of its first line.
    ready: Value,
    rest: Lines<BufReader<ChildStdout>>,
}

/// The folder with the tokens of the backend that printed this first line.
fn tokens_of(ready: &Value) -> String {
    let url = ready["url"].as_str().expect("an address");
    format!(
        "home/tokens/{}",
        url.trim_start_matches("http://").replace(':', "_")
    )
}

impl CliUser {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder for the test");
        let user = Self { dir };
        std::fs::create_dir(user.path("work")).expect("made");
        user
    }

    fn path(&self, below: &str) -> PathBuf {
        std::fs::canonicalize(self.dir.path())
            .expect("there")
            .join(below)
    }

    fn text(&self, below: &str) -> String {
        self.path(below).to_str().expect("a plain path").to_owned()
    }

    fn read(&self, below: &str) -> String {
        std::fs::read_to_string(self.path(below)).expect(below)
    }

    fn write(&self, below: &str, text: &str) {
        let path = self.path(below);
        std::fs::create_dir_all(path.parent().expect("below")).expect("made");
        std::fs::write(path, text).expect("written");
    }

    /// A command that runs the program in the workspace, with a cleared environment.
    fn command(&self, args: &[&str]) -> Command {
        self.command_of(env!("CARGO_BIN_EXE_punie-runner"), args)
    }

    /// A command that runs another program in the same way.
    fn command_of(&self, program: &str, args: &[&str]) -> Command {
        restore_interrupts();
        let mut command = Command::new(program);
        command
            .args(args)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.dir.path())
            .env("TMPDIR", self.dir.path())
            .env("TZ", "UTC0")
            .env("PUNIE_HOME", self.path("home"))
            .current_dir(self.path("work"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Makes a repository and turns `work` into its linked worktree. Returns the repository's `.git` folder.
    fn make_worktree(&self) -> String {
        let git = |folder: &str, args: &[&str]| {
            let done = std::process::Command::new("git")
                .args(["-c", "user.name=a", "-c", "user.email=a@b"])
                .args(args)
                .current_dir(self.path(folder))
                .output()
                .expect("git runs");
            assert!(done.status.success(), "{args:?}: {done:?}");
        };
        git("", &["init", "-q", "main"]);
        git("main", &["commit", "-q", "--allow-empty", "-m", "one"]);
        std::fs::remove_dir_all(self.path("work")).expect("there");
        git("main", &["worktree", "add", "-q", "../work", "-b", "topic"]);
        self.text("main/.git")
    }

    async fn run_cli(&self, args: &[&str]) -> CommandOutput {
        run_with_input(self.command(args), "").await
    }

    /// Runs a command on a terminal of 80 columns. Its output is all that the terminal shows, errors included.
    async fn types_on_terminal(&self, args: &[&str]) -> CommandOutput {
        let (ours, theirs) = open_terminal();
        let mut command = self.command(args);
        command
            .stdout(theirs.try_clone().expect("a copy"))
            .stderr(theirs);
        let screen = read_screen(ours);
        let mut child = command.spawn().expect("started");
        // The command's own copies of the terminal would keep the screen open.
        drop(command);
        let ended = within_limit(child.wait()).await.expect("waited for");
        CommandOutput {
            code: ended.code().unwrap_or(-1),
            out: screen.join().expect("read"),
            err: String::new(),
        }
    }

    async fn types_with(&self, args: &[&str], input: &str) -> CommandOutput {
        let mut command = self.command(args);
        command.stdin(Stdio::piped());
        run_with_input(command, input).await
    }

    /// Runs a command against a backend, with the caller's token.
    async fn run_as_caller(&self, ready: &Value, args: &[&str]) -> CommandOutput {
        let mut command = self.command(args);
        command
            .env(
                "PUNIE_BACKEND_URL",
                ready["url"].as_str().expect("an address"),
            )
            .env(
                "PUNIE_CALLER_TOKEN",
                ready["callerToken"].as_str().expect("a token"),
            );
        run_with_input(command, "").await
    }

    /// Starts a command that runs until it is stopped, and waits for its first line.
    async fn serves(&self, args: &[&str]) -> RunningCommand {
        let mut child = self
            .command(args)
            .stderr(Stdio::null())
            .spawn()
            .expect("started");
        let mut rest = BufReader::new(child.stdout.take().expect("piped")).lines();
        let first = within_limit(rest.next_line())
            .await
            .expect("readable")
            .expect("a first line");
        RunningCommand {
            child,
            ready: serde_json::from_str(&first).expect(&first),
            rest,
        }
    }
}

impl CommandOutput {
    /// Parses the output, which must be one line of JSON.
    fn json(&self) -> Value {
        assert_eq!(self.out.lines().count(), 1, "{self:?}");
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Checks that the command ended with this code and printed this on stderr.
    #[track_caller]
    fn refused(&self, code: i32, words: &str) {
        assert_eq!(self.code, code, "{self:?}");
        assert_contains!(self.err, words);
        assert_lacks!(self.err, "panicked");
    }

    #[track_caller]
    fn done(self) -> Self {
        self.ended(0)
    }

    #[track_caller]
    fn ended(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }
}

impl RunningCommand {
    /// Stops the command with SIGTERM. Returns its exit code and its output after the first line.
    async fn stopped(mut self) -> (i32, String) {
        let pid = self
            .child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(pid.expect("it runs"), rustix::process::Signal::TERM)
            .expect("it runs");
        let ended = within_limit(self.child.wait()).await.expect("waited for");
        let mut rest = String::new();
        while let Some(line) = self.rest.next_line().await.expect("readable") {
            rest.push_str(&line);
        }
        (ended.code().unwrap_or(-1), rest)
    }
}

async fn run_with_input(mut command: Command, input: &str) -> CommandOutput {
    let mut child = command.spawn().expect("started");
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes()).await.expect("taken");
    }
    let output = within_limit(child.wait_with_output())
        .await
        .expect("waited for");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    CommandOutput {
        code: output.status.code().unwrap_or(-1),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

async fn within_limit<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work)
        .await
        .expect("it ends within the time limit")
}

/// The keys of a JSON object, sorted: their order in the text means nothing.
fn object_keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect();
    keys.sort_unstable();
    keys
}

/// Reads one byte of a command's output, closes the pipe, and returns the exit code.
async fn exit_code(mut command: Command) -> i32 {
    let mut child = command.spawn().expect("started");
    let mut first = [0];
    let mut stdout = child.stdout.take().expect("piped");
    within_limit(stdout.read_exact(&mut first))
        .await
        .expect("it answers");
    drop(stdout);
    let output = within_limit(child.wait_with_output())
        .await
        .expect("waited for");
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_lacks!(err, "panicked");
    output.status.code().unwrap_or(-1)
}
