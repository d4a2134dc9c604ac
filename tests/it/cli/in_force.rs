//! `status` and `policy` while a runner runs: the settings in force, and those of the file that are not in force.

use serde_json::{Value, json};

use super::{CliUser, RunningCommand, within_limit};
use crate::harness::wait::wait_for_some;

/// Waits until the status is as wanted, and returns it.
async fn status_when(user: &CliUser, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let look = async || {
        let status = user.run_cli(&["status", "--json"]).await.json();
        wanted(&status).then_some(status)
    };
    wait_for_some(what, look).await
}

/// Starts `dev` and waits until its self-test has published the level of confinement.
async fn start_dev(user: &CliUser) -> RunningCommand {
    let dev = user.serves(&["dev", "--json"]).await;
    status_when(user, "the level to be published", |status| {
        status["inForce"]["confinement"]["level"]
            .as_str()
            .is_some_and(|level| level != "unproven")
    })
    .await;
    dev
}

/// The texts of the status's attention items about this subject.
fn lines_about(status: &Value, word: &str) -> Vec<String> {
    let items = status["attention"].as_array().expect("a list").iter();
    items
        .filter(|item| item["about"] == word)
        .map(|item| item["text"].as_str().expect("a text").to_owned())
        .collect()
}

/// A configuration that also works where commands cannot be confined in full.
fn config_text(rest: &str) -> String {
    format!("[sandbox]\nrequire = \"partial\"\n{rest}")
}

#[tokio::test]
async fn status_shows_the_backend_and_the_workspace_of_dev_without_being_told() {
    let user = CliUser::new();
    user.write("home/config.toml", &config_text(""));
    let dev = start_dev(&user).await;
    let said = user.run_cli(&["status", "--json"]).await.ended(0);
    let status = said.json();
    assert_eq!(status["verdict"], "healthy", "{status}");
    assert_eq!(
        (&status["backend"]["url"], &status["backend"]["reachable"]),
        (&dev.ready["url"], &json!(true))
    );
    assert_eq!(status["workspaces"], json!([user.text("work")]));
    assert_eq!(status["inForce"]["pid"], status["pid"]);
    let settings = status["inForce"]["settings"].as_array().expect("a list");
    let url = settings
        .iter()
        .find(|setting| setting["key"] == "backend.url");
    assert_eq!(url.expect("set")["origin"], "--backend-url");

    let shown = user.run_cli(&["status"]).await.ended(0).out;
    let mut lines = shown.lines();
    let first = lines.next().expect("a line");
    assert!(
        first.starts_with(&format!("punie-runner is running (pid {}, ", status["pid"]))
            && first.ends_with("  healthy"),
        "{shown}"
    );
    let labels: Vec<&str> = lines.map(|line| line[..14].trim()).collect();
    assert_eq!(
        labels,
        ["Backend", "Workspaces", "Commands", "Now"],
        "{shown}"
    );
    assert_contains!(shown, "  Workspaces   ~/work\n");
    assert_contains!(
        shown,
        "  Now          0 waiting, 0 running, 0 undelivered\n"
    );
    let more = user.run_cli(&["status", "-v"]).await.ended(0).out;
    assert_starts_with!(more, &shown[..20]);
    assert_contains!(more, "  Setting      sandbox.require = \"partial\" (");
    dev.stopped().await;
    let ended = user.run_cli(&["status", "--json"]).await.ended(3).json();
    assert_fields!(ended, {
        "verdict": "not_running",
        "inForce": null,
        "/backend/url": null,
    }; "what an ended runner published is not shown");
}

