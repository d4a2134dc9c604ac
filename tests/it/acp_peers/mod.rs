//! ACP's libraries in other languages against this program, with scripts in `tests/conformance`. Each library is the
//! editor that launches the program. Every frame is checked against the published schema. Where a library is not
//! installed, its test says so and passes, unless `PUNIE_REQUIRE_CLIENTS=1`.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tokio::process::Command;

use crate::harness::foreign::{find_installed, foreign_folder, has_node};
use crate::harness::left_out::can_be_tried;
use crate::harness::process::PROGRAM;

/// Longer than any script takes on a slow machine under load.
const PATIENCE: Duration = Duration::from_mins(4);

/// Returns the reason why the npm library cannot be tested, if there is one.
fn npm_missing() -> Option<&'static str> {
    if !has_node() {
        return Some("there is no node");
    }
    let here = foreign_folder("acp-npm")
        .join("node_modules/@agentclientprotocol/sdk")
        .is_dir();
    (!here).then_some("the packages are not there: npm ci in tests/conformance/acp-npm")
}

/// Returns the path of the interpreter that has the Python library.
fn find_python() -> PathBuf {
    find_installed("acp-python/bin/python")
}

fn python_missing() -> Option<&'static str> {
    let asked = std::process::Command::new(find_python())
        .args(["-c", "import acp"])
        .output();
    let here = asked.is_ok_and(|said| said.status.success());
    (!here)
        .then_some("the packages are not in target/conformance/acp-python; .ci/run puts them there")
}

/// A script, and the folder for its output.
struct PeerScript {
    command: Command,
    dir: TempDir,
}

impl PeerScript {
    fn new(program: impl AsRef<Path>, folder_name: &str, script: &str) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(program.as_ref());
        command
            .arg(script)
            .current_dir(foreign_folder(folder_name))
            .kill_on_drop(true);
        command
            .env("HOME", dir.path())
            .env("TMPDIR", dir.path())
            .env("PYTHONDONTWRITEBYTECODE", "1");
        Self { command, dir }
    }

    fn said(&self) -> String {
        ["stdout", "stderr"]
            .map(|name| std::fs::read_to_string(self.place(name)).unwrap_or_default())
            .join("\n")
    }

    fn place(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn file(&self, name: &str) -> File {
        File::create(self.place(name)).expect("a file")
    }

    /// Runs the script to its end and checks that it succeeded.
    async fn holds(mut self) -> Self {
        let out = self.file("stdout");
        let err = self.file("stderr");
        let running = self
            .command
            .stdin(std::process::Stdio::null())
            .stdout(out)
            .stderr(err)
            .status();
        let ended = tokio::time::timeout(PATIENCE, running).await;
        self.went_well(matches!(&ended, Ok(Ok(status)) if status.success()));
        self
    }

    /// Checks that the script ended well, that no check failed, and that at least one ran.
    fn went_well(&self, ended_well: bool) {
        let said = self.said();
        let some = said.lines().any(|line| line.starts_with("ok "));
        assert!(
            ended_well && some && !said.lines().any(|line| line.starts_with("not ok ")),
            "{said}"
        );
    }
}

/// Checks the frames that the Python library recorded against the schema.
async fn frames_fit(frames: &Path) {
    if can_be_tried("the check of the frames", npm_missing()) {
        let mut check = PeerScript::new("node", "acp-npm", "frames.mjs");
        let said = check.command.arg(frames).output().await.expect("node runs");
        assert!(
            said.status.success(),
            "{}",
            String::from_utf8_lossy(&said.stdout)
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn npm_as_the_editor() {
    if can_be_tried("ACP's npm library as an editor", npm_missing()) {
        let mut script = PeerScript::new("node", "acp-npm", "conformance.mjs");
        script.command.arg(PROGRAM);
        script.holds().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_as_the_editor() {
    if can_be_tried("ACP's Python library as an editor", python_missing()) {
        let mut script = PeerScript::new(find_python(), "acp-python", "conformance.py");
        let frames = script.place("frames");
        script.command.arg(PROGRAM).arg(&frames);
        let _script = script.holds().await;
        frames_fit(&frames).await;
    }
}
