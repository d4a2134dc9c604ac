//! Servers that do not answer, print too much, crash, or print what is no message.

use serde_json::{Value, json};

use super::{call, install, listed, marker, problems, server, text_of, until_offered};
use crate::harness::caller::Ask;
use crate::harness::running::carrying;
use crate::harness::stage::Stage;
use crate::harness::wait::until;

fn error_of(answer: &Value) -> (&str, &str) {
    let text = answer["error"].as_str().unwrap_or_default();
    (answer["meta"]["code"].as_str().unwrap_or_default(), text)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_never_answers_is_ended_within_its_time() {
    let stage = Stage::new().await;
    let marker = marker(11);
    let silent = server(&["probe"], "text x").replace("initialize\"'*) start", "initialize\"'*) :");
    install(&stage, "silent", "timeout = 1", &silent);
    install(
        &stage,
        "busy",
        "timeout = 5",
        &server(&["wait"], &format!("sleep {marker}")),
    );
    let said = problems(&listed(&stage).await["silent"]);
    assert!(
        said.contains("did not answer `initialize` within 1 s"),
        "{said}"
    );
    let answer = call(&stage, "wait").await;
    let (code, text) = error_of(&answer);
    assert_eq!(code, "timeout", "{answer}");
    assert!(
        text.contains("did not answer wait within 5 s and was ended"),
        "{text}"
    );
    assert_eq!(answer["meta"]["mayHaveRun"], true, "{answer}");
    until("the end of its processes", || carrying(&marker).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_prints_a_gigabyte_is_ended() {
    let stage = Stage::new().await;
    let flood = "head -c 1G /dev/zero";
    install(&stage, "one-line", "", &server(&["one_line"], flood));
    let lines = "yes '{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"x\"}}' | head -c 1G";
    install(&stage, "many-lines", "", &server(&["many_lines"], lines));
    install(
        &stage,
        "errors",
        "",
        &server(&["errors"], &format!("{flood} >&2")),
    );
    let large = r#"x=$(head -c 1M /dev/zero | tr '\0' x)
        while :; do echo '{"jsonrpc":"2.0","method":"x","params":{"a":"'$x'"}}'; done"#;
    let large_server = server(&["large_lines"], large);
    install(&stage, "large-lines", "", &large_server);
    for (tool, words) in [
        ("one_line", "a message of more than 8 MiB"),
        ("many_lines", "more than 10000 messages"),
        ("large_lines", "more than 32 MiB of messages"),
        ("errors", "more than 16 MiB of standard error"),
    ] {
        let answer = call(&stage, tool).await;
        let (code, text) = error_of(&answer);
        assert_eq!(code, "interrupted", "{answer}");
        assert!(text.contains(words), "{tool}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_ends_one_call_and_the_next_one_starts_the_server_again() {
    let stage = Stage::new().await;
    let script = "if [[ $message == *please* ]]; then echo 'it hurts' >&2; exit 3; fi; text alive";
    install(&stage, "crashing", "", &server(&["probe"], script));
    install(&stage, "steady", "", &server(&["other"], "text steady"));
    let runner = stage.run();
    until_offered(&stage, "probe").await;
    until_offered(&stage, "other").await;
    for _ in 0..5 {
        let answer = stage
            .caller
            .have(Ask::new("probe", &json!({"crash": "please"})))
            .await;
        assert_eq!(answer.verdict(), ("error", "interrupted"), "{answer:?}");
        let text = answer.text();
        assert!(text.contains("its program ended (exit code 3)"), "{text}");
        assert!(text.contains("it hurts"), "{text}");
        let other = stage.caller.have(Ask::new("other", &json!({}))).await;
        assert_eq!(text_of(&other), "steady");
    }
    let answer = stage.caller.have(Ask::new("probe", &json!({}))).await;
    assert!(
        answer
            .text()
            .contains("it failed 5 times within 10 minutes"),
        "{answer:?}"
    );
    runner.terminate();
    runner.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_is_no_message_is_skipped_and_told() {
    let stage = Stage::new().await;
    let chatty = server(&["probe"], "echo '{\"level\":30}'; text found")
        .replace("id_pattern=", "echo 'Hello, I am a banner'\nid_pattern=");
    install(&stage, "chatty", "", &chatty);
    let answer = call(&stage, "probe").await;
    assert_eq!(answer["result"], "found", "{answer}");
    let told = answer["meta"]["warnings"].to_string();
    assert!(
        told.contains("2 lines of its output skipped") && told.contains("Hello, I am a banner"),
        "{told}"
    );

    for (id, line) in [
        ("garbled", r#"{"jsonrpc":"2.0","id":'$id'}"#),
        ("unmarked", r#"{"id":'$id',"result":{}}"#),
    ] {
        install(&stage, id, "", &server(&[id], &format!("echo '{line}'")));
        let answer = call(&stage, id).await;
        let (code, text) = error_of(&answer);
        assert_eq!(code, "interrupted", "{answer}");
        assert!(text.contains("no message of the protocol: {"), "{text}");
    }

    let unlike = server(&["usable"], "text found").replace(
        "{\"tools\":[",
        "{\"tools\":[{\"name\":\"without\"},{\"name\":\"odd\",\"inputSchema\":3},",
    );
    install(&stage, "unlike", "", &unlike);
    let said = problems(&listed(&stage).await["unlike"]);
    assert!(
        said.contains("without is not offered") && said.contains("odd is not offered"),
        "{said}"
    );
    let answer = call(&stage, "usable").await;
    assert_eq!(answer["result"], "found", "{answer}");

    install(
        &stage,
        "wrong",
        "",
        &server(&["strange"], "answer '{\"tools\":3}'"),
    );
    let answer = call(&stage, "strange").await;
    assert!(
        error_of(&answer).1.contains("not what the protocol wants"),
        "{answer}"
    );

    let failing =
        "answer '{\"content\":[{\"type\":\"text\",\"text\":\"no such city\"}],\"isError\":true}'";
    install(&stage, "failing", "", &server(&["weather"], failing));
    let answer = call(&stage, "weather").await;
    assert_eq!(
        error_of(&answer),
        ("io", "weather failed: no such city"),
        "{answer}"
    );
}