#[tokio::test]
async fn a_setting_that_needs_a_restart_is_named_with_both_values() {
    let user = CliUser::new();
    user.write("home/config.toml", &config_text(""));
    let dev = start_dev(&user).await;
    let changed = config_text("[limits]\nlease_ms = 90000\n[backend]\nheartbeat_ms = 5000\n");
    user.write("home/config.toml", &changed);
    let status = status_when(&user, "the change to be published", |status| {
        lines_about(status, "config").concat().contains("restart")
    })
    .await;
    assert_eq!(
        lines_about(&status, "config"),
        [
            "config.toml changed, not in force: backend.heartbeat_ms 60000 -> 5000, limits.lease_ms 60000 -> 90000; \
             restart the runner"
        ]
    );
    assert_eq!(status["verdict"], "attention");
    let shown = user.run_cli(&["status"]).await.ended(1).out;
    assert!(
        shown
            .lines()
            .next()
            .is_some_and(|first| first.ends_with("  attention"))
            && shown.contains("  Attention    config.toml changed, not in force: backend."),
        "{shown}"
    );
    // The old file is restored, so nothing differs any more.
    user.write("home/config.toml", &config_text(""));
    status_when(&user, "nothing to differ", |status| {
        status["verdict"] == "healthy"
    })
    .await;
    dev.stopped().await;
}

#[tokio::test]
async fn a_wrong_file_leaves_the_old_settings_in_force_and_is_told() {
    let user = CliUser::new();
    user.write(
        "home/config.toml",
        &config_text("network = \"none\"\n[policy]\nask = [\"executes\"]\n"),
    );
    let dev = start_dev(&user).await;
    user.write("home/config.toml", "[sandbox]\nnetwork = \"fulll\"\n");
    let status = status_when(&user, "the fault to be told", |status| {
        lines_about(status, "config").concat().contains("fulll")
    })
    .await;
    assert_fields!(status, {
        "network": "none",
        "/inForce/ask": ["executes"],
        "verdict": "attention",
    });
    let policy = user.run_cli(&["policy"]).await.ended(0).out;
    assert_contains!(
        policy,
        "In force  in the running runner (pid ",
        "Attention config.toml changed, not in force: ",
        "Asked     executes"
    );
    std::fs::remove_file(user.path("home/config.toml")).expect("removed");
    let status = status_when(&user, "the loss to be told", |status| {
        lines_about(status, "config").concat().contains("is gone")
    })
    .await;
    assert_eq!(status["inForce"]["ask"], json!(["executes"]));
    dev.stopped().await;
    let shown = user.run_cli(&["policy"]).await.ended(0).out;
    assert_contains!(shown, "no runner is running");
}

/// Sends a command through Bash, and returns its output.
async fn send_bash(user: &CliUser, dev: &RunningCommand, command: &str) -> String {
    let args = json!({ "command": command }).to_string();
    let said = user
        .run_as_caller(&dev.ready, &["send", "Bash", &args])
        .await;
    said.out + &said.err
}

#[tokio::test]
async fn the_sandbox_and_the_questions_are_in_force_for_the_next_call() {
    let user = CliUser::new();
    user.write("home/config.toml", &config_text("network = \"none\"\n"));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let dev = start_dev(&user).await;
    let reach = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached");
    assert_lacks!(send_bash(&user, &dev, &reach).await, "reached\n");
    // The test does not wait here: the next call already uses the new file.
    user.write("home/config.toml", &config_text("network = \"full\"\n"));
    let said = send_bash(&user, &dev, &reach).await;
    assert_contains!(said, "reached\n");
    let status = status_when(&user, "the change to be published", |status| {
        status["inForce"]["confinement"]["network"] == "full"
    })
    .await;
    assert_fields!(status, {"network": "full", "verdict": "healthy"});
    let shown = user.run_cli(&["status"]).await.ended(0).out;
    assert_contains!(shown, "; internet open\n");

    user.write(
        "home/config.toml",
        &config_text("network = \"none\"\n[policy]\nask = [\"executes\"]\npatience_ms = 1000\n"),
    );
    let said = send_bash(&user, &dev, &reach).await;
    assert_lacks!(said, "reached\n");
    assert_contains!(said, "approv");
    // An invalid file does not loosen the sandbox.
    user.write(
        "home/config.toml",
        "[sandbox]\nnetwork = \"full\"\nconfine = 1\n",
    );
    user.write("none.toml", "");
    let none = user.text("none.toml");
    let args = json!({ "command": reach }).to_string();
    let args = ["--config", &none, "send", "Bash", &args];
    let said = user.run_as_caller(&dev.ready, &args).await;
    assert_lacks!(said.out, "reached\n");
    assert_contains!(said.out, "approv");
    dev.stopped().await;
}

