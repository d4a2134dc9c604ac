//! Grep and Glob in a process of the program. Their other tests are in `src/handlers/tests/it/search`.

use std::fs;
use std::path::Path;

use crate::harness::process::PROGRAM;
use crate::harness::process::copy_program;

/// Creates a file that both searches find.
fn write_file(root: &Path, path: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
    fs::write(path, "needle\n").expect("a file");
}

/// Runs the search in its own process: root can open every file, so a run as root switches to another user id.
#[cfg(unix)]
#[test]
fn what_cannot_be_opened_is_counted() {
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::os::unix::process::CommandExt;
    let base = tempfile::tempdir().expect("a folder");
    let tree = tempfile::tempdir().expect("a folder");
    for path in ["a.txt", "shut/b.txt", "c.txt"] {
        write_file(tree.path(), path);
    }
    let mode = |path: &std::path::Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
    };
    let program = base.path().join("program");
    let home = base.path().join("home");
    copy_program(std::path::Path::new(PROGRAM), &program);
    fs::create_dir(&home).expect("a home");
    mode(base.path(), 0o755);
    mode(tree.path(), 0o755);
    mode(&home, 0o700);
    mode(&tree.path().join("shut"), 0);
    mode(&tree.path().join("c.txt"), 0);
    for (tool, args, skipped) in [
        ("Grep", r#"{"pattern":"needle"}"#, "[skipped: 2 unreadable]"),
        ("Glob", r#"{"pattern":"*.txt"}"#, "[skipped: 1 unreadable]"),
    ] {
        let mut command = std::process::Command::new(&program);
        command
            .args(["call", tool, args, "--workspace"])
            .arg(tree.path())
            .env("PUNIE_HOME", &home);
        command.current_dir(tree.path());
        if rustix::process::geteuid().is_root() {
            chown(&home, Some(65_534), Some(65_534)).expect("another owner");
            command.uid(65_534).gid(65_534);
        }
        let ended = command.output().expect("the program ends");
        let answer = String::from_utf8_lossy(&ended.stdout);
        assert_contains!(answer, "\na.txt\n", skipped; "{ended:?}");
    }
    mode(&tree.path().join("shut"), 0o700);
}

/// Searches a tree with 50,000 files in one folder, one file in each of 500 other folders, and a cycle of links.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_wide_tree_costs_little_memory() {
    use std::io::Read;
    use std::process::{Command, Stdio};
    let folder = || tempfile::tempdir().expect("a folder");
    let tree = folder();
    let home = folder();
    let wide = tree.path().join("wide");
    fs::create_dir(&wide).expect("a folder");
    for i in 0..50_000 {
        fs::File::create(wide.join(format!("a_name_that_is_as_long_as_names_are_{i:06}.txt")))
            .expect("a file");
    }
    for i in 0..500 {
        write_file(
            tree.path(),
            &format!("deep/d{i:03}/{}.txt", "f".repeat(200)),
        );
    }
    std::os::unix::fs::symlink("..", tree.path().join("deep/d000/up")).expect("a link");
    let peak = |tool: &str, args: &str| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_punie-runner"))
            .args(["call", tool, args, "--workspace"])
            .arg(tree.path())
            .env("PUNIE_HOME", home.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut answer = child.stdout.take().expect("its answer");
        let mut text = vec![0];
        // The search is over once its answer begins. The process stays until the whole answer is read.
        answer.read_exact(&mut text).expect("an answer");
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).expect("its state");
        answer.read_to_end(&mut text).expect("an answer");
        child.wait().expect("its end");
        let peak = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .expect("its peak");
        let peak: u64 = peak
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .expect("a number");
        (peak, String::from_utf8(text).expect("text"))
    };
    let (small, _) = peak(
        "Glob",
        r#"{"pattern":"*","path":"deep","limit":2000,"max_chars":200000}"#,
    );
    for (tool, args, says) in [
        (
            "Glob",
            r#"{"pattern":"**","limit":2000,"max_chars":200000}"#,
            "Found 50,500 files (showing 1-2,000)",
        ),
        (
            "Grep",
            r#"{"pattern":"$","max_results":2000,"max_chars":200000}"#,
            "Found 500 files",
        ),
    ] {
        let (large, answer) = peak(tool, args);
        assert_contains!(answer, says);
        assert!(
            large < small + 12_000,
            "{tool}: {large} kB, and {small} kB for a small folder"
        );
    }
}
