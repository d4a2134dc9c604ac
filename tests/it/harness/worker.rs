//! A worker that serves a WebSocket: it accepts the runner's connections and sends calls to the runner.

use std::collections::BTreeMap;
use std::path::PathBuf;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

use super::process::{EndedProgram, ProcessSetting, RunningProgram};
use super::wait::PATIENCE;

const QUICK: &str = "
[backend]
kind = \"websocket\"
[backend.poll]
error_base_ms = 20
error_cap_ms = 200
unauthorized_ms = 200
[safe_mode]
crashes = 0
";

/// A worker, and the home and the workspace of a device.
pub struct WorkerProcess {
    listener: TcpListener,
    pub setting: ProcessSetting,
    _dir: TempDir,
}

/// One connection of the runner.
pub struct WorkerConnection {
    pub socket: WebSocketStream<TcpStream>,
    /// The headers of its HTTP request by lower-case name, and its path under `path`.
    pub headers: BTreeMap<String, String>,
    /// Frames that arrived while the test waited for another result.
    seen: Vec<Value>,
}

impl WorkerProcess {
    pub async fn new() -> Self {
        Self::with_config("").await
    }

    /// Sets up a device with these lines added to its configuration.
    pub async fn with_config(config: &str) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("ws://{}/device", listener.local_addr().expect("an address"));
        let setting = ProcessSetting::with_folders(dir.path(), url, &format!("{QUICK}{config}"));
        Self {
            listener,
            setting,
            _dir: dir,
        }
    }

    /// Starts the runner in the background.
    pub fn run(&self) -> RunningProgram {
        RunningProgram::start(&self.setting, &["run"])
    }

    /// Runs one command to its end.
    pub async fn command(&self, args: &[&str]) -> EndedProgram {
        RunningProgram::start(&self.setting, args).end().await
    }

    /// The path of a file in the workspace.
    pub fn file(&self, name: &str) -> PathBuf {
        self.setting.workspace.join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.file(name), text).expect("written");
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    /// Accepts the next TCP connection, and neither reads nor writes on it.
    pub async fn accept_connection(&self) -> TcpStream {
        let accepted = tokio::time::timeout(PATIENCE, self.listener.accept()).await;
        accepted
            .expect("the runner connects in time")
            .expect("accepted")
            .0
    }

    /// Accepts the next WebSocket connection. Connections that only test whether the port is open are skipped.
    pub async fn accept(&self) -> WorkerConnection {
        loop {
            let mut headers = BTreeMap::new();
            #[expect(clippy::result_large_err, reason = "the library's own signature")]
            let look = |request: &Request, response: Response| {
                for (name, value) in request.headers() {
                    headers.insert(
                        name.to_string(),
                        value.to_str().unwrap_or_default().to_owned(),
                    );
                }
                headers.insert("path".to_owned(), request.uri().path().to_owned());
                Ok(response)
            };
            if let Ok(socket) = accept_hdr_async(self.accept_connection().await, look).await {
                return WorkerConnection {
                    socket,
                    headers,
                    seen: Vec::new(),
                };
            }
        }
    }

    /// Refuses the next connection with this status.
    pub async fn refuse(&self, status: &str) {
        let mut stream = self.accept_connection().await;
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        stream.write_all(answer.as_bytes()).await.expect("written");
        // Reads the request to its end, so that a reset does not discard the answer.
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    }
}

impl WorkerConnection {
    pub async fn call(&mut self, id: &str, tool: &str, args: &Value) {
        self.say(&json!({"type": "tool_call", "tool": tool, "id": id, "args": args}).to_string())
            .await;
    }

    pub async fn say(&mut self, text: &str) {
        self.send(Message::text(text)).await;
    }

    pub async fn send(&mut self, message: Message) {
        self.socket.send(message).await.expect("sent");
    }

    /// Waits for the next message, or returns `None` once the connection has ended.
    pub async fn message(&mut self) -> Option<Message> {
        // Pings and pongs do not extend the deadline.
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            match tokio::time::timeout_at(deadline, self.socket.next())
                .await
                .expect("a message arrives in time")
            {
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(message)) => return Some(message),
                Some(Err(_)) | None => return None,
            }
        }
    }

    /// Waits for the next text frame and parses it as JSON.
    pub async fn frame(&mut self) -> Value {
        let message = self.message().await.expect("the connection is still open");
        serde_json::from_str(message.to_text().expect("text")).expect("JSON")
    }

    /// Waits for the result of this call, and returns its status and output.
    pub async fn result(&mut self, id: &str) -> (String, String) {
        loop {
            if let Some(at) = self
                .seen
                .iter()
                .position(|frame| frame["tool_call_id"] == id)
            {
                let frame = self.seen.remove(at);
                assert_eq!(frame["type"], "tool_result", "{frame}");
                let text = |key: &str| frame[key].as_str().expect("text").to_owned();
                return (text("status"), text("output"));
            }
            let frame = self.frame().await;
            self.seen.push(frame);
        }
    }

    /// Makes a call that must succeed, and returns its output.
    pub async fn done(&mut self, id: &str, tool: &str, args: &Value) -> String {
        self.call(id, tool, args).await;
        let (status, output) = self.result(id).await;
        assert_eq!(status, "success", "{tool}: {output}");
        output
    }

    /// Makes a call that must fail, and returns its output.
    pub async fn fails(&mut self, id: &str, tool: &str, args: &Value) -> String {
        self.call(id, tool, args).await;
        let (status, output) = self.result(id).await;
        assert_eq!(status, "error", "{tool}: {output}");
        output
    }
}