#[tokio::test]
async fn limits_and_the_level_of_the_log_are_applied_while_it_runs() {
    let user = CliUser::new();
    user.write(
        "home/config.toml",
        &config_text("[log]\nlevel = \"warn\"\n"),
    );
    let dev = start_dev(&user).await;
    assert_contains!(send_bash(&user, &dev, "echo first").await, "first");
    // No disk has that much free space, so no new call starts.
    let changed = "[log]\nlevel = \"info\"\n[limits]\nleast_free_mb = 1000000\n";
    user.write("home/config.toml", &config_text(changed));
    status_when(&user, "the new limit to be in force", |status| {
        status["inForce"]["settings"]
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one["value"] == "1000000"))
    })
    .await;
    let args = json!({ "command": "echo second" }).to_string();
    let waits = user
        .run_as_caller(&dev.ready, &["send", "--wait", "1", "Bash", &args])
        .await;
    assert_eq!(waits.code, 124, "{waits:?}");
    let status = user.run_cli(&["status", "--json"]).await.ended(1).json();
    assert_eq!(status["degraded"], json!(["disk"]));
    user.write(
        "home/config.toml",
        &config_text("[log]\nlevel = \"info\"\n"),
    );
    status_when(&user, "room to be enough", |status| {
        status["degraded"] == json!([])
    })
    .await;
    assert_contains!(send_bash(&user, &dev, "echo third").await, "third");
    let log = user.read("home/logs/punie-runner.log");
    assert_contains!(log, "config.toml has changed and is in force");
    assert_lacks!(log, "cannot be read");
    dev.stopped().await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_calls_can_write_is_not_applied_while_the_runner_runs() {
    let user = CliUser::new();
    user.write("work/settings/config.toml", &config_text(""));
    std::fs::create_dir(user.path("home")).expect("made");
    std::os::unix::fs::symlink(
        user.path("work/settings/config.toml"),
        user.path("home/config.toml"),
    )
    .expect("linked");
    let dev = start_dev(&user).await;
    user.write(
        "work/settings/config.toml",
        &config_text("network = \"full\"\n"),
    );
    let said = send_bash(&user, &dev, "echo next").await;
    assert_contains!(said, "next");
    let status = status_when(&user, "the change to be published", |status| {
        lines_about(status, "config").concat().contains("restart")
    })
    .await;
    assert_ne!(status["network"], "full");
    dev.stopped().await;
}

#[tokio::test]
async fn a_paused_runner_and_one_without_a_terminal_for_watch() {
    let user = CliUser::new();
    user.write("home/config.toml", &config_text(""));
    let dev = start_dev(&user).await;
    user.run_cli(&["pause", "--reason", "lunch"]).await.done();
    let shown = user.run_cli(&["status"]).await.ended(1).out;
    assert_contains!(
        shown,
        "  Attention    Paused for ",
        "(lunch): no new call starts: punie-runner resume\n"
    );
    let mut watch = user.serves(&["status", "--watch", "--json"]).await;
    assert_eq!(watch.ready["verdict"], "attention");
    let second = within_limit(watch.rest.next_line())
        .await
        .expect("readable");
    assert!(second.is_some_and(|line| line.contains("\"degraded\":[\"paused\"]")));
    drop(watch);
    user.run_cli(&["status", "--watch"])
        .await
        .refused(2, "--watch needs a terminal");
    dev.stopped().await;
}
