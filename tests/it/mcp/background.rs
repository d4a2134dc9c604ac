//! The runner in the background: its environment, its end, and a newer program that takes over.

use serde_json::{Value, json};

use super::{McpUser, TestClient, connect_to};
use crate::harness::running::is_alive;
use crate::harness::wait::wait_until;

#[tokio::test]
async fn it_ends_some_time_after_the_last_client_and_the_last_background_command() {
    let user = McpUser::new();
    user.configure("[mcp]\nlinger_ms = 200\n");
    let client = user.connects(TestClient::default(), &[]).await;
    let command =
        "i=0; until [ -e go ]; do i=$((i+1)); echo $i > ticks; sleep 0.05; done; touch whole";
    let args = json!({"command": command, "run_in_background": true});
    client.call_ok("Bash", args).await;
    let runner = user.runner();
    client.close().await;
    let ticks = || {
        let text = std::fs::read_to_string(user.path("work/ticks")).unwrap_or_default();
        text.trim().parse::<u32>().unwrap_or(0)
    };
    // This is several times as long as the runner stays up without work.
    wait_until("the command to run for a while", || ticks() > 20).await;
    assert!(is_alive(&runner.to_string()), "a command runs");
    user.write("work/go", "");
    wait_until("the end of the command", || {
        user.path("work/whole").exists()
    })
    .await;
    wait_until("the end of the runner", || user.runners().is_empty()).await;
}

#[tokio::test]
async fn it_stays_up_while_a_client_is_there() {
    let user = McpUser::new();
    user.configure("[mcp]\nlinger_ms = 0\n");
    let client = user.connects(TestClient::default(), &[]).await;
    client.call_ok("Glob", json!({"pattern": "*"})).await;
    let runner = user.runner();
    for _ in 0..20 {
        client
            .call_ok("Bash", json!({"command": "sleep 0.05"}))
            .await;
    }
    assert_eq!(user.runner(), runner);
    client.close().await;
    wait_until("the end of the runner", || user.runners().is_empty()).await;
}

#[tokio::test]
async fn it_has_the_variables_of_the_login_shell_and_none_of_the_client() {
    let user = McpUser::new();
    user.write(".profile", "export FROM_PROFILE=yes\n");
    let mut command = user.command(&["mcp"]);
    command
        .env("SHELL", "/bin/sh")
        .env("OF_THE_CLIENT", "yes")
        .env("HTTPS_PROXY", "http://client.invalid:1")
        .env("PATH", "/of/the/client:/usr/bin:/bin");
    let client = connect_to(command, TestClient::default()).await;
    let shown = client.call_ok("Bash", json!({"command": "env"})).await;
    let own = std::fs::read(format!("/proc/{}/environ", user.runner())).expect("readable");
    let own = String::from_utf8_lossy(&own).into_owned();
    assert_contains!(own, "FROM_PROFILE=yes");
    for text in [shown, own] {
        assert_lacks!(text, "OF_THE_CLIENT", "client.invalid", "/of/the/client");
    }
    client.close().await;
}

/// Records an older version for the runner, so that clients take it for an older program's.
fn pretend_to_be_older(user: &McpUser) {
    let record = json!({"pid": user.runner(), "version": "0.0.1"});
    user.write("home/state/background-runner.json", record.to_string());
}

#[tokio::test]
async fn a_newer_program_takes_over_when_nothing_runs() {
    let user = McpUser::new();
    let first = user.connects(TestClient::default(), &[]).await;
    first.call_ok("Glob", json!({"pattern": "*"})).await;
    let older = user.runner();
    pretend_to_be_older(&user);
    let command = "touch began; until [ -e go ]; do sleep 0.05; done; echo whole";
    let calling = first.call_ok("Bash", json!({"command": command}));
    let joining = async {
        wait_until("the command runs", || user.path("work/began").exists()).await;
        let second = user.connects(TestClient::default(), &[]).await;
        // The older runner stays, because a call runs.
        for _ in 0..20 {
            second.call_ok("Glob", json!({"pattern": "*"})).await;
        }
        assert_eq!(user.runner(), older);
        user.write("work/go", "");
        second
    };
    let (said, second) = tokio::join!(calling, joining);
    assert_contains!(said, "whole");
    wait_until("the end of the older one", || !is_alive(&older.to_string())).await;
    for client in [&first, &second] {
        client.call_ok("Glob", json!({"pattern": "*"})).await;
    }
    assert_ne!(user.runner(), older);
    user.has_one_runner().await;
    let record = std::fs::read(user.path("home/state/background-runner.json")).expect("there");
    let record: Value = serde_json::from_slice(&record).expect("JSON");
    assert_eq!(record["version"], env!("CARGO_PKG_VERSION"));
    assert!(!user.path("home/state/successor.json").exists());
    first.close().await;
    second.close().await;
}

#[tokio::test]
async fn a_session_without_a_terminal_or_the_client_as_its_parent() {
    let user = McpUser::new();
    let client = user.connects(TestClient::default(), &[]).await;
    client.call_ok("Glob", json!({"pattern": "*"})).await;
    let stat = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
        let fields = stat.rsplit(')').next().expect("fields").to_owned();
        let fields: Vec<String> = fields.split_whitespace().map(str::to_owned).collect();
        (fields[1].clone(), fields[3].clone())
    };
    let client_pid = client.child.id().expect("it runs");
    let (parent, session) = stat(user.runner());
    assert_ne!(parent, client_pid.to_string());
    assert_ne!(session, stat(client_pid).1);
    client.close().await;
}
