//! Answers that unpack to a thousand times their size, and text that would become another header. The limit on an
//! answer's size is tested in `faults::bytes`.

use std::io::Write as _;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::harness::process::ProcessSetting;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;
use crate::harness::worker::WorkerProcess;

/// A server that sends the same answer to every request, and stores the requests.
struct FixedServer {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
    _serving: JoinSet<()>,
}

impl FixedServer {
    async fn saying(answer: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let hears = Arc::clone(&asked);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let Ok(byte) = socket.read_u8().await else {
                        break;
                    };
                    head.push(byte);
                }
                hears.lock().push(String::from_utf8_lossy(&head).into());
                // A client that has read enough may disconnect in the middle.
                let _ = socket.write_all(&answer).await;
                let _ = socket.shutdown().await;
            }
        });
        Self {
            url,
            asked,
            _serving: serving,
        }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `.ci/run` runs it"]
async fn h99_an_answer_that_unpacks_to_a_thousand_times_its_size_is_refused() {
    const UNPACKED: usize = 64 << 20;
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    for _ in 0..UNPACKED >> 13 {
        bomb.write_all(&[b' '; 1 << 13]).expect("packed");
    }
    let bomb = bomb.finish().expect("packed");
    assert!(bomb.len() * 1_000 < UNPACKED, "{} bytes", bomb.len());
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        bomb.len()
    );
    let parrot = FixedServer::saying([head.as_bytes(), &bomb].concat()).await;
    let setup = RunnerFixture::new().await;
    let ended = setup.command_at(&parrot.url, &["--once"]).await;
    assert_ne!(ended.code, Some(0), "{ended:?}");
    assert_contains!(ended.log, "answered with more than");
    assert!(!parrot.asked().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h100_line_ends_in_an_address_make_no_header() {
    let parrot = FixedServer::saying(
        b"HTTP/1.1 500 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec(),
    )
    .await;
    let setup = RunnerFixture::new().await;
    for evil in [
        "/a\r\nX-Evil: 1\r\n",
        "/a%0d%0aX-Evil:%201",
        "/a\nX-Evil: 1",
        "/a\u{85}X-Evil: 1",
        "\r\n\r\nX-Evil: 1",
    ] {
        let setting = ProcessSetting {
            url: format!("{}{evil}", parrot.url),
            ..setup.setting.clone()
        };
        let ended = crate::harness::process::RunningProgram::start(&setting, &["--once"])
            .end()
            .await;
        assert_ne!(ended.code, Some(0), "{evil:?}: {ended:?}");
    }
    let asked = parrot.asked();
    assert!(
        !asked.is_empty(),
        "some of these addresses must reach the server"
    );
    for head in asked {
        let evil = head
            .lines()
            .skip(1)
            .find(|line| line.to_ascii_lowercase().starts_with("x-evil"));
        assert_eq!(evil, None, "{head}");
        assert!(
            head.starts_with("GET ") || head.starts_with("POST "),
            "{head}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h100_line_ends_in_a_token_make_no_header() {
    let worker = WorkerProcess::new().await;
    let token = worker.setting.home.join("tokens/backend");
    std::fs::create_dir_all(token.parent().expect("a folder")).expect("made");
    for evil in [
        "abc\r\nX-Evil: 1",
        "abc\nX-Evil: 1\n\n",
        "abc\rX-Evil: 1",
        "abc\u{0}def",
    ] {
        std::fs::write(&token, evil).expect("written");
        for (path, mode) in [
            (token.parent().expect("a folder"), 0o700),
            (token.as_path(), 0o600),
        ] {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(path, mode).expect("set");
        }
        let mut runner = worker.run();
        wait_until("the runner's end", || runner.has_ended()).await;
        let ended = runner.end().await;
        assert_eq!(ended.code, Some(78), "{evil:?}: {ended:?}");
        assert_lacks!(ended.log, "X-Evil"; "the log must not show the token");
    }
}
