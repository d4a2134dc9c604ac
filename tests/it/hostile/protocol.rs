//! Malicious messages over real sockets: calls to the device through the embedded backend, requests to that backend,
//! and a lying backend's answers to the device.

use serde_json::{Value, json};

use crate::harness::caller::{ToolCall, http_client};
use crate::harness::relay::{CallFate, Relay};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;
use crate::harness::worker::WorkerProcess;

/// Returns a call whose arguments are exactly this text.
fn question_call(tool: &str, args: &str) -> ToolCall {
    ToolCall::new(tool, &Value::Null).with("args", json!(args))
}

/// Checks that the device refuses each of these calls with `invalid_args`, runs nothing, and goes on.
async fn refused_by_the_device(setup: &RunnerFixture, calls: &[(&str, &str)]) {
    let _runner = setup.run();
    for (args, words) in calls {
        let answer = setup.call(question_call("Bash", args)).await;
        assert_eq!(
            answer.verdict(),
            ("error", "invalid_args"),
            "{args:.80}: {answer:?}"
        );
        assert_contains!(answer.text(), words; "{args:.80}");
        assert!(
            answer.text().len() < 2_000,
            "a refusal must not repeat a long text: {args:.80}"
        );
    }
    assert_eq!(setup.read("effects"), "", "no call may run");
    let after = setup.bash("echo ran >> effects").await;
    assert_eq!(after.outcome, "ok");
    assert_eq!(setup.read("effects"), "ran\n");
}

/// Sends exactly this body to the embedded backend, and checks that the backend goes on. Returns the status and the
/// body of its answer.
async fn said_by_the_backend(setup: &RunnerFixture, body: String) -> (u16, String) {
    let url = &setup.setting.url;
    let post = http_client()
        .post(format!("{url}/api/mutation"))
        .header("content-type", "application/json")
        .body(body);
    let reply = post.send().await.expect("a reply");
    let said = (reply.status().as_u16(), reply.text().await.expect("a body"));
    assert!(
        setup.caller.questions().await.is_empty(),
        "it must still answer"
    );
    said
}

/// Returns the body of a call to the embedded backend, with these arguments as text.
fn call_with(args: &str) -> String {
    format!("{{\"path\":\"events:cancel\",\"format\":\"json\",\"args\":{args}}}")
}

