//! The shell and terminal tools with real processes: how commands end, are stopped, and what they leave behind.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "a test sets its own scene")]

use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use punie_runner::acp::local::children::{ChildLog, Unlogged};
use punie_runner::acp::local::identity::ProcessIdentity;
use punie_runner::acp::local::kill::kill_survivor;
use punie_runner::acp::local::terminals::{LocalSetup, LocalTerminals};
use punie_runner::acp::terminals::{CreateTerminal, ExitStatus, Launch, StopSignal, TerminalClient};
use punie_runner::acp::{TerminalId, Workspace};
use punie_runner::handlers::shell::{self, ShellBoard, ShellDeps};
use punie_runner::handlers::terminal::{self, TerminalDeps};
use punie_runner::ids::RequestId;
use punie_runner::output::filter::PassThrough;
use punie_runner::output::{FilterFactory, OutputStore, StreamFilter};
use punie_runner::request::{ErrorCode, Failure, Meta, Reply};
use punie_runner::tool::{Registry, ToolCx, ToolError};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::tools;

/// A workspace with its tools. What still runs is killed when it is dropped.
struct Bench {
    registry: Arc<Registry>,
    terminals: LocalTerminals,
    workspace: TempDir,
    outputs: TempDir,
}

fn plain() -> FilterFactory {
    Arc::new(|| Box::new(PassThrough))
}

fn base() -> Vec<(String, String)> {
    let entries = [
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("HOME", "/"),
        ("PUNIE_TOKEN", "hidden"),
        ("AWS_REGION", "hidden"),
    ];
    entries.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

impl Bench {
    fn new() -> Self {
        Self::with(base(), plain(), Arc::new(Unlogged))
    }

    fn with(base_env: Vec<(String, String)>, filters: FilterFactory, log: Arc<dyn ChildLog>) -> Self {
        let (folder, outputs) =
            (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let store = OutputStore::open(outputs.path()).expect("a store");
        let terminals = LocalTerminals::new(LocalSetup { base_env, store, filters, log }).expect("a thread");
        let workspace = Workspace::open(&[folder.path().to_owned()]).expect("a workspace");
        let client: Arc<dyn TerminalClient> = Arc::new(terminals.clone());
        let shells = Arc::new(ShellBoard::new());
        let entries =
            shell::tools(ShellDeps { terminals: Arc::clone(&client), workspace: workspace.clone(), shells });
        let more = terminal::tools(TerminalDeps { terminals: client, workspace });
        let registry = Arc::new(Registry::new([entries, more]).expect("the names differ"));
        Self { registry, terminals, workspace: folder, outputs }
    }

    async fn call(&self, tool: &str, args: Value) -> Result<Reply, ToolError> {
        within(tools::call(&self.registry, tool, args)).await
    }

    async fn bash(&self, command: &str) -> (String, Meta) {
        let reply = self.call("Bash", json!({"command": command})).await.expect(command);
        (tools::text(&reply).to_owned(), reply.meta)
    }

    async fn text(&self, tool: &str, args: Value) -> String {
        tools::text(&self.call(tool, args).await.expect(tool)).to_owned()
    }
}

/// Nothing here takes long; a hang is a failure and not a wait.
async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("an answer in time")
}

fn is_there(pid: &str) -> bool {
    let pid = pid.trim().parse().expect("a process id");
    ProcessIdentity::of(pid).is_some_and(|process| process.is_alive())
}

fn meta_of(error: ToolError) -> Meta {
    Failure::from(error).meta
}

/// A place where a command reports that it has come so far: it sends one line, and may be sent one.
struct Checkpoint {
    listener: TcpListener,
    port: u16,
}

impl Checkpoint {
    async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        Self { listener, port }
    }

    /// Shell words that open a connection to here as descriptor 9.
    fn connect(&self) -> String {
        format!("exec 9<>/dev/tcp/127.0.0.1/{}", self.port)
    }

    async fn line(&self) -> (String, BufReader<TcpStream>) {
        let (stream, _) = within(self.listener.accept()).await.expect("a connection");
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        within(stream.read_line(&mut line)).await.expect("a line");
        (line.trim().to_owned(), stream)
    }
}

