//! The start of the runner by the system's service manager: as the installed service, or in a scope.
#![cfg(target_os = "linux")]

use serde_json::json;

use super::{ConnectedClient, McpUser, TestClient, connect_to};
use crate::harness::process::PROGRAM;
use crate::harness::program::make_program;

/// A fake service manager that records its arguments. Its service is a runner with a backend of its own.
const MANAGER: &str = r#"#!/bin/sh
echo "$*" >> "$HOME/calls"
case "$*" in
*" show "*) printf 'LoadState=loaded\nActiveState=inactive\nSubState=dead\nMainPID=0\n' ;;
"--user start "*) "$(cat "$HOME/program")" --home "${HOME%/}/home" dev --json > /dev/null 2>&1 < /dev/null & ;;
esac
"#;

/// A fake `systemd-run` that records its arguments and executes the program.
const SCOPE_STARTER: &str = r#"#!/bin/sh
echo "$*" >> "$HOME/scopes"
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"#;

#[tokio::test]
async fn an_installed_service_is_the_runner_and_is_started_if_it_is_stopped() {
    let user = McpUser::new();
    user.configure("[backend]\nurl = \"http://127.0.0.1:9\"\n");
    user.write("program", PROGRAM);
    for name in ["systemctl", "loginctl"] {
        make_program(&user.path(&format!("bin/{name}")), MANAGER);
    }
    let path = format!("{}:/usr/bin:/bin", user.path("bin").display());
    let managed = |args: &[&str]| {
        let mut command = user.command(args);
        command.env("PATH", &path);
        command
    };
    let installed = managed(&["service", "install"]).output().await;
    let installed = installed.expect("started");
    assert!(installed.status.success(), "{installed:?}");
    let connect = || connect_to(managed(&["mcp"]), TestClient::default());
    let one = connect().await;
    let two = connect().await;
    for client in [&one, &two] {
        client.call_ok("Glob", json!({"pattern": "*"})).await;
    }
    let calls = std::fs::read_to_string(user.path("calls")).expect("recorded");
    let starts = calls.lines().filter(|call| call.contains(" start "));
    assert_eq!(starts.count(), 1, "{calls}");
    let words = std::fs::read(format!("/proc/{}/cmdline", user.runner())).expect("it runs");
    let words = String::from_utf8_lossy(&words).into_owned();
    assert_contains!(words, "\0dev\0");
    one.close().await;
    two.close().await;
}

/// Starts the server in a session with systemd, whose `systemd-run` is this program, and runs a call.
async fn connects_with_manager(user: &McpUser, systemd_run: &str) -> ConnectedClient {
    make_program(&user.path("bin/systemd-run"), systemd_run);
    let path = format!("{}:/usr/bin:/bin", user.path("bin").display());
    user.write(".profile", format!("export PATH={path}\n"));
    user.write("session/systemd/private", "");
    let mut command = user.command(&["mcp"]);
    command
        .env("SHELL", "/bin/sh")
        .env("XDG_RUNTIME_DIR", user.path("session"));
    let client = connect_to(command, TestClient::default()).await;
    client.call_ok("Glob", json!({"pattern": "*"})).await;
    client
}

#[tokio::test]
async fn where_systemd_runs_for_the_user_the_runner_has_a_scope() {
    let user = McpUser::new();
    let client = connects_with_manager(&user, SCOPE_STARTER).await;
    let scopes = std::fs::read_to_string(user.path("scopes")).expect("recorded");
    assert_starts_with!(scopes, "--user --scope ");
    assert_contains!(scopes, "background --detached");
    client.close().await;
}

#[tokio::test]
async fn where_no_scope_can_be_made_the_runner_starts_without() {
    let user = McpUser::new();
    let client = connects_with_manager(&user, "#!/bin/sh\nexit 1\n").await;
    client.close().await;
}