fn nested_json(levels: usize) -> String {
    format!("{}{}", "[".repeat(levels), "]".repeat(levels))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h90_ten_thousand_levels_are_refused_by_the_device() {
    let setup = RunnerFixture::new().await;
    let deep = nested_json(10_000);
    let objects = r#"{"env":"#.repeat(10_000);
    let args = format!(r#"{{"command":"echo ran >> effects","env":{deep}}}"#);
    refused_by_the_device(
        &setup,
        &[
            (&args, "nested more than 64 deep"),
            (&objects, "nested more than 64 deep"),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h90_ten_thousand_levels_end_neither_backend_nor_device() {
    let setup = RunnerFixture::new().await;
    for args in [
        nested_json(10_000),
        format!("{{\"callerToken\":{}}}", nested_json(10_000)),
    ] {
        let (status, said) = said_by_the_backend(&setup, call_with(&args)).await;
        assert!(
            status == 400 || said.contains("\"status\":\"error\""),
            "{status} {said}"
        );
    }
    // A backend sends such a page to the device. The device refuses it and reads the next one.
    let relay = Relay::before(&setup.setting.url).await;
    let answer = format!(
        "{{\"status\":\"success\",\"value\":{}}}",
        nested_json(10_000)
    );
    let mut lies = 2;
    relay.rule(move |path, _| match path {
        "events:listForDevice" if lies > 0 => {
            lies -= 1;
            CallFate::say("200 OK", "content-type: application/json\r\n", &answer)
        }
        _ => CallFate::Pass,
    });
    let _runner = setup.run_at(&relay.url);
    // If a request exists when the runner starts, the runner finds it by another call.
    wait_until("the runner reads both false pages", || {
        relay.calls("events:listForDevice").len() >= 2
    })
    .await;
    setup.bash("echo ran").await.expect_ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h91_a_key_that_is_there_twice_is_refused() {
    let setup = RunnerFixture::new().await;
    for body in [
        call_with(r#"{"callerToken":"x","requestId":"a","requestId":"b"}"#),
        r#"{"path":"events:head","path":"events:cancel","args":{},"format":"json"}"#.to_owned(),
    ] {
        let (_, said) = said_by_the_backend(&setup, body).await;
        assert_contains!(said, "duplicate field");
    }
    refused_by_the_device(
        &setup,
        &[
            (
                r#"{"command":"true","command":"echo ran >> effects"}"#,
                "is there twice",
            ),
            (
                r#"{"command":"true","\u0063ommand":"echo ran >> effects"}"#,
                "is there twice",
            ),
            (
                r#"{"command":"echo ran >> effects","env":{"A":"1","A":"2"}}"#,
                "is there twice",
            ),
            (
                r#"{"command":"echo ran >> effects","timeout":1,"timeout_ms":2}"#,
                "is given twice",
            ),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h92_numbers_that_no_two_readers_agree_about_are_refused() {
    let setup = RunnerFixture::new().await;
    let with = |number: &str| format!(r#"{{"command":"echo ran >> effects","timeout":{number}}}"#);
    let numbers = [
        ("1e400", "out of range"),
        ("-1e400", "out of range"),
        ("9223372036854775808.5", "must be an integer"),
        ("1e300", "must be an integer"),
        ("9223372036854775808", "(2^53) at most"),
        ("18446744073709551615", "(2^53) at most"),
        ("-9223372036854775808", "(2^53) at most"),
        ("\"9223372036854775807\"", "(2^53) at most"),
        ("9007199254740993", "(2^53) at most"),
        ("18446744073709551616", "must be an integer"),
        ("-1", "must be 0 or more"),
        ("1.5", "must be an integer"),
        ("-0", "must be 1 to 600000"),
        ("NaN", "not usable JSON"),
        ("0x10", "not usable JSON"),
        ("010", "not usable JSON"),
    ];
    let calls: Vec<(String, &str)> = numbers
        .iter()
        .map(|(number, words)| (with(number), *words))
        .collect();
    let calls: Vec<(&str, &str)> = calls
        .iter()
        .map(|(args, words)| (args.as_str(), *words))
        .collect();
    refused_by_the_device(&setup, &calls).await;
    let (status, said) = said_by_the_backend(&setup, call_with(r#"{"callerToken":1e400}"#)).await;
    assert!(
        status == 400 || said.contains("\"status\":\"error\""),
        "{status} {said}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h93_half_a_surrogate_pair_is_refused() {
    let setup = RunnerFixture::new().await;
    for text in [r"\ud800", r"\udc00x", r"\ud83d\ud83d"] {
        let args = format!(r#"{{"callerToken":"{text}","requestId":"a"}}"#);
        let (status, said) = said_by_the_backend(&setup, call_with(&args)).await;
        assert!(
            status == 400 || said.contains("\"status\":\"error\""),
            "{text}: {status} {said}"
        );
    }
    refused_by_the_device(
        &setup,
        &[
            (
                r#"{"command":"echo ran >> effects # \ud800"}"#,
                "not usable JSON",
            ),
            (
                r#"{"command":"echo ran >> effects # \udfff\ud83d"}"#,
                "not usable JSON",
            ),
            (r#"{"\ud83d":"echo ran >> effects"}"#, "not usable JSON"),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h94_an_unknown_tool_and_an_unknown_field_are_refused_with_what_was_meant() {
    let setup = RunnerFixture::new().await;
    {
        let _runner = setup.run();
        for (tool, words) in [("Bsh", "Bash"), ("eval", "eval"), ("Bash.exe", "Bash")] {
            let answer = setup
                .call(question_call(tool, r#"{"command":"echo ran >> effects"}"#))
                .await;
            assert_eq!(
                answer.verdict(),
                ("error", "unknown_tool"),
                "{tool}: {answer:?}"
            );
            assert_contains!(answer.text(), words; "{tool}");
        }
    }
    let (_, said) = said_by_the_backend(
        &setup,
        call_with(r#"{"callerToken":"x","requestId":"a","force":true}"#),
    )
    .await;
    assert_contains!(said, "unknown field");
    refused_by_the_device(
        &setup,
        &[
            (
                r#"{"command":"echo ran >> effects","sandbox":false}"#,
                "unknown key `sandbox`",
            ),
            (
                r#"{"command":"echo ran >> effects","comand":"true"}"#,
                "Did you mean `command`?",
            ),
            (
                r#"{"command":"echo ran >> effects","__proto__":{}}"#,
                "unknown key `__proto__`",
            ),
        ],
    )
    .await;
}

/// Returns the paths of all files below a folder.
fn files_below(folder: &std::path::Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)
            .expect("a folder")
            .filter_map(Result::ok)
        {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h95_an_id_that_is_a_path_is_refused_by_backend_and_device() {
    let setup = RunnerFixture::new().await;
    let paths = [
        "../../x",
        "/tmp/x",
        "a/b",
        "..",
        "x\u{0}y",
        "x\u{1b}[2J",
        &"x".repeat(129),
    ];
    for id in paths {
        let args = json!({
            "callerToken": setup.caller.token, "deviceId": setup.caller.device, "requestId": id,
            "toolName": "Bash", "args": r#"{"command":"echo ran >> effects"}"#,
        });
        let call =
            json!({"path": "events:appendRequest", "format": "json", "args": args}).to_string();
        let (_, said) = said_by_the_backend(&setup, call).await;
        assert_contains!(said, "\"status\":\"error\""; "{id:?}");
    }
    // A backend offers such requests to the device all the same.
    let relay = Relay::before(&setup.setting.url).await;
    let offers = paths.map(|id| {
        let request = json!({
            "requestId": id, "toolName": "Bash", "args": r#"{"command":"echo ran >> effects"}"#,
            "createdAtMs": 1.0, "cancelled": false, "attempt": 0.0,
        });
        json!({"seq": "1", "type": "tool_request", "requestId": id, "request": request})
    });
    let page =
        json!({"status": "success", "value": {"events": offers, "cursor": null, "isDone": true}});
    let mut lies = 3;
    relay.rule(move |path, _| match path {
        "events:listForDevice" if lies > 0 => {
            lies -= 1;
            CallFate::say(
                "200 OK",
                "content-type: application/json\r\n",
                &page.to_string(),
            )
        }
        _ => CallFate::Pass,
    });
    let _runner = setup.run_at(&relay.url);
    setup.bash("echo after > after").await.expect_ok();
    assert!(
        !relay.calls("events:listForDevice").is_empty(),
        "the runner must read a false page"
    );
    let claimed: Vec<_> = relay
        .calls("events:claim")
        .iter()
        .map(|call| call.args["requestId"].clone())
        .collect();
    assert!(
        claimed.iter().all(|id| paths.iter().all(|path| id != path)),
        "{claimed:?}"
    );
    assert_eq!(setup.read("effects"), "");
}

#[cfg(feature = "websocket")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h95_an_id_that_is_a_path_names_no_file_where_any_text_is_an_id() {
    let worker = WorkerProcess::new().await;
    let _runner = worker.run();
    let mut line = worker.accept().await;
    let around = worker.setting.home.parent().expect("a folder").to_owned();
    let absolute = around.join("escaped").display().to_string();
    for id in [
        "../../escaped",
        &absolute,
        "state/../../escaped",
        "escaped\u{0}",
    ] {
        // Long enough that the runner stores the output in a file of its own.
        let said = line
            .done(id, "run_command", &json!({"command": "seq 20000"}))
            .await;
        assert_contains!(said, "20000"; "{id:?}");
    }
    wait_until("the stored outputs", || {
        std::fs::read_dir(worker.setting.home.join("state/outputs")).is_ok()
    })
    .await;
    let named: Vec<_> = files_below(&around)
        .into_iter()
        .filter(|path| path.contains("escaped"))
        .collect();
    assert!(named.is_empty(), "{named:?}");
}
