//! An editor that launches `punie-runner acp` and exchanges JSON lines with it. Tests can write raw bytes, so the
//! editor can also break the protocol.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::process::{PROGRAM, ProcessSetting, new_numbered_file};
use super::wait::{wait_for_some, wait_until};

/// The editor's reaction to a request.
pub enum EditorReaction {
    /// Answers it.
    Answer(Value),
    /// Answers it and cancels the turn at once, like an editor whose user dismisses the question.
    AnswerAndCancel(Value),
    /// Answers with an error of this code.
    Refuse(i32),
    /// Sends no answer.
    Silence,
}

type Serve = Box<dyn FnMut(&str, &Value) -> EditorReaction + Send>;

struct SharedEditor {
    stdin: Mutex<Option<ChildStdin>>,
    heard: Mutex<Vec<Value>>,
    serve: Mutex<Serve>,
    /// A test holds this lock to stop the reader.
    reading: Arc<Mutex<()>>,
}

/// An editor and the agent process that it launched.
pub struct EditorProcess {
    child: Child,
    shared: Arc<SharedEditor>,
    reader: JoinHandle<()>,
    next: u64,
}

impl EditorProcess {
    /// Launches the agent as an editor does: with a small environment, in `/`. `serve` decides the reaction to each
    /// request.
    pub fn launch(
        setting: &ProcessSetting,
        serve: impl FnMut(&str, &Value) -> EditorReaction + Send + 'static,
    ) -> Self {
        let (_, log) = new_numbered_file(&setting.logs, ".acp.log");
        let mut child = Command::new(PROGRAM)
            .arg("acp")
            .current_dir("/")
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &setting.logs)
            .env("PUNIE_HOME", &setting.home)
            .env("PUNIE_BACKEND_URL", &setting.url)
            .env("PUNIE_LOG", "debug")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the agent starts");
        let shared = Arc::new(SharedEditor {
            stdin: Mutex::new(child.stdin.take()),
            heard: Mutex::default(),
            serve: Mutex::new(Box::new(serve)),
            reading: Arc::default(),
        });
        let stdout = child.stdout.take().expect("piped");
        let listens = Arc::clone(&shared);
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(line) = line else { return };
                drop(listens.reading.lock());
                let message: Value = serde_json::from_str(&line).expect("a line of the protocol");
                listens.heard(message);
            }
        });
        Self {
            child,
            shared,
            reader,
            next: 0,
        }
    }

    /// Replaces the function that decides the reaction to each request.
    pub fn serves(&self, serve: impl FnMut(&str, &Value) -> EditorReaction + Send + 'static) {
        *self.shared.serve.lock() = Box::new(serve);
    }

    /// Writes raw bytes to the agent's stdin.
    pub fn write(&self, bytes: &[u8]) {
        self.shared.write(bytes);
    }

    /// Sends a request and returns its id.
    pub fn send(&mut self, method: &str, params: &Value) -> u64 {
        self.next += 1;
        self.shared
            .say(&json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params }));
        self.next
    }

    /// Sends a notification.
    pub fn notify(&self, method: &str, params: &Value) {
        self.shared
            .say(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Waits for the answer to a request and returns the whole message.
    pub async fn answer(&self, id: u64) -> Value {
        let find = || {
            self.heard()
                .into_iter()
                .find(|m| m["id"] == id && m.get("method").is_none())
        };
        wait_for_some(&format!("the answer to {id}"), async || find()).await
    }

    /// Sends a request and waits for its result.
    pub async fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.send(method, params);
        let answer = self.answer(id).await;
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Sends `initialize` with these capabilities and waits for the answer.
    pub async fn initialize_client(&mut self, capabilities: &Value) {
        let info = json!({ "name": "testedit", "title": "Testedit", "version": "1.0" });
        let params =
            json!({ "protocolVersion": 1, "clientInfo": info, "clientCapabilities": capabilities });
        self.ask("initialize", &params).await;
    }

    /// Opens a session in this folder and returns its id.
    pub async fn session(&mut self, folder: &std::path::Path) -> String {
        let opened = self
            .ask("session/new", &json!({ "cwd": folder, "mcpServers": [] }))
            .await;
        opened["sessionId"].as_str().expect("an id").to_owned()
    }

    /// Sends a prompt and returns the id of its request.
    pub fn prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.send(
            "session/prompt",
            &json!({ "sessionId": session, "prompt": prompt }),
        )
    }

    /// Initializes the agent, opens a session and attaches it. Returns the ids of the session and of the prompt.
    pub async fn attached(
        &mut self,
        capabilities: &Value,
        setting: &ProcessSetting,
    ) -> (String, u64) {
        self.initialize_client(capabilities).await;
        let session = self.session(&setting.workspace).await;
        let turn = self.attach(&session, "attach").await;
        (session, turn)
    }

    /// Attaches a session with these words as the prompt, and returns the id of the prompt.
    pub async fn attach(&mut self, session: &str, words: &str) -> u64 {
        let before = self.said(session).matches("Attached").count();
        let turn = self.prompt(session, words);
        wait_until("the turn to be open", || {
            self.said(session).matches("Attached").count() > before
        })
        .await;
        turn
    }

    /// All messages that the editor has received.
    pub fn heard(&self) -> Vec<Value> {
        self.shared.heard.lock().clone()
    }

    /// The parameters of the received requests with this method.
    pub fn requests(&self, method: &str) -> Vec<Value> {
        let asked = |m: &Value| m["method"] == method && m.get("id").is_some();
        self.heard()
            .into_iter()
            .filter(asked)
            .map(|m| m["params"].clone())
            .collect()
    }

    /// The updates of a session, in order.
    pub fn updates(&self, session: &str) -> Vec<Value> {
        let ours =
            |m: &Value| m["method"] == "session/update" && m["params"]["sessionId"] == session;
        self.heard()
            .into_iter()
            .filter(ours)
            .map(|m| m["params"]["update"].clone())
            .collect()
    }

    /// The text of the agent's messages in a session.
    pub fn said(&self, session: &str) -> String {
        let texts = self
            .updates(session)
            .into_iter()
            .filter(|u| u["sessionUpdate"] == "agent_message_chunk");
        texts
            .map(|u| u["content"]["text"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// The statuses that a tool call went through, in order, without repeats in a row.
    pub fn shown_stages(&self, session: &str, call: &str) -> Vec<String> {
        let ours = self
            .updates(session)
            .into_iter()
            .filter(|u| u["toolCallId"] == call);
        let told = ours.filter_map(|u| match u["status"].as_str() {
            Some(status) => Some(status.to_owned()),
            // ACP leaves out the first status if it is the default.
            None => (u["sessionUpdate"] == "tool_call").then(|| "pending".to_owned()),
        });
        let mut stages: Vec<String> = told.collect();
        stages.dedup();
        stages
    }

    /// Waits until a tool call has this status.
    pub async fn shows(&self, session: &str, call: &str, expected: &str) {
        wait_until(&format!("{call} to be {expected}"), || {
            self.shown_stages(session, call)
                .last()
                .is_some_and(|last| last == expected)
        })
        .await;
    }

    /// Stops reading the agent's output until the returned guard is dropped.
    pub fn stop_reading(&self) -> impl Drop + use<> {
        hold_lock(Arc::clone(&self.shared.reading))
    }

    /// Kills the agent, and waits until it is gone.
    pub fn kill(mut self) {
        self.child.kill().expect("the agent can be killed");
        self.child.wait().expect("it ends");
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Closes the agent's stdin.
    pub fn close(&self) {
        self.shared.stdin.lock().take();
    }

    /// Waits until the agent has ended, and until all its output is read.
    pub async fn end(&mut self) -> ExitStatus {
        let status = wait_for_some("the end of the agent", async || {
            self.child
                .try_wait()
                .expect("the agent's status can be read")
        })
        .await;
        wait_until("all its output to be read", || self.reader.is_finished()).await;
        status
    }
}

impl SharedEditor {
    fn write(&self, bytes: &[u8]) {
        if let Some(stdin) = &mut *self.stdin.lock() {
            // An agent that has ended does not read its stdin.
            let _ = stdin.write_all(bytes).and_then(|()| stdin.flush());
        }
    }

    fn say(&self, message: &Value) {
        self.write(format!("{message}\n").as_bytes());
    }

    fn heard(&self, message: Value) {
        let request = message
            .get("id")
            .cloned()
            .zip(message["method"].as_str().map(str::to_owned));
        let params = message["params"].clone();
        self.heard.lock().push(message);
        let Some((id, method)) = request else { return };
        let reaction = (*self.serve.lock())(&method, &params);
        match reaction {
            EditorReaction::Answer(result) => {
                self.say(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
            }
            EditorReaction::AnswerAndCancel(result) => {
                let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result });
                let params = json!({ "sessionId": params["sessionId"] });
                let cancel =
                    json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": params });
                self.write(format!("{answer}\n{cancel}\n").as_bytes());
            }
            EditorReaction::Refuse(code) => {
                let error = json!({ "code": code, "message": "refused" });
                self.say(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
            }
            EditorReaction::Silence => {}
        }
    }
}

/// Holds the lock on a thread of its own, since a mutex guard cannot move between threads.
struct PausedReader(
    Option<std::sync::mpsc::Sender<()>>,
    Option<std::thread::JoinHandle<()>>,
);

fn hold_lock(reading: Arc<Mutex<()>>) -> PausedReader {
    let (sender, receiver) = std::sync::mpsc::channel();
    let (held, holds) = std::sync::mpsc::channel();
    let holding = std::thread::spawn(move || {
        let _held = reading.lock();
        let _ = held.send(());
        let _ = receiver.recv();
    });
    holds.recv().expect("the lock is held");
    PausedReader(Some(sender), Some(holding))
}

impl Drop for PausedReader {
    fn drop(&mut self) {
        drop(self.0.take());
        let _ = self.1.take().map(std::thread::JoinHandle::join);
    }
}

impl Drop for EditorProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Chooses this option in every permission question and refuses all other requests.
pub fn choose_option(
    option: &'static str,
) -> impl FnMut(&str, &Value) -> EditorReaction + Send + 'static {
    move |method, _| match method {
        "session/request_permission" => EditorReaction::Answer(
            json!({ "outcome": { "outcome": "selected", "optionId": option } }),
        ),
        _ => EditorReaction::Refuse(-32601),
    }
}
