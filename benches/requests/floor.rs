//! The least device that the wire allows: polls with a cursor, claims beside the work, does the work without limits
//! or checks, posts. No redaction, no lanes, no retries. What it costs, nobody can avoid. With a journal it also writes
//! down, synced, that a command begins and what came of it: what nobody can avoid who runs each command once.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use punie_home::{DeviceIdentity, Home};
use rusqlite::Connection;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::task::JoinSet;

/// The first argument that makes this program the floor device.
pub const WORD: &str = "floor-device";

const TOKEN: &str = "the-token-of-the-floor-device";

/// The word that gives it a journal, and the one for one pass.
pub const JOURNAL: &str = "--journal";
pub const ONCE: &str = "--once";

/// Runs until killed, or one pass.
pub fn run(words: &[String]) {
    let [root, url, code, rest @ ..] = words else {
        panic!("a root, a URL and a pairing code")
    };
    let has = |word: &str| rest.iter().any(|other| other == word);
    let once = has(ONCE);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let device = Arc::new(Floor::open(Path::new(root), url, has(JOURNAL)));
        if !(once && device.root.join("paired").exists()) {
            device.pair(code).await;
        }
        device.serve(once).await;
    });
}

/// The most requests that the floor answers at once, so that the backend has connections for all of them.
const MOST_AT_ONCE: usize = 256;

struct Floor {
    http: reqwest::Client,
    url: String,
    id: String,
    root: PathBuf,
    identity: DeviceIdentity,
    journal: Option<Arc<Mutex<Connection>>>,
}

