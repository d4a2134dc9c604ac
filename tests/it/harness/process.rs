//! Runs the program under test as a child process, with its log and its output in files.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use punie_host::worker::WorkerProgram;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::interrupt_signal::restore_interrupts;
use super::wait::{wait_for_some, wait_until};

/// The path of the program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_punie-runner");

/// The number of last log lines that a failed test prints.
const SHOWN_LINES: usize = 40;

/// Returns the settings that run the program under test as a worker.
pub fn worker_program() -> WorkerProgram {
    let temp_root = std::env::temp_dir().join("punie-runner-test-workers");
    WorkerProgram {
        program: PROGRAM.into(),
        temp_root,
        time_zone: None,
    }
}

/// The folders and the backend address that a process is started with.
#[derive(Clone)]
pub struct ProcessSetting {
    pub home: PathBuf,
    pub workspace: PathBuf,
    pub url: String,
    /// The folder of its log and its stdout, outside of home and workspace.
    pub logs: PathBuf,
    /// A file of root certificates that it trusts instead of the system's.
    pub roots: Option<PathBuf>,
}

impl ProcessSetting {
    /// Makes a home with this configuration, a workspace and a folder for logs.
    pub fn with_folders(dir: &Path, url: String, config: &str) -> Self {
        let made = |name: &str| {
            let path = dir.join(name);
            DirBuilder::new().mode(0o700).create(&path).expect(name);
            path
        };
        let setting = Self {
            home: made("home"),
            workspace: made("work"),
            url,
            logs: made("logs"),
            roots: None,
        };
        std::fs::write(setting.home.join("config.toml"), config).expect("written");
        setting
    }

    /// Gives a command the environment that every program here gets.
    pub fn set_environment(&self, command: &mut Command) {
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &self.logs)
            .env("PUNIE_HOME", &self.home)
            .env("PUNIE_WORKSPACE", &self.workspace)
            .env("PUNIE_BACKEND_URL", &self.url)
            .env("PUNIE_LOG", "debug")
            // Tests show no notifications on the developer's desktop and do not keep it from sleep.
            .env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent")
            .env("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent")
            .envs(self.roots.iter().map(|roots| ("SSL_CERT_FILE", roots)));
    }

    /// The folder with the tokens of its backend.
    pub fn tokens(&self) -> PathBuf {
        let place = self.url.split_once("://").expect("an address").1;
        self.home
            .join("tokens")
            .join(place.replace(':', "_").replace('/', "%2f"))
    }
}

/// A started program. Dropping it kills it.
pub struct RunningProgram {
    child: Child,
    log: PathBuf,
    out: PathBuf,
}

/// The exit code, the stdout and the log of a program that has ended.
#[derive(Debug)]
pub struct EndedProgram {
    pub code: Option<i32>,
    pub out: String,
    pub log: String,
}

impl EndedProgram {
    /// Parses its stdout as one JSON value.
    pub fn json(&self) -> Value {
        serde_json::from_str(self.out.trim()).unwrap_or_else(|bad| panic!("{bad}: {self:?}"))
    }
}

impl RunningProgram {
    /// Starts the program with these arguments.
    pub fn start(setting: &ProcessSetting, args: &[&str]) -> Self {
        Self::within(&[], setting, args, &[])
    }

    /// Starts the program with additional environment variables.
    pub fn start_with(
        setting: &ProcessSetting,
        args: &[&str],
        variables: &[(&str, &OsStr)],
    ) -> Self {
        Self::within(&[], setting, args, variables)
    }

    /// Starts the program through a wrapper that executes it (`unshare`, `prlimit`). `before` holds the wrapper and its
    /// arguments.
    pub fn within(
        before: &[&str],
        setting: &ProcessSetting,
        args: &[&str],
        variables: &[(&str, &OsStr)],
    ) -> Self {
        let words: Vec<&str> = before
            .iter()
            .chain(&[PROGRAM])
            .chain(args)
            .copied()
            .collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        Self::launch(setting, command, variables)
    }

    /// Starts the program from a shell that first runs these commands: a limit, a process group, a variable.
    pub fn start_after(setting: &ProcessSetting, words: &str, args: &[&str]) -> Self {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", &format!("{words}\nexec \"$0\" \"$@\""), PROGRAM])
            .args(args);
        Self::launch(setting, command, &[])
    }

    /// Starts a command with the environment and the output files that every program here gets.
    pub fn launch(
        setting: &ProcessSetting,
        mut command: Command,
        variables: &[(&str, &OsStr)],
    ) -> Self {
        restore_interrupts();
        let (number, log_file) = new_numbered_file(&setting.logs, ".log");
        let log = setting.logs.join(format!("{number}.log"));
        let out = setting.logs.join(format!("{number}.out"));
        setting.set_environment(&mut command);
        let child = command
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(File::create(&out).expect("a file for its answers"))
            .stderr(log_file)
            .spawn()
            .expect("the program starts");
        Self { child, log, out }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        read_file(&self.log)
    }

    /// Its stdout so far.
    pub fn out(&self) -> String {
        read_file(&self.out)
    }

    /// Waits until its log contains these words.
    pub async fn wait_for_log(&self, words: &str) {
        wait_until(&format!("{words:?} in its log"), || {
            self.log().contains(words)
        })
        .await;
    }

    /// Sends it SIGTERM.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends it SIGTERM, and waits for its end, which must be a success.
    pub async fn stop(self) {
        self.terminate();
        let ended = self.end().await;
        assert_eq!(ended.code, Some(0), "it was told to stop: {ended:?}");
    }

    pub fn has_ended(&mut self) -> bool {
        self.status().is_some()
    }

    /// Kills it with SIGKILL, as sudden as a power cut, and waits until it is gone.
    pub fn kill(mut self) {
        self.signal(Signal::KILL);
        self.child.wait().expect("it ends");
    }

    /// Waits until it ends by itself.
    pub async fn end(mut self) -> EndedProgram {
        let status = wait_for_some("the end of the program", async || self.status()).await;
        EndedProgram {
            code: status.code(),
            out: read_file(&self.out),
            log: self.log(),
        }
    }

    fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("its status can be read")
    }

    /// Prints how it ended, and the last lines of its log.
    #[expect(clippy::print_stderr, reason = "the test's own output")]
    fn explain_failure(&mut self) {
        let ended = match self.child.try_wait() {
            Ok(Some(status)) => status.to_string(),
            Ok(None) => "it is still running".to_owned(),
            Err(cause) => cause.to_string(),
        };
        let log = std::fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<_> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n");
        eprintln!(
            "process {}: {ended}; the end of {}:\n{last}",
            self.child.id(),
            self.log.display()
        );
    }

    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id())
            .ok()
            .and_then(Pid::from_raw)
            .expect("a process id");
        kill_process(pid, signal).expect("the program can be signalled");
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.explain_failure();
        }
        // For a program that has ended already, this only reaps it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_file(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).expect("the file can be read")).into_owned()
}

/// Creates a file named after a number that no other file with this ending has.
pub fn new_numbered_file(folder: &Path, ending: &str) -> (usize, File) {
    let mut number = std::fs::read_dir(folder).expect("the logs").count();
    loop {
        match File::create_new(folder.join(format!("{number}{ending}"))) {
            Ok(file) => return (number, file),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            Err(error) => panic!("{}: {error}", folder.display()),
        }
    }
}

/// Copies the program under test to the path at which a test runs it. Another process writes the copy, so that this
/// process never has it open (see `program`).
pub fn copy_program(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg(from).arg(to).status();
    assert!(copied.expect("cp runs").success(), "{}", to.display());
}
