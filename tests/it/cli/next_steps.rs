//! The commands that messages suggest: each test runs them exactly as they are printed.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use super::{CliUser, CommandOutput, run_with_input, within_limit};
use crate::harness::terminal::{open_terminal, read_screen};
use crate::harness::wait::wait_for_some;

/// A running server, and the lines that it has printed so far.
struct ShownLines {
    _child: Child,
    _out: BufReader<ChildStdout>,
    text: String,
}

impl ShownLines {
    /// Starts the program, and reads its output up to the line that contains these words.
    async fn until(mut command: Command, words: &str) -> Self {
        let mut child = command.stderr(Stdio::null()).spawn().expect("started");
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        let mut text = String::new();
        while !text.contains(words) {
            let read = within_limit(out.read_line(&mut text))
                .await
                .expect("readable");
            assert!(read > 0, "the program ended: {text}");
        }
        Self {
            _child: child,
            _out: out,
            text,
        }
    }

    /// The command line that contains these words.
    fn command(&self, words: &str) -> &str {
        command_in(&self.text, words)
    }
}

/// The command line in a text that contains these words.
fn command_in<'t>(text: &'t str, words: &str) -> &'t str {
    let lines = text.lines().filter_map(|line| {
        let at = line.find("punie-runner ")?;
        Some(&line[at..])
    });
    let mut lines = lines.filter(|line| line.contains(words));
    lines.next().unwrap_or_else(|| panic!("{words}: {text}"))
}

/// A command whose home is set by flags only.
fn without_variables(user: &CliUser, args: &[&str]) -> Command {
    let mut command = user.command(args);
    command.env_remove("PUNIE_HOME");
    command
}

