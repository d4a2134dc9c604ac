//! A log file that is renamed, removed or cannot be written: the runner logs where it can, and always answers requests.
//! The format is JSON where the configuration or the flag asks for it.

use std::os::unix::fs::PermissionsExt as _;

use punie_home::{Home, SecretStore};
use punie_text::redact::Secret;
use serde_json::{Value, json};

use crate::harness::caller::ToolCall;
use crate::harness::on_terminal::OnTerminal;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f64_a_log_that_is_taken_away_is_made_anew_and_one_that_is_full_disturbs_nobody() {
    let setup = RunnerFixture::new().await;
    let logs = setup.setting.home.join("logs");
    let log = logs.join("punie-runner.log");
    let read = || std::fs::read_to_string(&log).unwrap_or_default();
    let _runner = setup.run();
    let ask = async || setup.bash("echo ran").await;
    ask().await.expect_ok();
    wait_until("the answer in the log", || {
        read().contains("a call was answered")
    })
    .await;
    assert_eq!(
        std::fs::metadata(&log).expect("there").permissions().mode() & 0o777,
        0o600
    );
    assert_lacks!(read(), "\u{1b}"; "no colours in a file");

    std::fs::rename(&log, logs.join("taken")).expect("renamed");
    ask().await.expect_ok();
    wait_until("a new log", || read().contains("a call was answered")).await;
    std::fs::remove_file(&log).expect("removed");
    ask().await.expect_ok();
    wait_until("a new log", || read().contains("a call was answered")).await;
    let shown = setup.command(&["logs", "-n", "1000"]).await;
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert_contains!(shown.out, "a call was answered");

    std::fs::remove_file(&log).expect("removed");
    std::os::unix::fs::symlink("/dev/full", &log).expect("a full disk");
    for _ in 0..3 {
        ask().await.expect_ok();
    }
    std::fs::remove_dir_all(&logs).expect("removed");
    ask().await.expect_ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_in_json_has_an_object_a_line_and_no_secret() {
    let setup = RunnerFixture::with_config("[log]\nformat = \"json\"\n").await;
    let value = "no-pattern-of-any-kind";
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let secrets = Home::open_home(&setup.setting.home).expect("a home");
    SecretStore::in_home(&secrets)
        .set_secret("A_VALUE", &Secret::new(value.to_owned()))
        .expect("stored");
    let runner = setup.run();
    let unknown = format!("{value}.{token}");
    let id = setup.ask(ToolCall::new(&unknown, &json!({}))).await;
    setup.answer(&id).await;
    setup.bash("true").await.expect_ok();
    let file = setup.setting.home.join("logs/punie-runner.log");
    let logs = || {
        [
            runner.log(),
            std::fs::read_to_string(&file).unwrap_or_default(),
        ]
    };
    wait_until("both answers in both logs", || {
        logs()
            .iter()
            .all(|log| log.matches("a call was answered").count() == 2)
    })
    .await;
    for log in logs() {
        assert_lacks!(log, value, &token);
        let lines = log.lines().map(serde_json::from_str);
        let lines: Vec<Value> = lines.collect::<Result<_, _>>().expect("JSON on every line");
        let is_answer = |line: &&Value| line["message"] == "a call was answered";
        let answered = lines.iter().find(is_answer).expect("a line for the answer");
        assert_eq!(answered["level"], "INFO", "{answered}");
        assert_eq!(answered["target"], "punie_runner::answered", "{answered}");
        assert_eq!(answered["fields"]["request.id"], json!(id), "{answered}");
        let time = answered["timestamp"].as_str().expect("a time");
        assert!(time.parse::<jiff::Timestamp>().is_ok(), "{answered}");
        let tool = answered["fields"]["tool.name"].as_str().expect("a text");
        assert_eq!(tool, "[REDACTED:secret].[REDACTED:github]");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_gets_json_only_from_the_flag() {
    let setup = RunnerFixture::with_unpaired_device("[log]\nformat = \"json\"\n").await;
    let pair = ["pair", setup.pairing_code()];
    for (flags, is_json) in [(&[][..], false), (&["--log-format", "json"], true)] {
        let arguments = [flags, &["--once"]].concat();
        let mut shown = OnTerminal::start(&setup.setting, &arguments);
        shown.end().await;
        let shown = shown.shown();
        assert_eq!(shown.contains("{\"timestamp\":\""), is_json, "{shown}");
    }
    let refused = setup
        .command(&[&["--log-format", "xml"], &pair[..]].concat())
        .await;
    assert_eq!(refused.code, Some(78), "{refused:?}");
    assert_contains!(
        refused.log,
        "--log-format: there is no \"xml\". It must be \"text\" or \"json\""
    );
}
