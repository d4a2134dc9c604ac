//! The least device that the wire allows: polls with a cursor, claims beside the work, does the work without limits
//! or checks, posts. No journal, no redaction, no lanes, no retries. What it costs, nobody can avoid.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use punie_runner::home::{DeviceIdentity, Home};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::task::JoinSet;

/// The first argument that makes this program the floor device.
pub const WORD: &str = "floor-device";

const TOKEN: &str = "the-token-of-the-floor-device";

/// Runs until killed, or one pass.
pub fn run(words: &[String]) {
    let [root, url, code, rest @ ..] = words else { panic!("a root, a URL and a pairing code") };
    let once = !rest.is_empty();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let device = Arc::new(Floor::open(Path::new(root), url));
        if !(once && device.root.join("paired").exists()) {
            device.pair(code).await;
        }
        device.serve(once).await;
    });
}

struct Floor {
    http: reqwest::Client,
    url: String,
    id: String,
    root: PathBuf,
    identity: DeviceIdentity,
}

impl Floor {
    fn open(root: &Path, url: &str) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let home = Home::open(&root.join("home")).expect("a home");
        let identity = DeviceIdentity::load_or_create(&home).expect("an identity");
        let http = reqwest::Client::builder().no_proxy().tcp_nodelay(true).build().expect("a client");
        Self { http, url: url.to_owned(), id: identity.id().to_string(), root: root.to_owned(), identity }
    }

    async fn call(&self, kind: &str, path: &str, args: Value) -> Value {
        let body = json!({"path": path, "args": args, "format": "json"}).to_string();
        let request = self.http.post(format!("{}/api/{kind}", self.url));
        let reply = request.header("content-type", "application/json").body(body).send().await;
        let body = reply.expect("an answer").bytes().await.expect("a whole answer");
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
            "signature": self.identity.sign(&text), "pairingCode": code,
        });
        self.call("mutation", "devices:openSession", args).await;
        std::fs::write(self.root.join("paired"), "").expect("a mark");
    }

    async fn serve(self: Arc<Self>, once: bool) {
        let mut work = JoinSet::new();
        let mut cursor = if once { self.kept_cursor() } else { Value::Null };
        loop {
            let mut args = json!({"deviceId": self.id, "token": TOKEN, "cursor": cursor});
            if !once {
                args["waitMs"] = json!(25_000);
            }
            let mut page = self.call("query", "events:listForDevice", args).await;
            cursor = page["cursor"].take();
            for event in page["events"].as_array_mut().into_iter().flatten() {
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
        std::fs::write(self.root.join("cursor"), cursor.as_str().unwrap_or_default()).expect("a cursor");
    }

    fn kept_cursor(&self) -> Value {
        std::fs::read_to_string(self.root.join("cursor")).ok().filter(|text| !text.is_empty()).into()
    }

    async fn answer(&self, request: &Value) {
        let (id, tool) = (&request["requestId"], request["toolName"].as_str().unwrap_or_default());
        let claim = json!({"deviceId": self.id, "token": TOKEN, "requestId": id, "leaseId": "floor"});
        let (_, result) =
            tokio::join!(self.call("mutation", "events:claim", claim), self.work(tool, request));
        let payload = json!({"toolName": tool, "result": result, "meta": {}}).to_string();
        let post = json!({
            "deviceId": self.id, "token": TOKEN, "requestId": id, "leaseId": "floor", "outcome": "ok",
            "payload": payload,
        });
        self.call("mutation", "events:appendResult", post).await;
    }

    async fn work(&self, tool: &str, request: &Value) -> String {
        let args: Value = serde_json::from_str(request["args"].as_str().unwrap_or("{}")).expect("JSON");
        match tool {
            "Read" => {
                let path = self.root.join("workspace").join(args["file_path"].as_str().unwrap_or_default());
                let limit = args["limit"].as_u64().unwrap_or(u64::MAX);
                let read = tokio::task::spawn_blocking(move || numbered(&path, limit));
                read.await.expect("a text")
            }
            "Bash" => {
                let mut command = tokio::process::Command::new("/bin/bash");
                command.args(["--noprofile", "--norc", "-c", args["command"].as_str().unwrap_or("true")]);
                command.stdin(std::process::Stdio::null());
                let output = command.output().await.expect("bash");
                String::from_utf8_lossy(&output.stdout).into_owned()
            }
            _ => "none".to_owned(),
        }
    }
}

fn numbered(path: &Path, limit: u64) -> String {
    let text = std::fs::read_to_string(path).expect("a file");
    let mut shown = String::with_capacity(text.len() * 6 / 5);
    for (n, line) in (1..=limit).zip(text.lines()) {
        let _ = writeln!(shown, "{n}\t{line}");
    }
    shown
}