impl Floor {
    fn open(root: &Path, url: &str, with_journal: bool) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let home = Home::open_home(&root.join("home")).expect("a home");
        let identity = DeviceIdentity::load_or_create(&home).expect("an identity");
        let http = reqwest::Client::builder()
            .no_proxy()
            .tcp_nodelay(true)
            .build()
            .expect("a client");
        let journal = with_journal.then(|| Arc::new(Mutex::new(journal(root))));
        Self {
            http,
            url: url.to_owned(),
            id: identity.device_id().to_string(),
            root: root.to_owned(),
            identity,
            journal,
        }
    }

    async fn call(&self, kind: &str, path: &str, args: Value) -> Value {
        let body = json!({"path": path, "args": args, "format": "json"}).to_string();
        let request = self.http.post(format!("{}/api/{kind}", self.url));
        let reply = request
            .header("content-type", "application/json")
            .body(body)
            .send()
            .await;
        let body = reply
            .expect("an answer")
            .bytes()
            .await
            .expect("a whole answer");
        let mut answer: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(answer["status"], "success", "{path}: {answer}");
        answer["value"].take()
    }

    async fn pair(&self, code: &str) {
        let since = std::time::UNIX_EPOCH.elapsed().expect("after 1970");
        let signed_at = since.as_millis().to_string();
        let mut hash = String::new();
        for byte in Sha256::digest(TOKEN) {
            let _ = write!(hash, "{byte:02x}");
        }
        let text = format!("punie-session:v1:{}:{signed_at}:{hash}", self.id);
        let args = json!({
            "deviceId": self.id, "publicKey": self.identity.public_key_base64(), "name": "floor",
            "platform": "bench", "signedAtMs": signed_at.parse::<f64>().expect("a number"), "tokenHash": hash,
            "signature": self.identity.sign_base64(&text), "pairingCode": code,
        });
        self.call("mutation", "devices:openSession", args).await;
        std::fs::write(self.root.join("paired"), "").expect("a mark");
    }

    async fn serve(self: Arc<Self>, once: bool) {
        let mut work = JoinSet::new();
        let mut cursor = if once {
            self.kept_cursor()
        } else {
            Value::Null
        };
        loop {
            let mut args = json!({"deviceId": self.id, "token": TOKEN, "cursor": cursor});
            if !once {
                args["waitMs"] = json!(25_000);
            }
            let mut page = self.call("query", "events:listForDevice", args).await;
            cursor = page["cursor"].take();
            for event in page["events"].as_array_mut().into_iter().flatten() {
                if work.len() >= MOST_AT_ONCE {
                    work.join_next().await;
                }
                let device = Arc::clone(&self);
                let request = event["request"].take();
                work.spawn(async move { device.answer(&request).await });
            }
            while work.try_join_next().is_some() {}
            if once && page["isDone"] == true {
                break;
            }
        }
        while work.join_next().await.is_some() {}
        std::fs::write(
            self.root.join("cursor"),
            cursor.as_str().unwrap_or_default(),
        )
        .expect("a cursor");
    }

    fn kept_cursor(&self) -> Value {
        std::fs::read_to_string(self.root.join("cursor"))
            .ok()
            .filter(|text| !text.is_empty())
            .into()
    }

    async fn answer(&self, request: &Value) {
        let (id, tool) = (
            &request["requestId"],
            request["toolName"].as_str().unwrap_or_default(),
        );
        let claim =
            json!({"deviceId": self.id, "token": TOKEN, "requestId": id, "leaseId": "floor"});
        let claim = self.call("mutation", "events:claim", claim);
        let result = if self.journal.is_some() && tool == "Bash" {
            // An effect begins when it is claimed and written down, which may go on side by side.
            tokio::join!(claim, self.write_down(id, &request["args"]));
            self.work(tool, request).await
        } else {
            tokio::join!(claim, self.work(tool, request)).1
        };
        let payload = json!({"toolName": tool, "result": result, "meta": {}}).to_string();
        if self.journal.is_some() && tool == "Bash" {
            self.write_down(id, &Value::from(payload.as_str())).await;
        }
        let post = json!({
            "deviceId": self.id, "token": TOKEN, "requestId": id, "leaseId": "floor", "outcome": "ok",
            "payload": payload,
        });
        self.call("mutation", "events:appendResult", post).await;
    }

    /// A row in a transaction of its own, on the disk when this returns.
    async fn write_down(&self, id: &Value, text: &Value) {
        let Some(journal) = self.journal.clone() else {
            return;
        };
        let row = (
            id.as_str().unwrap_or_default().to_owned(),
            text.as_str().unwrap_or_default().to_owned(),
        );
        let writing = tokio::task::spawn_blocking(move || {
            let db = journal.lock().expect("no panic");
            db.prepare_cached("insert into rows (id, text) values (?, ?)")?
                .execute(row)
        });
        writing.await.expect("no panic").expect("a row");
    }

    async fn work(&self, tool: &str, request: &Value) -> String {
        let args: Value =
            serde_json::from_str(request["args"].as_str().unwrap_or("{}")).expect("JSON");
        match tool {
            "Read" => {
                let path = self
                    .root
                    .join("workspace")
                    .join(args["file_path"].as_str().unwrap_or_default());
                let limit = args["limit"].as_u64().unwrap_or(u64::MAX);
                let read = tokio::task::spawn_blocking(move || numbered(&path, limit));
                read.await.expect("a text")
            }
            "Bash" => {
                let mut command = tokio::process::Command::new("/bin/bash");
                command.args([
                    "--noprofile",
                    "--norc",
                    "-c",
                    args["command"].as_str().unwrap_or("true"),
                ]);
                command.stdin(std::process::Stdio::null());
                let output = command.output().await.expect("bash");
                String::from_utf8_lossy(&output.stdout).into_owned()
            }
            _ => "none".to_owned(),
        }
    }
}

fn journal(root: &Path) -> Connection {
    let db = Connection::open(root.join("floor.sqlite3")).expect("a journal");
    db.execute_batch(
        "pragma journal_mode = wal; pragma synchronous = full; create table if not exists rows (id text, text text);",
    )
    .expect("a table");
    db
}

fn numbered(path: &Path, limit: u64) -> String {
    let text = std::fs::read_to_string(path).expect("a file");
    let mut shown = String::with_capacity(text.len() * 6 / 5);
    for (n, line) in (1..=limit).zip(text.lines()) {
        let _ = writeln!(shown, "{n}\t{line}");
    }
    shown
}