#[tokio::test]
async fn a_command_answers_with_its_output_and_how_it_ended() {
    let bench = Bench::new();
    let (text, meta) = bench.bash("echo out; echo err >&2; echo out again").await;
    assert_eq!(text, "out\nerr\nout again", "in the order they came, and nothing beside it");
    assert_eq!(meta.exit_code, Some(0));

    assert_eq!(bench.bash("true").await.0, "Command completed successfully (no output).");

    let (text, meta) = bench.bash("echo half; exit 3").await;
    assert!(text.starts_with("half\nExit code 3 ("), "{text}");
    assert_eq!(meta.exit_code, Some(3));

    let (text, meta) = bench.bash("no-such-program-here").await;
    assert!(text.contains("Exit code 127") && text.contains("not found"), "{text}");
    assert_eq!(meta.exit_code, Some(127));
    assert!(bench.bash("/etc/passwd").await.0.contains("could not be executed"));
}

#[tokio::test]
async fn a_signal_is_named() {
    let bench = Bench::new();
    let (text, meta) = bench.bash("echo last words; kill -SEGV $$").await;
    assert!(text.starts_with("last words\nKilled by SIGSEGV"), "{text}");
    assert_eq!(meta.signal.as_deref(), Some("SIGSEGV"));
    assert_eq!(meta.exit_code, None);
    let (text, _) = bench.bash("bash -c 'kill -KILL $$'; exit $?").await;
    assert!(text.contains("Exit code 137") && text.contains("SIGKILL"), "{text}");
}

#[tokio::test]
async fn input_is_empty_or_what_was_given() {
    let bench = Bench::new();
    assert_eq!(bench.bash("cat; read line || echo no input").await.0, "no input");
    let large = "all work and no play\n".repeat(20_000);
    let counted = bench.text("Bash", json!({"command": "wc -c", "stdin": large})).await;
    assert_eq!(counted.trim(), large.len().to_string());
    // One that does not read it is not held up by it.
    assert_eq!(bench.text("Bash", json!({"command": "echo done", "stdin": large})).await, "done");
}

#[tokio::test]
async fn the_environment_is_built_from_nothing() {
    let bench = Bench::new();
    let env = bench.text("Bash", json!({"command": "env", "env": {"ASKED": "for"}})).await;
    let env: BTreeMap<&str, &str> = env.lines().filter_map(|line| line.split_once('=')).collect();
    assert_eq!(env["PAGER"], "cat");
    assert_eq!(env["TERM"], "dumb");
    assert_eq!(env["GIT_TERMINAL_PROMPT"], "0");
    assert_eq!(env["ASKED"], "for");
    assert!(!env.contains_key("PUNIE_TOKEN") && !env.contains_key("AWS_REGION"), "{env:?}");

    for name in ["LD_PRELOAD", "BASH_ENV", "DYLD_INSERT_LIBRARIES", "MY_TOKEN"] {
        let args = json!({"command": "touch ran", "env": {name: "x"}});
        let refused = bench.call("Bash", args).await.expect_err(name);
        assert_eq!(refused.code(), ErrorCode::PolicyDenied, "{refused}");
    }
    let refused =
        bench.call("Bash", json!({"command": "touch ran", "env": {"A B": "x"}})).await.expect_err("a blank");
    assert_eq!(refused.code(), ErrorCode::InvalidArgs);
    assert!(!bench.workspace.path().join("ran").exists());
}

