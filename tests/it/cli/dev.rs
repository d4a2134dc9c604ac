//! `dev` and `demo`: the whole system in one process, for people without an account.

use std::process::Stdio;

use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use super::{CliUser, exit_code, object_keys, run_with_input, tokens_of, within_limit};
use crate::dev_backend::server::BackendWire;

#[tokio::test]
async fn dev_answers_requests_of_other_processes_until_it_is_stopped() {
    let user = CliUser::new();
    let dev = user.serves(&["dev", "--json"]).await;
    let ready = &dev.ready;
    let wanted = [
        "adminKey",
        "approverToken",
        "callerToken",
        "consoleUrl",
        "deviceId",
        "home",
        "pairingCode",
        "url",
        "workspaces",
    ];
    assert_eq!(object_keys(ready), wanted);
    assert_eq!(ready["home"], user.text("home"));
    assert_eq!(ready["workspaces"], serde_json::json!([user.text("work")]));
    let status = user
        .run_as_caller(ready, &["status", "--json"])
        .await
        .done()
        .json();
    assert_fields!(status, {"running": true, "deviceId": ready["deviceId"]});
    assert_eq!(status["pid"].as_u64(), dev.child.id().map(u64::from));
    assert_eq!(status["backend"]["reachable"], true);

    // The home stores the token in a file, so a second terminal needs only the address.
    let url = ready["url"].as_str().expect("an address");
    let args = [
        "--backend-url",
        url,
        "send",
        "Bash",
        r#"{"command":"echo from $PWD"}"#,
    ];
    let said = user.run_cli(&args).await.done();
    assert_contains!(said.out, &format!("from {}", user.text("work")));
    std::fs::write(user.path("work/old.txt"), b"caf\xe9, gar\xe7on\n").expect("a file");
    let said = user
        .run_as_caller(ready, &["send", "Read", "old.txt"])
        .await
        .done();
    assert_contains!(said.out, "café");
    assert_lacks!(said.out, "Note: ");
    assert_contains!(said.err, "Note: That it is windows-1252");
    let said = user
        .run_as_caller(
            ready,
            &["send", "Read", r#"{"file_path":"gone"}"#, "--json"],
        )
        .await;
    assert_eq!(
        (said.code, object_keys(&said.json())),
        (1, vec!["error", "meta", "outcome", "requestId", "toolName"])
    );
    let said = user
        .run_as_caller(ready, &["send", "Glob", r#"{"pattern":"*"}"#, "--json"])
        .await
        .done()
        .json();
    assert_eq!(
        object_keys(&said),
        ["meta", "outcome", "requestId", "result", "toolName"]
    );
    user.run_as_caller(ready, &["send", "Raed", "{}"])
        .await
        .refused(1, "");

    user.run_cli(&["dev"])
        .await
        .refused(75, "another runner already works with this home");
    user.run_as_caller(ready, &["--workspace", ".", "--once"])
        .await
        .refused(75, "another runner");
    assert_eq!(dev.stopped().await, (0, String::new()));
    assert!(
        !user.run_cli(&["status", "--json"]).await.ended(3).json()["running"]
            .as_bool()
            .expect("a boolean")
    );
}

#[tokio::test]
async fn the_second_start_of_dev_is_the_same_device() {
    let user = CliUser::new();
    let first = user.serves(&["dev", "--json"]).await;
    let device = first.ready["deviceId"].clone();
    let token = first.ready["callerToken"].clone();
    let url = first.ready["url"].clone();
    first.stopped().await;
    let second = user.serves(&["dev", "--json"]).await;
    assert_fields!(second.ready, {"deviceId": device, "callerToken": token});
    assert_eq!(
        second.ready["url"], url,
        "a waiting caller reaches the backend at the same address"
    );
    let said = user
        .run_as_caller(
            &second.ready,
            &["send", "Bash", r#"{"command":"echo again"}"#],
        )
        .await
        .done();
    assert_contains!(said.out, "again");
    second.stopped().await;
}

#[tokio::test]
async fn the_token_of_dev_for_agents_asks_and_the_one_of_its_home_approves() {
    let user = CliUser::new();
    user.write("home/config.toml", "[callers.agent]\ntools = [\"Read\"]\n");
    let dev = user.serves(&["dev", "--json"]).await;
    let wire = BackendWire::at(dev.ready["url"].as_str().expect("an address"));
    let questions = async |token: &str| {
        let args = json!({ "callerToken": dev.ready[token] });
        wire.call("query", "permissions:pending", &args).await
    };
    let refused = questions("callerToken").await;
    assert_eq!(
        refused["errorData"]["code"], "CALLER_UNAUTHORIZED",
        "{refused}"
    );
    assert_eq!(questions("approverToken").await["value"], json!([]));

    // Each token has a file, and the commands of this home use the approver's token.
    for name in ["caller", "approver"] {
        let file = format!("{}/{name}", tokens_of(&dev.ready));
        assert_eq!(user.read(&file), dev.ready[format!("{name}Token")]);
    }
    let ask = ["send", "Glob", r#"{"pattern":"*"}"#];
    user.run_cli(&ask).await.done();
    user.run_as_caller(&dev.ready, &ask).await.refused(1, "");
    dev.stopped().await;
}

#[tokio::test]
async fn the_pairing_code_of_dev_is_for_one_device_beside_its_own() {
    let host = CliUser::new();
    let dev = host.serves(&["dev", "--json"]).await;
    let word = |key: &str| dev.ready[key].as_str().expect("a text");
    let pair = ["--backend-url", word("url"), "pair", word("pairingCode")];
    CliUser::new().run_cli(&pair).await.done();
    CliUser::new()
        .run_cli(&pair)
        .await
        .refused(77, "was used or has ended");
    dev.stopped().await;
}

/// Lists the folders that demonstrations left in TMPDIR.
fn remaining_files(user: &CliUser) -> Vec<String> {
    let entries = std::fs::read_dir(user.path("")).expect("there");
    let names = entries.map(|entry| {
        entry
            .expect("an entry")
            .file_name()
            .to_string_lossy()
            .into_owned()
    });
    names
        .filter(|name| name.starts_with("punie-demo"))
        .collect()
}

#[tokio::test]
async fn the_demonstration_shows_every_domain_and_leaves_nothing() {
    let user = CliUser::new();
    let shown = user.run_cli(&["demo"]).await.done();
    let rows = shown.out.lines().filter(|line| line.starts_with("ok  "));
    assert_eq!(rows.count(), 28, "{}", shown.out);
    assert_lacks!(shown.out, "\nNO ");
    assert_contains!(shown.out, "28 of 28 as expected");
    assert_ends_with!(shown.out, "punie-runner dev\n");
    assert_eq!(remaining_files(&user), Vec::<String>::new());
    assert!(
        !user.path("home").exists(),
        "the user's own home is not touched"
    );

    // With the umask 0002, which many systems set, the user's group may write to folders that the user makes.
    let script = "umask 0002; exec \"$0\" demo --json";
    let words = ["-c", script, env!("CARGO_BIN_EXE_punie-runner")];
    let lines = run_with_input(user.command_of("sh", &words), "")
        .await
        .done()
        .out;
    assert_eq!(lines.lines().count(), 28);
    for domain in [
        "file", "search", "shell", "terminal", "state", "sqlite", "git",
    ] {
        assert_contains!(lines, &format!("\"domain\":\"{domain}\""); "{domain}");
    }
    for line in lines.lines() {
        let row: serde_json::Value = serde_json::from_str(line).expect(line);
        assert_eq!(
            object_keys(&row),
            [
                "answer", "asWanted", "domain", "ms", "outcome", "toolName", "what"
            ]
        );
        assert_eq!(row["asWanted"], true, "{line}");
    }
}

#[tokio::test]
async fn the_demonstration_cleans_up_when_nobody_reads_on() {
    let user = CliUser::new();
    assert_eq!(exit_code(user.command(&["demo"])).await, 0);
    assert_eq!(remaining_files(&user), Vec::<String>::new());
}

/// Writes a file with mode 0600 in a folder with mode 0700, as for a secret.
fn write_file(user: &CliUser, below: &str, text: &str) {
    user.write(below, text);
    let closed: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(user.path(below), closed).expect("set");
    let closed: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(user.path(below).parent().expect("below"), closed).expect("set");
}

#[tokio::test]
async fn dev_and_backend_leave_the_tokens_of_the_configured_backend_alone() {
    let user = CliUser::new();
    user.write(
        "home/config.toml",
        "[backend]\nurl = \"https://hosted.example\"\n",
    );
    for hosted in ["home/tokens/caller", "home/tokens/hosted.example/caller"] {
        write_file(&user, hosted, "shown-only-once");
        let mut urls = Vec::new();
        for command in [&["dev", "--json"], &["backend", "--json"]] {
            let serving = user.serves(command).await;
            let ready = serving.ready.clone();
            assert_eq!(
                user.read("home/tokens/hosted.example/caller"),
                "shown-only-once"
            );
            assert!(
                !user.path("home/tokens/caller").exists(),
                "the token moved to the folder of its backend"
            );
            let own = user.read(&format!("{}/caller", tokens_of(&ready)));
            assert_eq!(own, ready["callerToken"].as_str().expect("a token"));
            urls.push((tokens_of(&ready), own));
            serving.stopped().await;
        }
        assert_eq!(
            urls[0].1, urls[1].1,
            "the backend of the home has one caller's token, whatever its port"
        );
        assert!(
            urls[0].0 == urls[1].0 || !user.path(&urls[0].0).exists(),
            "no folder is left behind"
        );
    }
}

#[cfg(feature = "websocket")]
#[tokio::test]
async fn dev_runs_in_a_home_whose_backend_is_a_websocket() {
    let user = CliUser::new();
    let config = "[backend]\nkind = \"websocket\"\nurl = \"wss://worker.example/device\"\n";
    user.write("home/config.toml", config);
    let dev = user.serves(&["dev", "--json"]).await;
    let url = dev.ready["url"].as_str().expect("an address");
    assert_starts_with!(url, "http://127.0.0.1:");
    assert!(dev.ready["deviceId"].is_string());
    dev.stopped().await;
}

#[tokio::test]
async fn backend_closes_connections_above_its_limit_and_logs_that_once() {
    let user = CliUser::new();
    let log = user.path("log");
    let file = std::fs::File::create(&log).expect("made");
    let args = [
        "backend",
        "--json",
        "--log",
        "warn",
        "--max-connections",
        "1",
    ];
    let mut child = user
        .command(&args)
        .stderr(Stdio::from(file))
        .spawn()
        .expect("started");
    let mut out = child.stdout.take().expect("piped");
    let mut ready = Vec::new();
    while !ready.ends_with(b"\n") {
        assert_ne!(
            within_limit(out.read_buf(&mut ready))
                .await
                .expect("readable"),
            0
        );
    }
    let ready: serde_json::Value = serde_json::from_slice(&ready).expect("JSON");
    let url = ready["url"].as_str().expect("an address");
    let connect = || TcpStream::connect(url.trim_start_matches("http://"));
    let mut last = connect().await.expect("connected");
    for _ in 0..5 {
        let next = connect().await.expect("connected");
        let closed = within_limit(last.read(&mut [0])).await;
        assert!(!matches!(closed, Ok(1..)), "{closed:?}");
        last = next;
    }
    child.kill().await.expect("killed");
    let lines = user.read("log");
    assert_eq!(
        lines.matches("has as many connections as it may").count(),
        1,
        "{lines}"
    );
}
