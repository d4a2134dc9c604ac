//! The memory of the program, which holds secrets, is in no core dump, and no other process of its user reads it.

use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use crate::harness::process::PROGRAM;
use crate::harness::wait::wait_until;

/// A user without privileges, for a test that runs as root.
const NOBODY: u32 = 65_534;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_dump_of_the_program_can_be_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let is_root = rustix::process::geteuid().is_root();
    let user = if is_root {
        NOBODY
    } else {
        rustix::process::geteuid().as_raw()
    };
    std::os::unix::fs::chown(folder.path(), Some(user), None).expect("a new owner");
    let mut command = Command::new(PROGRAM);
    command
        .args(["approvals", "--watch", "--json"])
        .env_clear()
        .env("HOME", folder.path())
        .env("PUNIE_HOME", folder.path().join("home"))
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if is_root {
        command.uid(user).gid(user);
    }
    let mut child = command.spawn().expect("started");
    let place = std::path::PathBuf::from(format!("/proc/{}", child.id()));
    let lock = folder.path().join("home/state/approver.lock");
    wait_until("the program to run", || lock.exists()).await;
    let limits = std::fs::read_to_string(place.join("limits")).expect("its limits");
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"));
    let words: Vec<&str> = core.expect("a limit").split_whitespace().collect();
    assert_eq!(words[4..6], ["0", "0"], "{limits}");
    let owner = |path: &std::path::Path| path.metadata().expect("a process").uid();
    assert_eq!(owner(&place), user, "the program runs as that user");
    // The kernel gives these files to root if the process cannot be dumped.
    assert_eq!(owner(&place.join("environ")), 0);
    assert_eq!(owner(&place.join("mem")), 0);
    child.kill().expect("killed");
    child.wait().expect("ended");
}