#[tokio::test]
async fn the_login_shell_is_asked_once_and_its_chatter_ignored() {
    let home = tempfile::tempdir().expect("a home");
    let profile =
        "echo Welcome; echo x >> \"$HOME/asked\"; export GOPATH=/from/profile; export AWS_REGION=hidden\n";
    std::fs::write(home.path().join(".bash_profile"), profile).expect("a profile");
    let mut base = base();
    base.retain(|(name, _)| name != "HOME");
    base.push(("HOME".to_owned(), home.path().display().to_string()));
    base.push(("SHELL".to_owned(), "/bin/bash".to_owned()));
    let bench = Bench::with(base, plain(), Arc::new(Unlogged));
    assert_eq!(bench.bash("echo $GOPATH-$AWS_REGION").await.0, "/from/profile-");
    bench.bash("true").await;
    let asked = std::fs::read_to_string(home.path().join("asked")).expect("it was asked");
    assert_eq!(asked, "x\n");
}

#[tokio::test]
async fn a_profile_that_hangs_does_not_hold_commands_up_for_ever() {
    let home = tempfile::tempdir().expect("a home");
    std::fs::write(home.path().join(".bash_profile"), "sleep 1000\n").expect("a profile");
    let own = ("GOPATH".to_owned(), "/own".to_owned());
    let named = ("HOME".to_owned(), home.path().display().to_string());
    let base =
        [vec![named, own, ("SHELL".to_owned(), "/bin/bash".to_owned())], base()[..1].to_vec()].concat();
    let bench = Bench::with(base, plain(), Arc::new(Unlogged));
    assert_eq!(bench.bash("echo $GOPATH").await.0, "/own");
}

#[tokio::test]
async fn over_its_time_a_command_is_stopped_and_keeps_what_it_printed() {
    let bench = Bench::new();
    let command = "trap '' TERM; echo $$; echo begun; sleep 60; echo never";
    let stopped =
        bench.call("Bash", json!({"command": command, "timeout": 300})).await.expect_err("too long");
    assert_eq!(stopped.code(), ErrorCode::Timeout);
    assert!(stopped.text().contains("begun"), "{stopped}");
    assert!(stopped.text().contains("SIGKILL") && stopped.text().contains("run_in_background"), "{stopped}");
    assert!(!stopped.text().contains("never"), "{stopped}");
    let pid = stopped.text().lines().next().expect("a line").to_owned();
    assert!(!is_there(&pid));
    let meta = meta_of(stopped);
    assert!(meta.timed_out);
    assert_eq!(meta.signal.as_deref(), Some("SIGKILL"));
}

#[tokio::test]
async fn the_time_limit_has_limits() {
    let bench = Bench::new();
    let refused = bench.call("Bash", json!({"command": "true", "timeout": 0})).await.expect_err("no time");
    assert_eq!(refused.code(), ErrorCode::InvalidArgs);
    let reply = bench.call("Bash", json!({"command": "true", "timeout_ms": 700_000})).await.expect("lowered");
    assert!(reply.meta.warnings[0].contains("600000"), "{:?}", reply.meta.warnings);
}

#[tokio::test]
async fn what_holds_the_output_is_named_kept_and_ended() {
    let bench = Bench::new();
    let (text, meta) = bench.bash("sleep 60 & echo hi").await;
    assert!(text.starts_with("hi\n"), "{text}");
    assert!(text.contains("Still running: sleep 60 (pid ") && text.contains("shell sh_1"), "{text}");
    assert!(meta.output_incomplete);
    assert_eq!(meta.exit_code, Some(0));

    let listed = bench.text("ShellStatus", json!({})).await;
    assert!(listed.contains("sh_1") && listed.contains("still running: sleep 60"), "{listed}");
    let pid = text.split("(pid ").nth(1).and_then(|rest| rest.split(')').next()).expect("a pid").to_owned();
    assert!(is_there(&pid));

    let killed = bench.text("KillShell", json!({"shell_id": "sh_1"})).await;
    assert!(killed.contains("stopped with SIGTERM"), "{killed}");
    assert!(!is_there(&pid));
    let again = bench.text("KillShell", json!({"shell_id": "sh_1"})).await;
    assert!(again.contains("had ended already"), "{again}");
}

#[tokio::test]
async fn what_goes_on_quietly_is_named_too() {
    let bench = Bench::new();
    let (text, meta) = bench.bash("sleep 60 > /dev/null 2>&1 & echo hi").await;
    assert!(text.contains("Still running: sleep 60 (pid "), "{text}");
    assert!(!meta.output_incomplete, "all of the output is there");
    bench.text("KillShell", json!({"shell_id": "sh_1", "signal": "KILL"})).await;
}

