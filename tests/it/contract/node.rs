//! The functions of `convex/` on a Node server of their own: one process for all cases, with a new database for each.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::dev_backend::server::{BackendWire, http_client};

/// How long it may take to bundle the functions and to listen.
const START: Duration = Duration::from_mins(1);

/// A running server. It ends with its input, which closes when this is dropped or its owner dies.
pub struct NodeServer {
    pub wire: BackendWire,
    _process: Child,
}

/// Whether to run without Node is a failure: CI says so.
pub fn is_required() -> bool {
    std::env::var("PUNIE_REQUIRE_NODE").is_ok_and(|value| value == "1")
}

impl NodeServer {
    /// Starts it. The error says what is missing on this machine.
    pub async fn start() -> Result<Self, String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("convex");
        if !folder.join("node_modules/convex-test").is_dir() {
            return Err("convex/node_modules is not there; run `npm ci` in convex/".into());
        }
        let mut process = Command::new("node")
            .arg("test/server.mjs")
            .current_dir(&folder)
            .env("PORT", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|bad| format!("node cannot be started: {bad}"))?;
        let stdout = process.stdout.take().expect("it is piped");
        let mut line = String::new();
        let read = tokio::time::timeout(START, BufReader::new(stdout).read_line(&mut line)).await;
        read.expect("the server says where it listens, in time")
            .expect("its output can be read");
        let told: Value = serde_json::from_str(&line)
            .unwrap_or_else(|bad| panic!("the Node server did not start ({bad}): {line:?}"));
        let url = told["url"]
            .as_str()
            .expect("it tells its address")
            .to_owned();
        Ok(Self {
            wire: BackendWire {
                http: http_client(),
                url,
            },
            _process: process,
        })
    }

    /// An empty database and what its operator hands out.
    pub async fn reset(&self) -> Value {
        self.wire.post("/shim/reset", &json!({})).await
    }
}