/// Runs a line in a shell that finds the program on its PATH.
async fn types_line(user: &CliUser, line: &str) -> CommandOutput {
    let programs = user.path("programs");
    if !programs.exists() {
        std::fs::create_dir(&programs).expect("made");
        let program = env!("CARGO_BIN_EXE_punie-runner");
        std::os::unix::fs::symlink(program, programs.join("punie-runner")).expect("made");
    }
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", line])
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", programs.display()))
        .env("HOME", user.path(""))
        .env("TMPDIR", user.path(""))
        .current_dir(user.path("work"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    run_with_input(command, "").await
}

#[tokio::test]
async fn hints_repeat_the_flags_without_which_they_act_on_another_home() {
    let user = CliUser::new();
    let home = user.text("my home");
    let flags = format!("punie-runner --home '{home}'");
    let typed = ["--home", &home, "--backend-url", "https://a.convex.cloud"];
    let init = run_with_input(
        without_variables(&user, &[&typed[..], &["init"]].concat()),
        "",
    )
    .await;
    assert!(
        init.out.contains(&format!("Next: {flags} pair CODE, with")),
        "the file has the address now: {init:?}"
    );
    let history = ["--home", &home, "history", "none"];
    let history = run_with_input(without_variables(&user, &history), "").await;
    history.refused(1, &format!("`{flags} history` lists them"));
    let relative = ["--home", "../my home", "status"];
    let status = run_with_input(without_variables(&user, &relative), "")
        .await
        .ended(3);
    assert!(
        status
            .out
            .contains(&format!("--home '{}/../my home'", user.text("work"))),
        "a hint names the whole path: {status:?}"
    );
    std::fs::remove_file(user.path("my home/config.toml")).expect("removed");
    let send = ["--home", &home, "send", "Read", "a"];
    let send = run_with_input(without_variables(&user, &send), "").await;
    send.refused(78, &format!("`{flags} dev` starts"));

    let dev = without_variables(&user, &["--home", &home, "dev"]);
    let dev = ShownLines::until(dev, "Ctrl-C stops").await;
    user.write("work/here.txt", "");
    let answered = types_line(&user, dev.command("send")).await.done();
    assert_contains!(answered.out, "here.txt");
}

#[tokio::test]
async fn the_backend_s_screen_has_the_lines_for_the_device_and_the_caller() {
    let host = CliUser::new();
    let device = CliUser::new();
    let home = host.text("home of the backend");
    let backend = without_variables(&host, &["--home", &home, "backend"]);
    let backend = ShownLines::until(backend, "Ctrl-C stops").await;

    // The home of the backend has no runner.
    let status = ["--home", &home, "status"];
    let status = run_with_input(without_variables(&host, &status), "")
        .await
        .ended(3);
    assert_contains!(
        status.out,
        "it runs in this home; this device is not paired"
    );
    assert_contains!(status.out, &format!("--home '{home}' --backend-url http"));
    let send = backend.command("send");
    types_line(&host, send)
        .await
        .refused(1, "no device is paired with http");

    types_line(&device, backend.command("pair")).await.done();
    let status = types_line(&device, "punie-runner status --json").await;
    assert_eq!(status.ended(3).json()["backend"]["paired"], true);
    let runner = device.command(&["--home", &device.text(".punie"), "--workspace", ".", "run"]);
    let mut runner = { runner }.spawn().expect("started");
    device.write("work/there.txt", "");
    // `status` gave the backend's home an identity, but the request must go to the paired device.
    let answered = types_line(&host, send).await.done();
    assert_contains!(answered.out, "there.txt");

    // From another home, `send` fails and says how to pass the token.
    let stranger = CliUser::new();
    let url = command_in(&backend.text, "pair")
        .split(' ')
        .nth(2)
        .expect("an address");
    let send = format!("punie-runner --backend-url {url} send Bash -- ls");
    let refused = types_line(&stranger, &send).await;
    refused.refused(
        77,
        "type PUNIE_CALLER_TOKEN=$(cat FILE) before this command",
    );
    let file = backend.text.lines().find_map(|line| {
        let (_, file) = line.strip_prefix("Caller token")?.split_once("in ")?;
        Some(file.to_owned())
    });
    let token = format!("PUNIE_CALLER_TOKEN=$(cat '{}')", file.expect("a file"));
    let answered = types_line(&stranger, &format!("{token} {send}"))
        .await
        .done();
    assert_contains!(answered.out, "there.txt");
    let wrong = send.replace("send", "--device nobody send");
    let wrong = types_line(&stranger, &format!("{token} {wrong}")).await;
    wrong.refused(
        77,
        "name the device with --device ID (or PUNIE_DEVICE); the backend knows ",
    );
    runner.kill().await.expect("ended");
}

#[tokio::test]
async fn a_device_that_was_never_paired_is_told_so() {
    let host = CliUser::new();
    let user = CliUser::new();
    let backend = host.serves(&["backend", "--json"]).await;
    let url = backend.ready["url"].as_str().expect("a text");
    let code = backend.ready["pairingCode"].as_str().expect("a text");
    let pair = format!("punie-runner --backend-url {url} pair CODE");

    let status = user
        .run_cli(&["--backend-url", url, "status"])
        .await
        .ended(3);
    assert_contains!(
        status.out,
        "this device is not paired with it",
        &format!("Pair it      {pair}")
    );
    let (ours, theirs) = open_terminal();
    let mut run = user.command(&["--backend-url", url, "run"]);
    run.stdout(theirs.try_clone().expect("a copy"))
        .stderr(theirs);
    let screen = read_screen(ours);
    let mut child = run.spawn().expect("started");
    drop(run);
    let ended = within_limit(child.wait()).await.expect("waited for");
    let shown = screen.join().expect("read");
    assert_eq!(ended.code(), Some(77), "{shown}");
    assert_contains!(
        shown,
        &format!("Connecting to {url} ..."),
        &format!("This device is not paired with {url}"),
        &format!("then run: {pair}")
    );
    assert_lacks!(shown, "Waiting for requests");

    let paired = user
        .run_cli(&["--backend-url", url, "pair", code])
        .await
        .done();
    assert_contains!(paired.out, "Then run: punie-runner\n");
    let status = user.run_cli(&["status"]).await.ended(3);
    assert_contains!(status.out, "Start it     punie-runner\n");
    assert_lacks!(status.out, "not paired");
}

#[tokio::test]
async fn a_port_in_use_is_told_as_that() {
    let user = CliUser::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("free");
    let port = taken.local_addr().expect("bound").port().to_string();
    for command in ["dev", "backend"] {
        let refused = user.run_cli(&[command, "--port", &port]).await;
        let text = format!(
            "punie-runner: port {port} of this machine is already in use. Choose another with --port, or leave it out to take a free one\n"
        );
        refused.refused(69, &text);
        assert_lacks!(refused.err, "os error");
    }
}

#[tokio::test]
async fn a_wrong_configuration_stops_no_caller_of_a_running_runner() {
    let user = CliUser::new();
    let dev = user.serves(&["dev", "--json"]).await;
    wait_for_some("the settings in force", async || {
        let status = user.run_cli(&["status", "--json"]).await.json();
        (!status["inForce"].is_null()).then_some(())
    })
    .await;
    user.write("home/config.toml", "[limits]\nreads = 0\n");
    let answered = user.run_cli(&["send", "Bash", "--", "echo", "heard"]).await;
    assert_contains!(answered.done().out, "heard");
    user.run_cli(&["history"]).await.done();
    user.run_cli(&["approvals"]).await.done();
    user.run_cli(&["pause"]).await.done();
    // `call` runs the tool in its own process, so it needs a valid file.
    user.run_cli(&["call", "Bash", "--", "true"])
        .await
        .refused(78, "limits.reads");
    dev.stopped().await;
    user.run_cli(&["send", "Bash", "--", "true"])
        .await
        .refused(78, "limits.reads");
}
