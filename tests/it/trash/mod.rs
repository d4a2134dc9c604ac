//! The trash and `undo`, through the program as its owner uses it: an undo restores the files, or changes nothing.
#![cfg(unix)]

#[cfg(target_os = "linux")]
mod commands;
mod files;
#[cfg(target_os = "linux")]
mod quota;
#[cfg(target_os = "linux")]
mod snapshot_limits;
#[cfg(target_os = "linux")]
mod snapshots;

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

const WITHOUT_SNAPSHOTS: &str = "[trash]\nsnapshots = false\n";

/// An owner with a home and a workspace.
struct OwnerFixture {
    dir: TempDir,
}

/// The exit code and the output of a command.
#[derive(Debug)]
struct CommandEnd {
    code: i32,
    out: String,
    err: String,
}

impl OwnerFixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder for the test");
        let owner = Self { dir };
        std::fs::create_dir(owner.path("work")).expect("made");
        // Most of these tests cover the copies that file tools make.
        owner.write("home/config.toml", WITHOUT_SNAPSHOTS);
        owner
    }

    /// Sets up an owner with the default settings.
    #[cfg(target_os = "linux")]
    fn with_snapshots() -> Self {
        let owner = Self::new();
        std::fs::remove_file(owner.path("home/config.toml")).expect("there");
        owner
    }

    fn path(&self, below: &str) -> PathBuf {
        std::fs::canonicalize(self.dir.path())
            .expect("there")
            .join(below)
    }

    fn write(&self, below: &str, text: impl AsRef<[u8]>) {
        let path = self.path(below);
        std::fs::create_dir_all(path.parent().expect("below")).expect("made");
        std::fs::write(path, text).expect("written");
    }

    /// Limits the trash to this many megabytes.
    #[cfg(target_os = "linux")]
    fn has_a_trash_of(&self, max_mb: u32) {
        let text = format!("{WITHOUT_SNAPSHOTS}max_mb = {max_mb}\n");
        self.write("home/config.toml", text);
    }

    fn read(&self, below: &str) -> String {
        std::fs::read_to_string(self.path(below)).expect(below)
    }

    fn mode(&self, below: &str) -> u32 {
        std::fs::symlink_metadata(self.path(below))
            .expect(below)
            .permissions()
            .mode()
            & 0o7777
    }

    fn set_mode(&self, below: &str, mode: u32) {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(self.path(below), mode).expect(below);
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_punie-runner"));
        self.at_home(command.args(args));
        command
    }

    /// Prepares the same command by way of another program, which then executes it.
    #[cfg(target_os = "linux")]
    fn instead<'a>(&self, program: &'a mut Command, args: &[&str]) -> &'a mut Command {
        self.at_home(program.arg(env!("CARGO_BIN_EXE_punie-runner")).args(args))
    }

    fn at_home<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.dir.path())
            .env("TMPDIR", self.dir.path())
            .env("PUNIE_HOME", self.path("home"))
            .current_dir(self.path("work"))
            .stdin(Stdio::null())
    }

    fn run_cli(&self, args: &[&str]) -> CommandEnd {
        run_command(&mut self.command(args))
    }

    /// Calls a tool, which must succeed; returns its request and its answer.
    fn calls(&self, tool: &str, args: &Value) -> (String, Value) {
        let said = self.run_cli(&["call", tool, &args.to_string(), "--json"]);
        assert_eq!(said.code, 0, "{said:?}");
        let answer: Value = serde_json::from_str(&said.out).expect(&said.out);
        (
            answer["requestId"].as_str().expect("an id").to_owned(),
            answer,
        )
    }

    fn call_write(&self, path: &str, content: &str) -> String {
        self.calls("Write", &json!({"file_path": path, "content": content}))
            .0
    }

    /// Runs a command; returns its request, its exit code and its output.
    #[cfg(target_os = "linux")]
    fn run_bash(&self, command: &str) -> (String, i64, String) {
        let said = self.run_cli(&[
            "call",
            "Bash",
            &json!({"command": command}).to_string(),
            "--json",
        ]);
        let answer: serde_json::Value = serde_json::from_str(&said.out).expect(&said.out);
        let text = answer["result"]
            .as_str()
            .or(answer["error"].as_str())
            .unwrap_or_default()
            .to_owned();
        let code = answer["meta"]["exitCode"].as_i64().unwrap_or(-1);
        (
            answer["requestId"].as_str().expect("an id").to_owned(),
            code,
            text,
        )
    }

    /// Undoes a request, which must succeed.
    #[track_caller]
    fn undo_request(&self, request: &str) {
        let said = self.run_cli(&["undo", request]);
        assert!(said.was_undone(), "{said:?}");
    }

    /// Checks that `undo` refuses a request with these words.
    #[track_caller]
    fn assert_undo_refused(&self, request: &str, words: &str) {
        let said = self.run_cli(&["undo", request]);
        assert!(said.code == 1 && said.err.contains(words), "{said:?}");
    }
}

impl CommandEnd {
    /// Returns whether an undo was carried out. One that put back only a part exits with 1.
    fn was_undone(&self) -> bool {
        let is_partial = self.out.starts_with("Undone in part: ");
        self.code == i32::from(is_partial)
    }
}

fn run_command(command: &mut Command) -> CommandEnd {
    let output = command.output().expect("started");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    CommandEnd {
        code: output.status.code().unwrap_or(-1),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}
