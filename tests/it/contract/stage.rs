//! The fixture of a case: a backend, its clock if a test can move it, and the tokens that its operator issues.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::node::NodeServer;
use crate::dev_backend::server::{BackendWire, TestBackend};

pub struct ContractFixture {
    pub wire: BackendWire,
    pub caller_token: String,
    pub pairing_code: String,
    /// The operator's key, or `None` for a deployment.
    admin_key: Option<String>,
    clock: TestTime,
}

/// The clock that the backend uses.
enum TestTime {
    /// The clock of this test's embedded backend.
    Embedded(Box<TestBackend>),
    /// The clock of the Node server, read over HTTP.
    Node,
    /// The clock of a deployment. A test cannot move it, and it is about the same as the local clock.
    World,
}

impl ContractFixture {
    /// Starts an embedded backend with an empty database.
    pub async fn embedded() -> Self {
        let backend = TestBackend::start().await;
        Self {
            wire: backend.wire.clone(),
            caller_token: backend.caller_token.clone(),
            pairing_code: backend.pairing_code.clone(),
            admin_key: Some(backend.backend.admin_key().to_owned()),
            clock: TestTime::Embedded(Box::new(backend)),
        }
    }

    /// Resets the Node server to an empty database.
    pub async fn node(server: &NodeServer) -> Self {
        let begun = server.reset().await;
        let text = |name: &str| {
            begun[name]
                .as_str()
                .expect("a reset hands out all three")
                .to_owned()
        };
        Self {
            wire: server.wire.clone(),
            caller_token: text("callerToken"),
            pairing_code: text("pairingCode"),
            admin_key: Some(text("adminKey")),
            clock: TestTime::Node,
        }
    }

    /// Uses a deployment with its present database.
    pub fn deployed(deployment: &HostedDeployment) -> Self {
        Self {
            wire: deployment.wire.clone(),
            caller_token: deployment.caller_token.clone(),
            pairing_code: deployment.pairing_code.clone(),
            admin_key: None,
            clock: TestTime::World,
        }
    }

    /// Calls a function as the operator and returns the envelope.
    pub async fn operate(&self, path: &str, args: &Value) -> Result<Value, String> {
        let key = self
            .admin_key
            .as_ref()
            .ok_or("there is no admin key: the case needs `operator`")?;
        let body = json!({ "path": path, "args": args, "format": "json" }).to_string();
        let request = self
            .wire
            .http
            .post(format!("{}/api/function", self.wire.url));
        let request = request.header("authorization", format!("Convex {key}"));
        let reply = request
            .header("content-type", "application/json")
            .body(body)
            .send()
            .await;
        let text = reply.expect("a reply").text().await.expect("a body");
        Ok(serde_json::from_str(&text).unwrap_or_else(|bad| panic!("{path}: {bad}: {text}")))
    }

    /// Reads the backend's clock.
    pub async fn now_ms(&self) -> Result<f64, String> {
        match &self.clock {
            TestTime::Embedded(backend) => Ok(backend.clock.now_ms()),
            TestTime::Node => self.move_node_clock(0.0).await,
            TestTime::World => {
                let since = SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .map_err(|bad| bad.to_string())?;
                Ok((since.as_secs_f64() * 1000.0).floor())
            }
        }
    }

    /// The tolerance between a time of the backend and a stored time.
    pub fn leeway_ms(&self) -> f64 {
        if matches!(self.clock, TestTime::World) {
            60_000.0
        } else {
            0.0
        }
    }

    pub async fn advance(&self, ms: f64) -> Result<(), String> {
        match &self.clock {
            TestTime::Embedded(backend) => backend.clock.advance(ms),
            TestTime::Node => drop(self.move_node_clock(ms).await?),
            TestTime::World => {
                return Err("a deployment's clock cannot be moved: the case needs `clock`".into());
            }
        }
        Ok(())
    }

    /// Makes the backend delete the rows that are older than its retention.
    pub async fn delete_old_rows(&self) -> Result<(), String> {
        match &self.clock {
            TestTime::Embedded(backend) => {
                backend.backend.housekeep().await.expect("done");
            }
            TestTime::Node => drop(self.operate("retention:sweep", &json!({})).await?),
            TestTime::World => {
                return Err("a deployment deletes when it wants: the case needs `clock`".into());
            }
        }
        Ok(())
    }

    async fn move_node_clock(&self, ms: f64) -> Result<f64, String> {
        let told = self
            .wire
            .post("/shim/clock", &json!({ "advanceMs": ms }))
            .await;
        told["nowMs"]
            .as_f64()
            .ok_or_else(|| format!("the clock told {told}"))
    }

    /// Stops the backend that this fixture started.
    pub async fn tear_down(self) {
        if let TestTime::Embedded(backend) = self.clock {
            backend.backend.stop_server().await;
        }
    }
}

/// A hosted backend that the environment names.
pub struct HostedDeployment {
    wire: BackendWire,
    caller_token: String,
    pairing_code: String,
    run: String,
}

impl HostedDeployment {
    /// Reads the environment variables. The error names a missing one.
    pub fn from_environment() -> Result<Self, String> {
        let variable = |name: &str| std::env::var(name).map_err(|_| format!("{name} is not set"));
        let url = variable("PUNIE_CONTRACT_URL")?;
        let run = uuid::Uuid::new_v4().simple().to_string();
        Ok(Self {
            wire: BackendWire::at(url.trim_end_matches('/')),
            caller_token: variable("PUNIE_CALLER_TOKEN")?,
            pairing_code: variable("PUNIE_PAIRING_CODE")?,
            run: format!("it{}", &run[..8]),
        })
    }

    pub fn url(&self) -> &str {
        &self.wire.url
    }

    /// Puts a prefix of this run and case before every stored id in the text of cases: a deployment keeps the rows of
    /// earlier runs.
    pub fn named(&self, text: &str) -> String {
        ["dev-", "req-", "perm-"]
            .iter()
            .fold(text.to_owned(), |text, prefix| {
                text.replace(prefix, &format!("{}-${{case}}-{prefix}", self.run))
            })
    }
}

impl BackendWire {
    /// Posts to a route that belongs to no function, such as a route of the Node server.
    pub async fn post(&self, route: &str, body: &Value) -> Value {
        let request = self
            .http
            .post(format!("{}{route}", self.url))
            .body(body.to_string());
        let text = request
            .send()
            .await
            .expect("a reply")
            .text()
            .await
            .expect("a body");
        serde_json::from_str(&text).unwrap_or_else(|bad| panic!("{route}: {bad}: {text}"))
    }
}
