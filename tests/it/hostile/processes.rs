//! A real fork bomb, with numbers of processes that a machine survives. The limit itself is tested in `shell`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::{HostileFixture, compile_program};
use crate::harness::left_out::can_be_tried;
use crate::harness::process::PROGRAM;
use crate::harness::process::copy_program;

/// A user who is not root, with the program, a workspace and a home.
pub(super) struct OrdinaryUser {
    folder: TempDir,
}

const NOBODY: u32 = 65_534;

impl OrdinaryUser {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let user = Self { folder };
        // This user cannot reach the program where it was built.
        copy_program(Path::new(PROGRAM), &user.path("program"));
        compile_program("bomb", user.folder.path());
        fs::set_permissions(user.folder.path(), fs::Permissions::from_mode(0o755)).expect("set");
        for made in ["home", "user", "work"] {
            fs::create_dir(user.path(made)).expect("made");
            fs::set_permissions(user.path(made), fs::Permissions::from_mode(0o700)).expect("set");
            if rustix::process::geteuid().is_root() {
                chown(user.path(made), Some(NOBODY), Some(NOBODY)).expect("given away");
            }
        }
        copy_program(&user.path("bomb"), &user.path("work/bomb"));
        user
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn run_json(&self, args: &[&str]) -> Value {
        let mut command = Command::new(self.path("program"));
        command
            .arg("--json")
            .args(args)
            .env_clear()
            .current_dir(self.path("work"));
        command
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path("user"));
        command
            .env("PUNIE_HOME", self.path("home"))
            .env("PUNIE_WORKSPACE", self.path("work"));
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        let output = command.output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        serde_json::from_str(text.trim()).unwrap_or_else(|bad| panic!("{bad}: {output:?}"))
    }
}

/// Parses the number of processes, and the reason why the bomb stopped.
fn parse_report(text: &str) -> (u32, &str) {
    let line = text
        .lines()
        .find(|line| line.split(' ').count() == 2)
        .expect("the bomb's report");
    let (made, why) = line.split_once(' ').expect("two words");
    (made.parse().unwrap_or_else(|_| panic!("{text}")), why)
}

#[test]
fn h53_a_fork_bomb_of_an_ordinary_user_ends_at_the_limit_and_the_next_command_runs() {
    let user = OrdinaryUser::new();
    let status = user.run_json(&["status"]);
    let has_loopback = status["network"] == "ask" && status["confinement"] == "full";
    let why = format!("no loopback of its own, which the limit is set in: {status}");
    if !can_be_tried("H53, a fork bomb", (!has_loopback).then_some(why.as_str())) {
        return;
    }
    let answer = user.run_json(&["call", "Bash", r#"{"command":"./bomb 2000"}"#]);
    let text = answer["result"]
        .as_str()
        .unwrap_or_else(|| panic!("{answer}"))
        .to_owned();
    let (made, why) = parse_report(&text);
    assert_eq!(why, "EAGAIN", "{text}");
    // The limit also counts the shell, the program itself and the runner's own threads.
    assert!((900..1_024).contains(&made), "{text}");
    let after = user
        .run_json(&["call", "Bash", r#"{"command":"./bomb 100"}"#])
        .to_string();
    assert_contains!(after, "100 out");
}

#[tokio::test]
async fn h53_gap_the_processes_of_root_are_not_counted() {
    let is_root = rustix::process::geteuid().is_root();
    if !can_be_tried(
        "H53, root's gap",
        (!is_root).then_some("this is not root, whom the limit does not hold"),
    ) {
        return;
    }
    let setup = HostileFixture::new();
    compile_program("bomb", &setup.path("work"));
    let text = setup.bash("./bomb 4500").await;
    assert_eq!(
        parse_report(&text),
        (4_500, "out"),
        "the gap is closed here: update the page on safety and the list"
    );
}
