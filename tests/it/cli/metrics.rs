//! `metrics`: OpenMetrics text, printed, in a file, or over HTTP.

use serde_json::json;

use crate::harness::caller::ToolCall;
use crate::harness::process::RunningProgram;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_for_some;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_count_requests_by_tool_and_show_no_path_and_no_command() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    for ask in [
        ToolCall::new("Bash", &json!({"command": "echo a-secret-command"})),
        ToolCall::new("Bash", &json!({"command": "exit 3"})),
        ToolCall::new("Read", &json!({"file_path": "a-secret-path"})),
        ToolCall::new("NoSuchTool", &json!({})),
    ] {
        let id = setup.ask(ask).await;
        setup.answer(&id).await;
    }
    let printed = setup.command(&["metrics"]).await;
    assert_eq!(printed.code, Some(0), "{printed:?}");
    for line in [
        "# TYPE punie_runner_up gauge",
        "punie_runner_up 1",
        "punie_requests_waiting 0",
        "punie_requests_running 0",
        "punie_requests_kept{tool=\"Bash\",outcome=\"ok\"} 2",
        "punie_requests_kept{tool=\"Read\",outcome=\"error\"} 1",
        "punie_requests_kept{tool=\"unknown\",outcome=\"error\"} 1",
    ] {
        assert!(
            printed.out.lines().any(|printed| printed == line),
            "{line}: {}",
            printed.out
        );
    }
    assert_contains!(printed.out, "punie_backend_last_contact_timestamp_seconds ");
    assert_ends_with!(printed.out, "# EOF\n");
    assert_lacks!(printed.out, "secret");
    drop(runner);
    let file = setup.file("metrics.prom");
    let written = setup
        .command(&["metrics", "--output", &file.to_string_lossy()])
        .await;
    assert_eq!(written.code, Some(0), "{written:?}");
    assert_eq!(written.out, "", "{written:?}");
    let text = std::fs::read_to_string(&file).expect("the file");
    assert_contains!(text, "\npunie_runner_up 0\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_are_served_on_this_machine_only() {
    let setup = RunnerFixture::new().await;
    let server = RunningProgram::start(&setup.setting, &["metrics", "--listen", "0"]);
    let url = wait_for_some("the address of the metrics server", async || {
        server.out().lines().next().map(str::to_owned)
    })
    .await;
    assert_starts_with!(url, "http://127.0.0.1:");
    let answer = reqwest::get(&url).await.expect("an answer");
    assert_eq!(
        answer.headers()["content-type"],
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    );
    let text = answer.text().await.expect("text");
    assert_contains!(text, "punie_runner_up 0\n");
    assert_ends_with!(text, "# EOF\n");
    // Web pages must get no metrics, by DNS rebinding or by a cross-origin request.
    let port = url.split([':', '/']).nth(4).expect("a port");
    for (host, origin, status) in [
        ("localhost", None, 200),
        ("evil.example", None, 403),
        ("127.0.0.1.evil.example", None, 403),
        ("localhost", Some("http://evil.example"), 403),
    ] {
        let request = reqwest::Client::new().get(&url);
        let request = request.header("host", format!("{host}:{port}"));
        let request = match origin {
            Some(origin) => request.header("origin", origin),
            None => request,
        };
        let answer = request.send().await.expect("an answer");
        assert_eq!(answer.status().as_u16(), status, "{host} {origin:?}");
    }
}
