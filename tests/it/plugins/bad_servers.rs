//! Servers that do not answer, print too much, crash, or print lines that are not messages.

use serde_json::{Value, json};

use super::{
    call_tool, install_plugin, listed_plugins, problem_text, process_marker, server_script,
    text_of, until_offered,
};
use crate::harness::running::processes_with_argument;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;

fn error_of(answer: &Value) -> (&str, &str) {
    let text = answer["error"].as_str().unwrap_or_default();
    (answer["meta"]["code"].as_str().unwrap_or_default(), text)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_never_answers_is_ended_within_its_time() {
    let setup = RunnerFixture::new().await;
    let marker = process_marker(11);
    let silent =
        server_script(&["probe"], "text x").replace("initialize\"'*) start", "initialize\"'*) :");
    install_plugin(&setup, "silent", "timeout = 1", &silent);
    install_plugin(
        &setup,
        "busy",
        "timeout = 5",
        &server_script(&["wait"], &format!("sleep {marker}")),
    );
    let said = problem_text(&listed_plugins(&setup).await["silent"]);
    assert_contains!(said, "did not answer `initialize` within 1 s");
    let answer = call_tool(&setup, "wait").await;
    let (code, text) = error_of(&answer);
    assert_eq!(code, "timeout", "{answer}");
    assert_contains!(text, "did not answer wait within 5 s and was ended");
    assert_eq!(answer["meta"]["mayHaveRun"], true, "{answer}");
    wait_until("the end of its processes", || {
        processes_with_argument(&marker).is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_prints_a_gigabyte_is_ended() {
    let setup = RunnerFixture::new().await;
    let flood = "head -c 1G /dev/zero";
    install_plugin(&setup, "one-line", "", &server_script(&["one_line"], flood));
    let lines = "yes '{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"x\"}}' | head -c 1G";
    install_plugin(
        &setup,
        "many-lines",
        "",
        &server_script(&["many_lines"], lines),
    );
    install_plugin(
        &setup,
        "errors",
        "",
        &server_script(&["errors"], &format!("{flood} >&2")),
    );
    let large = r#"x=$(head -c 1M /dev/zero | tr '\0' x)
        while :; do echo '{"jsonrpc":"2.0","method":"x","params":{"a":"'$x'"}}'; done"#;
    let large_server = server_script(&["large_lines"], large);
    install_plugin(&setup, "large-lines", "", &large_server);
    for (tool, words) in [
        ("one_line", "a message of more than 8 MiB"),
        ("many_lines", "more than 10000 messages"),
        ("large_lines", "more than 32 MiB of messages"),
        ("errors", "more than 16 MiB of standard error"),
    ] {
        let answer = call_tool(&setup, tool).await;
        let (code, text) = error_of(&answer);
        assert_eq!(code, "interrupted", "{answer}");
        assert_contains!(text, words; "{tool}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_ends_one_call_and_the_next_one_starts_the_server_again() {
    let setup = RunnerFixture::new().await;
    let script = "if [[ $message == *please* ]]; then echo 'it hurts' >&2; exit 3; fi; text alive";
    install_plugin(&setup, "crashing", "", &server_script(&["probe"], script));
    install_plugin(
        &setup,
        "steady",
        "",
        &server_script(&["other"], "text steady"),
    );
    let runner = setup.run();
    until_offered(&setup, "probe").await;
    until_offered(&setup, "other").await;
    for _ in 0..5 {
        let answer = setup.call_tool("probe", &json!({"crash": "please"})).await;
        answer.expect_error("interrupted");
        let text = answer.text();
        assert_contains!(text, "its program ended (exit code 3)", "it hurts");
        let other = setup.call_tool("other", &json!({})).await;
        assert_eq!(text_of(&other), "steady");
    }
    let answer = setup.call_tool("probe", &json!({})).await;
    assert_contains!(answer.text(), "it failed 5 times within 10 minutes");
    runner.terminate();
    runner.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_is_no_message_is_skipped_and_told() {
    let setup = RunnerFixture::new().await;
    let chatty = server_script(&["probe"], "echo '{\"level\":30}'; text found")
        .replace("id_pattern=", "echo 'Hello, I am a banner'\nid_pattern=");
    install_plugin(&setup, "chatty", "", &chatty);
    let answer = call_tool(&setup, "probe").await;
    assert_eq!(answer["result"], "found", "{answer}");
    let told = answer["meta"]["warnings"].to_string();
    assert_contains!(
        told,
        "2 lines of its output skipped",
        "Hello, I am a banner"
    );

    for (id, line) in [
        ("garbled", r#"{"jsonrpc":"2.0","id":'$id'}"#),
        ("unmarked", r#"{"id":'$id',"result":{}}"#),
    ] {
        install_plugin(
            &setup,
            id,
            "",
            &server_script(&[id], &format!("echo '{line}'")),
        );
        let answer = call_tool(&setup, id).await;
        let (code, text) = error_of(&answer);
        assert_eq!(code, "interrupted", "{answer}");
        assert_contains!(text, "no message of the protocol: {");
    }

    let unlike = server_script(&["usable"], "text found").replace(
        "{\"tools\":[",
        "{\"tools\":[{\"name\":\"without\"},{\"name\":\"odd\",\"inputSchema\":3},",
    );
    install_plugin(&setup, "unlike", "", &unlike);
    let said = problem_text(&listed_plugins(&setup).await["unlike"]);
    assert_contains!(said, "without is not offered", "odd is not offered");
    let answer = call_tool(&setup, "usable").await;
    assert_eq!(answer["result"], "found", "{answer}");

    install_plugin(
        &setup,
        "wrong",
        "",
        &server_script(&["strange"], "answer '{\"tools\":3}'"),
    );
    let answer = call_tool(&setup, "strange").await;
    assert_contains!(error_of(&answer).1, "not what the protocol wants");

    let failing =
        "answer '{\"content\":[{\"type\":\"text\",\"text\":\"no such city\"}],\"isError\":true}'";
    install_plugin(&setup, "failing", "", &server_script(&["weather"], failing));
    let answer = call_tool(&setup, "weather").await;
    assert_eq!(
        error_of(&answer),
        ("io", "weather failed: no such city"),
        "{answer}"
    );
}
