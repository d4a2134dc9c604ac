//! Runs the functions of `convex/` on a Node server: one process for all cases, with a new database for each.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::dev_backend::server::BackendWire;

/// The time limit for bundling the functions and starting to listen.
const START: Duration = Duration::from_mins(1);

/// A running server. It ends when its stdin closes: when this is dropped, or when the test process dies.
pub struct NodeServer {
    pub wire: BackendWire,
    _process: Child,
}

/// Returns true if a missing Node must fail the test, as in CI.
pub fn is_required() -> bool {
    std::env::var("PUNIE_REQUIRE_NODE").is_ok_and(|value| value == "1")
}

impl NodeServer {
    /// Starts the server. The error names the missing program or package.
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
        read.expect("the server prints its address in time")
            .expect("its output can be read");
        let told: Value = serde_json::from_str(&line)
            .unwrap_or_else(|bad| panic!("the Node server did not start ({bad}): {line:?}"));
        let url = told["url"].as_str().expect("the server prints its address");
        Ok(Self {
            wire: BackendWire::at(url),
            _process: process,
        })
    }

    /// Resets to an empty database, and returns the tokens and the code that the operator issues.
    pub async fn reset(&self) -> Value {
        self.wire.post("/shim/reset", &json!({})).await
    }
}