#[tokio::test]
async fn what_left_the_session_is_ended_with_the_rest() {
    let bench = Bench::new();
    let command = "setsid sleep 60 & echo one $!; (setsid env -i sleep 61 & echo two $!); sleep 62";
    let begun = bench.text("Bash", json!({"command": command, "run_in_background": true})).await;
    let pid = |name: &str| {
        let line =
            begun.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {begun}"));
        line.split(' ').nth(1).expect("a pid").to_owned()
    };
    assert!(is_there(&pid("one")) && is_there(&pid("two")), "{begun}");
    bench.text("KillShell", json!({"shell_id": "sh_1"})).await;
    assert!(!is_there(&pid("one")), "found by its mark or its parent");
    assert!(!is_there(&pid("two")), "found by the pipe it holds");
}

#[tokio::test]
async fn a_cancelled_command_is_interrupted_with_all_it_started() {
    let bench = Bench::new();
    let checkpoint = Checkpoint::open().await;
    let command = format!(
        "echo begun; sleep 60 & {}; echo $! $$ >&9; exec 9>&-; sleep 61; echo never",
        checkpoint.connect()
    );
    let cx = ToolCx::detached(RequestId::new());
    let cancel = cx.cancel.clone();
    let args = json!({"command": command});
    let call = tools::call_with(&bench.registry, "Bash", args, cx);
    let (answer, pids) = tokio::join!(within(call), async {
        let (pids, _) = checkpoint.line().await;
        cancel.cancel();
        pids
    });
    let cancelled = answer.expect_err("cancelled");
    assert_eq!(cancelled.code(), ErrorCode::Cancelled);
    assert!(cancelled.text().starts_with("begun\n") && !cancelled.text().contains("never"), "{cancelled}");
    for pid in pids.split(' ') {
        assert!(!is_there(pid), "{pid}");
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_leaves_nothing_running() {
    let bench = Bench::new();
    let checkpoint = Checkpoint::open().await;
    let command = format!("{}; echo $$ >&9; sleep 60", checkpoint.connect());
    let call = bench.call("Bash", json!({"command": command}));
    let (pid, mut stream) = tokio::select! {
        _ = call => panic!("it runs for a minute"),
        reported = checkpoint.line() => reported,
    };
    // The connection ends when its last holder does.
    let mut rest = String::new();
    let _ = within(stream.read_line(&mut rest)).await;
    assert!(!is_there(&pid));
}

#[tokio::test]
async fn a_hundred_megabytes_cost_no_memory_and_lose_neither_head_nor_tail() {
    let bench = Bench::new();
    std::fs::write("/proc/self/clear_refs", "5").expect("the peak is reset");
    let before = peak_kib();
    let (text, meta) = bench.bash("seq 1 14000000").await;
    let grown = peak_kib().saturating_sub(before);
    assert!(text.starts_with("1\n2\n3\n"), "{}", &text[..40]);
    assert!(text.ends_with("\n13999999\n14000000"), "{}", &text[text.len() - 40..]);
    assert!(text.len() <= 30_000);
    assert!(meta.truncated && meta.omitted_bytes > Some(100_000_000), "{meta:?}");
    let handle = meta.handle.expect("a handle");
    assert!(text.contains(&handle), "the marker names it");
    assert!(grown < 64 * 1024, "the peak grew by {grown} KiB");
    let kept = std::fs::metadata(bench.outputs.path().join(handle)).expect("the kept output").len();
    assert_eq!(kept, 114_888_897, "every byte is kept");
}

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("this process");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a peak");
    line.split_ascii_whitespace().nth(1).expect("a number").parse().expect("a number")
}

#[tokio::test]
async fn something_that_prints_for_ever_does_not_delay_the_answer() {
    let bench = Bench::new();
    let (text, meta) = bench.bash("yes & echo hi; exit 4").await;
    assert!(meta.output_incomplete && meta.exit_code == Some(4), "{meta:?}");
    assert!(text.contains("Still running: yes (pid "), "{}", &text[text.len() - 300..]);
    bench.text("KillShell", json!({"shell_id": "sh_1"})).await;
}

#[tokio::test]
async fn a_folder_must_be_one_and_inside() {
    let bench = Bench::new();
    std::fs::write(bench.workspace.path().join("file"), "x").expect("a file");
    std::fs::create_dir(bench.workspace.path().join("sub")).expect("a folder");
    for (folder, code) in [
        ("/", ErrorCode::OutsideWorkspace),
        ("file", ErrorCode::InvalidArgs),
        ("missing", ErrorCode::NotFound),
    ] {
        let args = json!({"command": "touch ran", "cwd": folder});
        let refused = bench.call("Bash", args).await.expect_err(folder);
        assert_eq!(refused.code(), code, "{refused}");
        let refused = bench.call("run_command", json!({"command": "touch ran", "cwd": folder})).await;
        assert_eq!(refused.expect_err(folder).code(), code);
    }
    assert!(!Path::new("/ran").exists());
    let shown = bench.text("Bash", json!({"command": "pwd", "workdir": "sub"})).await;
    assert!(shown.ends_with("/sub"), "{shown}");
}

#[tokio::test]
async fn a_command_over_the_systems_limits_is_refused_with_a_way_out() {
    let bench = Bench::new();
    let huge = format!("echo {}", "x".repeat(2 << 20));
    let refused = bench.call("Bash", json!({"command": huge})).await.expect_err("2 MB");
    assert_eq!(refused.code(), ErrorCode::TooLarge);
    assert!(refused.text().contains("stdin"), "{refused}");
    let longest = format!("true {}", "x".repeat((128 << 10) - 6));
    assert_eq!(bench.bash(&longest).await.1.exit_code, Some(0), "the longest there is");
    let refused = bench.call("Bash", json!({"command": longest + "x"})).await.expect_err("one more");
    assert_eq!(refused.code(), ErrorCode::TooLarge);
    let many: Vec<String> = std::iter::repeat_n("x".repeat(100_000), 60).collect();
    let refused =
        bench.call("run_command", json!({"command": "true", "args": many})).await.expect_err("6 MB");
    assert_eq!(refused.code(), ErrorCode::TooLarge, "{refused}");
    let refused = bench.call("Bash", json!({"command": "echo a\u{0}b"})).await.expect_err("a NUL");
    assert_eq!(refused.code(), ErrorCode::InvalidArgs);
    let refused = bench.call("Bash", json!({"command": "  "})).await.expect_err("nothing");
    assert_eq!(refused.code(), ErrorCode::InvalidArgs);
}

#[tokio::test]
async fn a_shell_in_the_background_is_followed_to_its_end() {
    let bench = Bench::new();
    let checkpoint = Checkpoint::open().await;
    let command =
        format!("echo one; {}; echo here >&9; read -u 9 word; echo got $word; exit 5", checkpoint.connect());
    let start = json!({"command": command, "run_in_background": true, "description": "A test"});
    let begun = bench.text("Bash", start.clone()).await;
    assert!(begun.starts_with("Shell sh_1 (pid ") && begun.contains(") running\none"), "{begun}");
    let (_, mut stream) = checkpoint.line().await;

    let seen = bench.text("ShellStatus", json!({"shell_id": "sh_1"})).await;
    assert!(seen.contains("running for") && seen.contains("\none\n") && seen.contains("A test"), "{seen}");
    let cursor: u64 = seen
        .split("[since=")
        .nth(1)
        .and_then(|rest| rest.split(' ').next())
        .expect("a cursor")
        .parse()
        .expect("a number");
    let nothing = bench.text("ShellStatus", json!({"shell_id": "sh_1", "since": cursor})).await;
    assert!(nothing.contains("(nothing new was printed)"), "{nothing}");

    let waiting = bench.call(
        "ShellStatus",
        json!({"shell_id": "sh_1", "since": cursor, "wait_ms": 30_000, "pattern": "^got"}),
    );
    let (new, ()) = tokio::join!(waiting, async {
        stream.write_all(b"word\n").await.expect("written");
    });
    let new = new.expect("new output");
    assert!(tools::text(&new).contains("got word\n") && !tools::text(&new).contains("\none\n"), "{new:?}");

    let end = bench.text("ShellStatus", json!({"shell_id": "sh_1", "wait_ms": 30_000})).await;
    assert!(end.contains("exit code 5"), "{end}");
    assert!(
        bench.text("KillShell", json!({"shell_id": "sh_1"})).await.contains("had ended already: exit code 5")
    );
    assert!(bench.text("ShellStatus", json!({})).await.contains("exit code 5"));

    let missing = bench.call("KillShell", json!({"shell_id": "sh_9"})).await.expect_err("no such shell");
    assert_eq!(missing.code(), ErrorCode::NotFound);
    assert!(missing.text().contains("sh_1"), "{missing}");
}

#[tokio::test]
async fn a_second_shell_with_the_same_command_is_pointed_out() {
    let bench = Bench::new();
    let start = json!({"command": "sleep 60", "run_in_background": true});
    let first = bench.text("Bash", start.clone()).await;
    assert!(!first.contains("already"), "{first}");
    let second = bench.text("Bash", start).await;
    assert!(second.starts_with("Shell sh_2") && second.contains("as shell sh_1"), "{second}");
    for id in ["sh_1", "sh_2"] {
        bench.text("KillShell", json!({"shell_id": id, "signal": "INT"})).await;
    }
}

#[tokio::test]
async fn a_short_shell_in_the_background_is_reported_whole() {
    let bench = Bench::new();
    let text = bench.text("Bash", json!({"command": "echo quick; exit 2", "background": true})).await;
    assert!(
        text.starts_with("Shell sh_1 (pid ") && text.contains("has ended already\nquick\nExit code 2"),
        "{text}"
    );
}

#[tokio::test]
async fn run_command_takes_a_line_or_a_program_with_its_arguments() {
    let bench = Bench::new();
    assert_eq!(bench.text("run_command", json!({"command": "echo $((1 + 2)) | cat"})).await, "3");
    let literal =
        bench.text("run_command", json!({"command": "printf", "args": ["%s|", "two words", "$HOME"]})).await;
    assert_eq!(literal, "two words|$HOME|");
    let reply = bench.call("run_command", json!({"command": "false", "args": []})).await.expect("it ran");
    assert_eq!(reply.meta.exit_code, Some(1));
    assert!(tools::text(&reply).starts_with("Exit code 1"), "{reply:?}");
    let refused = bench
        .call("run_command", json!({"command": "no-such-program", "args": []}))
        .await
        .expect_err("no program");
    assert_eq!(refused.code(), ErrorCode::NotFound);
    let left = bench.text("run_command", json!({"command": "sleep 60 & echo $!"})).await;
    assert!(left.contains("Ended with the command: sleep 60"), "{left}");
    assert!(!is_there(left.lines().next().expect("a pid")));
}

/// Keeps what it is told.
#[derive(Default)]
struct Notes {
    started: Mutex<Vec<(RequestId, ProcessIdentity)>>,
    ended: Mutex<Vec<ProcessIdentity>>,
}

impl ChildLog for Notes {
    fn started(&self, request: &RequestId, identity: &ProcessIdentity, _command: &str) {
        self.started.lock().expect("no panic").push((request.clone(), identity.clone()));
    }
    fn ended(&self, identity: &ProcessIdentity) {
        self.ended.lock().expect("no panic").push(identity.clone());
    }
}

async fn start(bench: &Bench, line: &str) -> TerminalId {
    let folder = bench.workspace.path().to_owned();
    let create = CreateTerminal::new(&RequestId::new(), Launch::Shell(line.to_owned()), folder);
    bench.terminals.create_terminal(create).await.expect("started").id
}

#[tokio::test]
async fn what_a_former_life_left_is_ended_and_a_stranger_never() {
    let notes = Arc::new(Notes::default());
    let bench = Bench::with(base(), plain(), Arc::clone(&notes) as Arc<dyn ChildLog>);
    let id = start(&bench, "setsid sleep 60 & sleep 61").await;
    let (request, identity) = notes.started.lock().expect("no panic")[0].clone();
    assert!(identity.is_alive());

    // The same process id with another start time: somebody else.
    let (rest, began) = identity
        .to_string()
        .rsplit_once(':')
        .map(|(rest, began)| (rest.to_owned(), began.to_owned()))
        .expect("parts");
    let later = began.parse::<u64>().expect("a number") + 100_000;
    let stranger: ProcessIdentity = format!("{rest}:{later}").parse().expect("an identity");
    assert!(!stranger.is_alive());
    let wanted = stranger.clone();
    let other = RequestId::new();
    let spared = tokio::task::spawn_blocking(move || kill_survivor(&wanted, &other)).await.expect("no panic");
    assert_eq!(spared.by, None);
    assert!(identity.is_alive());

    let ended = identity.clone();
    let stopped =
        tokio::task::spawn_blocking(move || kill_survivor(&ended, &request)).await.expect("no panic");
    assert_eq!(stopped.by, Some(StopSignal::Terminate));
    assert!(stopped.survivors.is_empty());
    let exit = within(bench.terminals.wait_for_terminal_exit(&id)).await.expect("ended");
    assert_eq!(exit.status, ExitStatus::Signal("SIGTERM".to_owned()));
    assert!(!identity.is_alive());
    assert_eq!(*notes.ended.lock().expect("no panic"), [identity]);
}

#[tokio::test]
async fn a_released_terminal_is_gone_and_a_killed_one_is_not() {
    let bench = Bench::new();
    let id = start(&bench, "sleep 60").await;
    let client: &dyn TerminalClient = &bench.terminals;
    within(client.kill_terminal(&id, punie_runner::acp::terminals::Ladder::kill())).await.expect("killed");
    let exit = within(client.wait_for_terminal_exit(&id)).await.expect("still known");
    assert_eq!(exit.status, ExitStatus::Signal("SIGKILL".to_owned()));
    client.release_terminal(&id).await.expect("released");
    let unknown = client.wait_for_terminal_exit(&id).await.expect_err("forgotten");
    assert_eq!(unknown.code(), ErrorCode::NotFound);
}

/// Masks every `s`.
struct NoS(u64);

impl StreamFilter for NoS {
    fn push(&mut self, chunk: &[u8], out: &mut Vec<u8>) {
        self.0 += chunk.iter().filter(|b| **b == b's').count() as u64;
        out.extend(chunk.iter().map(|b| if *b == b's' { b'*' } else { *b }));
    }
    fn finish(&mut self, _out: &mut Vec<u8>) {}
    fn rewritten(&self) -> u64 {
        self.0
    }
}

#[tokio::test]
async fn what_is_masked_reaches_neither_the_answer_nor_the_disk() {
    let bench = Bench::with(base(), Arc::new(|| Box::new(NoS(0))), Arc::new(Unlogged));
    let (text, meta) = bench.bash("echo secrets").await;
    assert_eq!(text, "*ecret*");
    assert_eq!(meta.redactions, Some(2));
    let kept = std::fs::read_dir(bench.outputs.path()).expect("the store").next().expect("one").expect("one");
    assert_eq!(std::fs::read_to_string(kept.path()).expect("text"), "*ecret*\n");
}

#[tokio::test]
async fn escapes_go_unless_they_are_asked_for() {
    let bench = Bench::new();
    let command = r"printf '\033[31mred\033[0m\n10%%\r100%%\n'";
    assert_eq!(bench.bash(command).await.0, "red\n100%");
    let raw = bench.text("Bash", json!({"command": command, "raw": true})).await;
    assert!(raw.contains("\u{1b}[31m"), "{raw:?}");
}
