//! Hosts that a running command wants to reach, as questions to the caller's side.

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::harness::caller::Ask;
use crate::harness::stage::Stage;
use crate::harness::wait::eventually;

/// A server of HTTP that answers each request with one line.
struct OneLine {
    port: u16,
    _serving: JoinSet<()>,
}

impl OneLine {
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

/// Adds a rule that asks about this machine's loopback.
fn ask_about_loopback(stage: &Stage) {
    let rule = "[[rule]]\nname = \"local\"\ndecision = \"ask\"\nhosts = [\"127.0.0.1\"]\n";
    std::fs::write(stage.setting.home.join("policy.toml"), rule).expect("written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_caller_s_side_is_asked_about_a_host() {
    let (stage, server) = (Stage::with("").await, OneLine::start().await);
    ask_about_loopback(&stage);
    let _runner = stage.run();
    // Somebody there reads what waits.
    assert!(stage.caller.questions().await.is_empty());
    for (option, expected) in [
        ("reject_once", "was refused by the person"),
        ("allow_once", "served"),
    ] {
        let id = stage.ask(Ask::bash(&server.fetch())).await;
        let question =
            eventually("a question", async || stage.caller.questions().await.pop()).await;
        assert_eq!(question["requestId"], json!(id));
        let title = question["title"].as_str().expect("a title");
        let wanted = format!("wants to reach 127.0.0.1:{}", server.port);
        assert!(title.contains(&wanted), "{title}");
        stage.caller.choose(&question, option).await;
        let answer = stage.answer(&id).await;
        assert!(answer.text().contains(expected), "{answer:?}");
        assert!(stage.caller.questions().await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_nobody_reads_the_questions_a_host_is_refused_at_once() {
    let (stage, server) = (Stage::without_listener("").await, OneLine::start().await);
    ask_about_loopback(&stage);
    let _runner = stage.run();
    let answer = stage.caller.have(Ask::bash(&server.fetch())).await;
    assert!(
        answer.text().contains("nobody can be asked now"),
        "{answer:?}"
    );
    assert!(!answer.text().contains("served"), "{answer:?}");
}
