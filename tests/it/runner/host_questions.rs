//! Questions to the caller's side about hosts that a running command wants to reach.

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::harness::caller::ToolCall;
use crate::harness::on_terminal::OnTerminal;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;

/// An HTTP server that answers each request with one line.
struct OneLineServer {
    port: u16,
    _serving: JoinSet<()>,
}

impl OneLineServer {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.expect("a connection");
                let mut head = [0; 4096];
                let _ = stream.read(&mut head).await;
                let answer =
                    "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\nserved\n";
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        Self {
            port,
            _serving: serving,
        }
    }

    fn fetch(&self) -> String {
        format!(
            "NO_PROXY= no_proxy= curl -sS http://127.0.0.1:{}/",
            self.port
        )
    }
}

/// Adds a rule that asks about the loopback address.
fn ask_about_loopback(setup: &RunnerFixture) {
    let rule = "[[rule]]\nname = \"local\"\ndecision = \"ask\"\nhosts = [\"127.0.0.1\"]\n";
    std::fs::write(setup.setting.home.join("policy.toml"), rule).expect("written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_caller_s_side_is_asked_about_a_host() {
    let setup = RunnerFixture::with_config("").await;
    let server = OneLineServer::start().await;
    ask_about_loopback(&setup);
    let _runner = setup.run();
    // The runner can ask a caller that reads the open questions.
    assert!(setup.caller.questions().await.is_empty());
    for (option, expected) in [
        ("reject_once", "was refused by the person"),
        ("allow_once", "served"),
    ] {
        let id = setup.ask_bash(&server.fetch()).await;
        let question = setup.caller.next_question().await;
        assert_eq!(question["requestId"], json!(id));
        let title = question["title"].as_str().expect("a title");
        let host = format!("127.0.0.1:{}", server.port);
        assert_eq!(question["host"], json!(host), "{question}");
        let wanted = format!("{host}: Bash wants to reach this host. Its command: \"");
        assert_starts_with!(title, &wanted);
        setup.caller.choose(&question, option).await;
        let answer = setup.answer(&id).await;
        assert_contains!(answer.text(), expected);
        assert!(setup.caller.questions().await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_nobody_reads_the_questions_a_host_is_refused_at_once() {
    let setup = RunnerFixture::without_listener("").await;
    let server = OneLineServer::start().await;
    ask_about_loopback(&setup);
    let _runner = setup.run();
    let answer = setup.bash(&server.fetch()).await;
    assert_contains!(answer.text(), "nobody can be asked now");
    assert_lacks!(answer.text(), "served");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_command_sends_after_its_answer_is_in_the_history_and_the_audit() {
    let setup = RunnerFixture::with_config("").await;
    let server = OneLineServer::start().await;
    let rule = "[[rule]]\nname = \"local\"\ndecision = \"allow\"\nhosts = [\"127.0.0.1\"]\n";
    std::fs::write(setup.setting.home.join("policy.toml"), rule).expect("written");
    let runner = setup.run();
    let command = format!(
        "while [ ! -e go ]; do sleep 0.05; done; {}; touch done",
        server.fetch()
    );
    let args = json!({"command": command, "run_in_background": true});
    let id = setup.ask(ToolCall::new("Bash", &args)).await;
    setup.answer(&id).await;
    setup.write("go", "");
    wait_until("the end of the command", || setup.file("done").exists()).await;
    runner.terminate();
    runner.end().await;
    let host = format!("127.0.0.1:{}", server.port);
    let shown = setup.shown_history(&id).await;
    assert_contains!(shown, &format!("{host}: sent "));
    let listed = setup
        .command(&["audit", "list", "--request", &id, "--json"])
        .await;
    let row = listed.out.lines().last().expect("a row");
    let row: serde_json::Value = serde_json::from_str(row).expect("JSON");
    assert_fields!(row, {"event": "traffic", "/network/0/host": host});
    assert!(
        row["network"][0]["receivedBytes"].as_u64() > Some(6),
        "{row}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_person_who_types_a_call_is_asked_about_its_hosts() {
    let setup = RunnerFixture::without_listener("").await;
    let server = OneLineServer::start().await;
    ask_about_loopback(&setup);
    let args = json!({"command": server.fetch()}).to_string();
    for (typed, expected) in [("a", "\nserved\n"), ("d", "was refused by the person")] {
        let mut terminal = OnTerminal::start(&setup.setting, &["call", "Bash", &args]);
        terminal.shows("min left):").await;
        terminal.types(&format!("{typed}\n"));
        terminal.shows(expected).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn always_adds_a_rule_for_one_host_and_its_port() {
    let setup = RunnerFixture::without_listener("").await;
    let args = json!({"command": "curl -sS https://nobody.invalid/"}).to_string();
    let mut terminal = OnTerminal::start(&setup.setting, &["call", "Bash", &args]);
    terminal
        .shows("Bash wants to reach a host:\n  host: nobody.invalid:443\n  command: curl -sS https://nobody.invalid/\n")
        .await;
    terminal
        .shows("Always  adds to policy.toml: allow host nobody.invalid:443\n")
        .await;
    terminal.shows("min left):").await;
    terminal.types("l\n");
    terminal.end().await;
    let rules = std::fs::read_to_string(setup.setting.home.join("policy.toml")).expect("rules");
    assert_contains!(rules, "\"nobody.invalid:443\"");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_that_the_owner_adds_beforehand_saves_the_question() {
    let setup = RunnerFixture::without_listener("").await;
    let server = OneLineServer::start().await;
    let added = setup
        .command(&["policy", "allow", "--host", "127.0.0.1"])
        .await;
    assert_eq!(added.code, Some(0), "{added:?}");
    let _runner = setup.run();
    let answer = setup.bash(&server.fetch()).await;
    assert_contains!(answer.text(), "served");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_answer_of_a_call_the_caller_s_side_is_not_asked() {
    let setup = RunnerFixture::with_config("").await;
    let server = OneLineServer::start().await;
    ask_about_loopback(&setup);
    let _runner = setup.run();
    assert!(setup.caller.questions().await.is_empty());
    let command = format!(
        "while [ ! -e go ]; do sleep 0.05; done; {} > said 2>&1; touch done",
        server.fetch()
    );
    let args = json!({"command": command, "run_in_background": true});
    let id = setup.ask(ToolCall::new("Bash", &args)).await;
    setup.answer(&id).await;
    setup.write("go", "");
    wait_until("the end of the command", || setup.file("done").exists()).await;
    let said = setup.read("said");
    assert_contains!(said, "nobody can be asked now");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_of_a_question_counts_for_the_command() {
    let setup = RunnerFixture::with_config("").await;
    let server = OneLineServer::start().await;
    ask_about_loopback(&setup);
    let _runner = setup.run();
    assert!(setup.caller.questions().await.is_empty());
    let args = json!({"command": server.fetch(), "timeout": 1_000});
    let id = setup.ask(ToolCall::new("Bash", &args)).await;
    setup.answer(&id).await.expect_error("timeout");
    assert!(setup.caller.questions().await.is_empty());
}
