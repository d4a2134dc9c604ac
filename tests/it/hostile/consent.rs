//! Machines that can confine commands only in part: the runner asks the owner once if commands may run anyway.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::absence::OtherKernel;
use crate::harness::terminal::{open_terminal, read_screen};

const QUESTION: &str = "Let commands run all the same?";

/// Starts the command on a terminal with this answer typed. Returns the process, and a thread that collects the
/// terminal's output.
fn start_on_terminal(
    bare: &OtherKernel,
    args: &[&str],
    typed: &str,
) -> (Child, std::thread::JoinHandle<String>) {
    let (mut ours, theirs) = open_terminal();
    let side = || Stdio::from(theirs.try_clone().expect("a copy"));
    ours.write_all(typed.as_bytes()).expect("typed");
    let mut command = bare.command(args);
    let child = command
        .stdin(side())
        .stderr(side())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let shown = read_screen(ours);
    (child, shown)
}

/// Runs the command to its end, and returns all that the terminal shows.
fn run_on_terminal(bare: &OtherKernel, args: &[&str], typed: &str) -> String {
    let (mut child, shown) = start_on_terminal(bare, args, typed);
    assert!(child.wait().expect("it ends").success(), "{args:?}");
    shown.join().expect("read")
}

/// Runs `dev` on a terminal until it prints its first line, then stops it. Returns all that the terminal shows.
fn run_dev(bare: &OtherKernel, typed: &str) -> String {
    let (mut child, shown) = start_on_terminal(bare, &["dev"], typed);
    let mut first = String::new();
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    out.read_line(&mut first).expect("readable");
    assert_starts_with!(first, "Backend ");
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("an id"), Signal::TERM).expect("it runs");
    let deadline = Instant::now() + Duration::from_mins(1);
    while child.try_wait().expect("waited for").is_none() {
        assert!(Instant::now() < deadline, "the process does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    shown.join().expect("read")
}

fn without_namespaces(config: &str) -> OtherKernel {
    OtherKernel::under("without", &["namespaces"], config)
}

fn config_of(bare: &OtherKernel) -> String {
    std::fs::read_to_string(bare.path("config.toml")).expect("there")
}

#[test]
fn init_asks_on_a_terminal_and_writes_the_answer() {
    for (typed, line) in [("y\n", "partial"), ("n\n", "full"), ("\n", "full")] {
        let bare = without_namespaces("");
        let shown = run_on_terminal(&bare, &["init", "--force"], typed);
        assert_contains!(
            shown,
            "commands can read the files of your home that are on no list of hidden files",
            "commands can connect to services that act for you",
            "commands can change the permissions and times of your files",
            "commands can write workspace files that run programs later",
            "apparmor_restrict_unprivileged_userns=0",
            "kernel.unprivileged_userns_clone=1",
            QUESTION
        );
        assert_lacks!(shown, "Linux 6.12"; "a newer kernel must not be proposed");
        let written = config_of(&bare);
        assert_contains!(written, &format!("\nrequire = \"{line}\"\n"));
        let answer = bare.run_json(&["call", "Bash", r#"{"command":"echo ran"}"#]);
        assert_eq!(answer.get("error").is_none(), line == "partial", "{answer}");
    }
}

#[test]
fn dev_asks_once_and_a_line_of_the_owners_is_an_answer() {
    let bare = without_namespaces("# mine\n[sandbox]\nnetwork = \"none\"\n");
    assert_contains!(run_dev(&bare, "y\n"), QUESTION);
    assert_eq!(
        config_of(&bare),
        "# mine\n[sandbox]\nrequire = \"partial\"\nnetwork = \"none\"\n"
    );
    assert_lacks!(run_dev(&bare, ""), QUESTION);
    for required in ["full", "none"] {
        let config = format!("[sandbox]\nrequire = \"{required}\"\n");
        let bare = without_namespaces(&config);
        assert_lacks!(run_dev(&bare, ""), QUESTION);
        assert_eq!(config_of(&bare), config);
    }
}

#[test]
fn without_a_terminal_and_with_json_nothing_is_asked_and_the_line_is_named() {
    let bare = without_namespaces("");
    let line = "add under [sandbox] in ";
    let output = bare
        .command(&["init", "--force"])
        .stdin(Stdio::null())
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    assert_lacks!(text, QUESTION);
    assert_contains!(text, line, "require = \"partial\"");
    let shown = run_on_terminal(&bare, &["--json", "init", "--force"], "y\n");
    // The terminal's lines are wrapped.
    let words: Vec<&str> = shown.split_whitespace().collect();
    let is_named = words.join(" ").contains(line);
    assert!(!shown.contains(QUESTION) && is_named, "{shown}");
    assert_contains!(config_of(&bare), "\n#require = \"full\"\n");
}

#[test]
fn nothing_is_asked_at_the_full_level_nor_where_partial_would_not_do() {
    let full = OtherKernel::under("older_landlock", &["7"], "");
    let none = OtherKernel::under("without", &["landlock"], "").also_without_namespaces();
    for bare in [full, none] {
        let shown = run_on_terminal(&bare, &["init", "--force"], "y\n");
        assert_lacks!(shown, "require");
        assert_contains!(config_of(&bare), "\n#require = \"full\"\n");
    }
    let older = OtherKernel::under("older_landlock", &["5"], "");
    let shown = run_on_terminal(&older, &["init", "--force"], "y\n");
    assert_contains!(
        shown,
        "commands can send signals to the runner",
        "Linux 6.12"
    );
    assert_lacks!(shown, "apparmor");
}
