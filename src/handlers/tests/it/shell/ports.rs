//! Where a shell listens, and who holds a port that another command wanted.

use std::io::Write as _;

use super::*;

const PORT_VARIABLE: &str = "TEST_SERVER_PORT";

/// A command that serves on this port, 0 for any: this program again, with the one test below.
fn serve(port: &str) -> String {
    let program = std::env::current_exe().expect("a path");
    format!(
        "env {PORT_VARIABLE}={port} {} --exact shell::ports::only_by_name_a_server --ignored --nocapture",
        program.display()
    )
}

#[test]
#[ignore = "the server of the other tests here"]
fn only_by_name_a_server() {
    let port = std::env::var(PORT_VARIABLE).expect("a port to serve");
    let mut out = std::io::stdout();
    match std::net::TcpListener::bind(("127.0.0.1", port.parse().expect("a port"))) {
        Ok(listener) => {
            let address = listener.local_addr().expect("an address");
            writeln!(out, "http://{address} is served").expect("stdout");
            listener.incoming().for_each(drop);
        }
        Err(cause) => panic!("127.0.0.1:{port}: {cause}"),
    }
}

/// The address in the first line that a server prints.
async fn address(bench: &Bench, shell: &str) -> String {
    let ready = json!({"shell_id": shell, "pattern": "http://"});
    let text = bench.shows(ready, "http://").await;
    let rest = text
        .split("http://")
        .nth(1)
        .unwrap_or_else(|| panic!("no address in {text}"));
    rest.split_whitespace()
        .next()
        .expect("an address")
        .to_owned()
}

#[tokio::test]
async fn a_server_is_listed_with_its_address_and_a_daemon_of_it_too() {
    let bench = Bench::new();
    // In a session of its own, and in the background of its shell.
    let command = format!("setsid {} & wait", serve("0"));
    let args = json!({"command": command, "run_in_background": true});
    bench.text("Bash", args).await;
    let address = address(&bench, "sh_1").await;
    let listening = format!(", listening on {address}: ");
    let one = bench.text("ShellStatus", json!({"shell_id": "sh_1"})).await;
    assert_contains!(one, &listening);
    let args = json!({"command": "sleep 600", "run_in_background": true});
    bench.text("Bash", args).await;
    let all = bench.text("ShellStatus", json!({})).await;
    let lines: Vec<&str> = all.lines().collect();
    assert_contains!(lines[0], &format!(", listening on {address}, in "); "{all}");
    assert_lacks!(lines[1], "listening"; "{all}");
    for id in ["sh_1", "sh_2"] {
        bench.text("KillShell", json!({"shell_id": id})).await;
    }
    assert_lacks!(bench.text("ShellStatus", json!({})).await, "listening");
}

#[tokio::test]
async fn a_command_that_finds_its_port_taken_is_told_by_whom() {
    let bench = Bench::new();
    let args = json!({"command": serve("0"), "run_in_background": true});
    bench.text("Bash", args).await;
    let address = address(&bench, "sh_1").await;
    let port = address.rsplit(':').next().expect("a port");
    let (text, meta) = bench.bash(&serve(port)).await;
    assert_ne!(meta.exit_code, Some(0), "{text}");
    assert_contains!(text, &format!("Port {port} is held by shell sh_1 (pid "));
    let (text, _) = bench.bash("echo Address already in use: 1; exit 1").await;
    assert_lacks!(text, "is held by"; "not by one of ours");
    bench.text("KillShell", json!({"shell_id": "sh_1"})).await;
    let (text, _) = bench
        .bash(&format!(
            "echo 127.0.0.1:{port}: Address already in use; exit 1"
        ))
        .await;
    assert_lacks!(text, "is held by"; "not any more");
}
