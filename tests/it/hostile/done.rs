//! The delivered runner with confinement on: forbidden actions fail with a readable reason. Everyday work succeeds with
//! the settings that the page on safety documents.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::harness::caller::ToolCall;
use crate::harness::process::RunningProgram;
use crate::harness::stage::RunnerFixture;

/// A runner with these settings under `[sandbox]`, and secrets in the user's folder.
struct SandboxedRunner {
    stage: RunnerFixture,
    program: RunningProgram,
}

impl SandboxedRunner {
    async fn new(sandbox: &str) -> Self {
        let setup = RunnerFixture::without_listener(&format!("[sandbox]\n{sandbox}\n")).await;
        let user = &setup.setting.logs;
        std::fs::create_dir(user.join(".ssh")).expect("made");
        std::fs::write(user.join(".ssh/id_rsa"), "the-private-key").expect("written");
        std::fs::write(user.join(".bashrc"), "rc\n").expect("written");
        let program = setup.run();
        Self {
            stage: setup,
            program,
        }
    }

    /// Runs a command, checks that it was fully confined, and returns its output with the tool's notes.
    async fn bash(&self, command: &str) -> String {
        let ask = ToolCall::new("Bash", &json!({ "command": command, "timeout": 600_000 }));
        let answer = self.stage.call(ask).await;
        assert_eq!(
            answer.payload["meta"]["confinement"], "full",
            "{command}: {answer:?}"
        );
        answer.text()
    }

    fn write(&self, files: &[(&str, &str)]) {
        for (file, text) in files {
            let path = self.stage.file(file);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        }
    }
}

/// Returns true if a program is installed. Prints a note if it is missing and the test is skipped.
#[expect(
    clippy::print_stderr,
    reason = "whoever reads the tests' output should see what was not tried"
)]
fn is_here(program: &str) -> bool {
    let found = Command::new(program)
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_must_not_work_fails_and_says_why_and_what_would_allow_it() {
    if is_here("curl") {
        let runner = SandboxedRunner::new("network = \"loopback\"\n").await;
        let text = runner.bash("curl -sS -m 20 https://example.com").await;
        assert_contains!(text, "curl: (6)", "Exit code 6");
        for host in ["example.com", "192.0.2.1"] {
            let text = runner.bash(&format!("curl -sS -m 20 https://{host}")).await;
            assert_contains!(
                last_line(&text),
                "network = \"full\" under [sandbox] in config.toml"
            );
        }
    }
    let runner = SandboxedRunner::new("").await;
    let user = std::fs::canonicalize(&runner.stage.setting.logs).expect("there");
    if is_here("curl") {
        for host in ["example.com", "192.0.2.1"] {
            let text = runner.bash(&format!("curl -sS -m 20 https://{host}")).await;
            let change = format!("punie-runner policy allow --host {host}");
            assert_contains!(text, "Exit code 56");
            assert_contains!(last_line(&text), &change);
        }
    }
    let text = runner.bash("cat ~/.ssh/id_rsa").await;
    assert_lacks!(text, "the-private-key");
    assert_contains!(text, "No such file");
    let setting = format!(
        "read = [\"{}\"] under [sandbox] in config.toml",
        user.join(".ssh/id_rsa").display()
    );
    assert_contains!(last_line(&text), &setting);
    let text = runner.bash("echo x >> ~/.bashrc").await;
    assert_contains!(text, "Read-only file system");
    assert_contains!(last_line(&text), "write = [");
    assert_eq!(
        std::fs::read_to_string(user.join(".bashrc")).expect("there"),
        "rc\n"
    );
    let text = runner
        .bash(&format!("kill -9 {}", runner.program.pid()))
        .await;
    assert_contains!(text, "Operation not permitted");
    assert_contains!(last_line(&text), "KillShell");
    assert_eq!(runner.bash("echo still here").await, "still here");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn git_commits() {
    if !is_here("git") {
        return;
    }
    let runner = SandboxedRunner::new("").await;
    let set_up = runner
        .bash("git init -q && git config user.name a && git config user.email a@b")
        .await;
    assert_contains!(set_up, "no output");
    // Another command, because the repository's configuration is protected only from the next command on.
    let text = runner
        .bash("echo x > f && git add f && git commit -q -m one && git checkout -q -b topic && git log --format=%s")
        .await;
    assert_eq!(text, "one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn npm_runs_the_tests_of_a_package() {
    if !is_here("npm") {
        return;
    }
    let runner = SandboxedRunner::new("").await;
    let source = "const { test } = require('node:test'); const net = require('node:net');\n\
                test('serves', (t, done) => { const s = net.createServer((c) => c.end('hi')).listen(0, '127.0.0.1', () =>\n\
                net.connect(s.address().port, '127.0.0.1').on('data', (d) => { s.close(); done(d == 'hi' ? null : d); })); });\n";
    runner.write(&[
        (
            "package.json",
            r#"{"name":"a","version":"1.0.0","scripts":{"test":"node --test"}}"#,
        ),
        ("a.test.js", source),
    ]);
    let text = runner.bash("npm test").await;
    assert_contains!(text, "pass 1", "fail 0");
    assert_lacks!(text, "Exit code");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cargo_builds_and_runs_a_test_that_binds_the_loopback() {
    // The toolchain of this build may lie outside the folders that commands can read by default.
    let cargo = Path::new(env!("CARGO"));
    let bin = cargo.parent().expect("a folder");
    let toolchain = bin.parent().expect("a toolchain");
    let runner =
        SandboxedRunner::new(&format!("read = [{:?}]", toolchain.display().to_string())).await;
    let source = "#[test]\nfn serves() {\n    let here = std::net::TcpListener::bind(\"127.0.0.1:0\").unwrap();\n    let \
                  there = std::net::TcpStream::connect(here.local_addr().unwrap()).unwrap();\n    \
                  assert_eq!(here.accept().unwrap().1, there.local_addr().unwrap());\n}\n";
    runner.write(&[
        (
            "Cargo.toml",
            "[package]\nname = \"a\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
        ),
        ("src/main.rs", "fn main() { println!(\"built\"); }\n"),
        ("tests/loopback.rs", source),
    ]);
    let path = format!("export PATH={}:$PATH", bin.display());
    let text = runner
        .bash(&format!(
            "{path}; cargo build --offline -q && ./target/debug/a"
        ))
        .await;
    assert_eq!(text, "built");
    let text = runner
        .bash(&format!("{path}; cargo test --offline -q --test loopback"))
        .await;
    assert_contains!(text, "1 passed");
}
