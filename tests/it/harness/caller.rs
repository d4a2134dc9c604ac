//! The caller of the device: it stores requests, cancels them and waits for results.

use serde_json::{Map, Value, json};

use super::wait::wait_for_some;

/// Creates an HTTP client for the tests.
pub fn http_client() -> reqwest::Client {
    // The first call installs the provider; later calls fail and change nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .no_proxy()
        .build()
        .expect("a client")
}

/// Calls functions of one backend.
#[derive(Clone)]
pub struct BackendWire {
    pub http: reqwest::Client,
    pub url: String,
}

impl BackendWire {
    pub fn at(url: &str) -> Self {
        Self {
            http: http_client(),
            url: url.to_owned(),
        }
    }

    /// Calls a function and returns the envelope of the answer.
    pub async fn call(&self, kind: &str, path: &str, args: &Value) -> Value {
        let body = json!({ "path": path, "args": args, "format": "json" }).to_string();
        let request = self.http.post(format!("{}/api/{kind}", self.url));
        let reply = request
            .header("content-type", "application/json")
            .body(body)
            .send()
            .await
            .expect("a reply");
        assert_eq!(reply.status(), 200, "{path}");
        let text = reply.text().await.expect("a body");
        serde_json::from_str(&text).unwrap_or_else(|bad| panic!("{path}: {bad}: {text}"))
    }

    /// Calls a function that must succeed and returns its value.
    pub async fn value(&self, kind: &str, path: &str, args: &Value) -> Value {
        let mut envelope = self.call(kind, path, args).await;
        assert_eq!(envelope["status"], "success", "{path}: {envelope}");
        envelope["value"].take()
    }
}

/// A caller with a token of one backend.
#[derive(Clone)]
pub struct TestCaller {
    wire: BackendWire,
    pub token: String,
    pub device: String,
}

/// The fields of a request.
#[derive(Clone)]
pub struct ToolCall {
    fields: Map<String, Value>,
}

impl ToolCall {
    pub fn new(tool: &str, args: &Value) -> Self {
        let mut fields = Map::new();
        fields.insert(
            "requestId".into(),
            json!(punie_core::ids::RequestId::new().as_str()),
        );
        fields.insert("toolName".into(), json!(tool));
        fields.insert("args".into(), json!(args.to_string()));
        Self { fields }
    }

    pub fn bash(command: &str) -> Self {
        Self::new("Bash", &json!({ "command": command }))
    }

    pub fn in_conversation(self, conversation: &str) -> Self {
        self.with("conversationId", json!(conversation))
    }

    pub fn with(mut self, field: &str, value: Value) -> Self {
        self.fields.insert(field.into(), value);
        self
    }
}

/// A stored result.
#[derive(Debug, Clone)]
pub struct CallAnswer {
    pub outcome: String,
    pub payload: Value,
    pub raw: String,
}

impl CallAnswer {
    /// The text of the result or the error. A JSON result is returned as JSON text.
    pub fn text(&self) -> String {
        let body = self
            .payload
            .get("result")
            .or_else(|| self.payload.get("error"))
            .unwrap_or(&Value::Null);
        body.as_str()
            .map_or_else(|| body.to_string(), str::to_owned)
    }

    /// Fails unless the call succeeded. Returns its text.
    #[track_caller]
    pub fn expect_ok(&self) -> String {
        assert_eq!(self.outcome, "ok", "{self:?}");
        self.text()
    }

    /// Fails unless the call ended with an error of this code. Returns its text.
    #[track_caller]
    pub fn expect_error(&self, code: &str) -> String {
        assert_eq!(self.verdict(), ("error", code), "{self:?}");
        self.text()
    }

    /// The outcome and, for an error, its code.
    pub fn verdict(&self) -> (&str, &str) {
        (
            &self.outcome,
            self.payload["meta"]["code"].as_str().unwrap_or_default(),
        )
    }
}

impl TestCaller {
    pub fn new(url: &str, token: String, device: String) -> Self {
        Self {
            wire: BackendWire::at(url),
            token,
            device,
        }
    }

    async fn call(&self, kind: &str, path: &str, mut args: Value) -> Value {
        args["callerToken"] = json!(self.token);
        self.wire.value(kind, path, &args).await
    }

    /// Stores a request and returns its id.
    pub async fn ask(&self, ask: ToolCall) -> String {
        let mut args = Value::Object(ask.fields);
        args["deviceId"] = json!(self.device);
        let stored = self.call("mutation", "events:appendRequest", args).await;
        stored["requestId"].as_str().expect("an id").to_owned()
    }

    /// Cancels a request and returns the state in the backend's reply.
    pub async fn cancel(&self, id: &str) -> String {
        let answer = self
            .call("mutation", "events:cancel", json!({ "requestId": id }))
            .await;
        answer["state"].as_str().expect("a state").to_owned()
    }

    pub async fn result(&self, id: &str) -> Option<CallAnswer> {
        let row = self
            .call("query", "events:getResult", json!({ "requestId": id }))
            .await;
        let raw = row["payload"].as_str()?.to_owned();
        let payload = serde_json::from_str(&raw).expect("a payload is JSON");
        Some(CallAnswer {
            outcome: row["outcome"].as_str().expect("an outcome").to_owned(),
            payload,
            raw,
        })
    }

    /// Waits for the result and returns it.
    pub async fn answer(&self, id: &str) -> CallAnswer {
        wait_for_some(&format!("the result of {id}"), async || {
            self.result(id).await
        })
        .await
    }

    /// The progress of a request so far.
    pub async fn progress_pieces(&self, id: &str) -> Vec<Value> {
        let rows = self
            .call("query", "events:listProgress", json!({ "requestId": id }))
            .await;
        let piece =
            |row: &Value| serde_json::from_str(row["data"].as_str().expect("text")).expect("JSON");
        rows.as_array().expect("a list").iter().map(piece).collect()
    }

    /// Subscribes to the progress of a request and returns the state in the backend's reply.
    pub async fn watch_progress(&self, id: &str) -> String {
        let args = json!({ "requestId": id });
        let answer = self.call("mutation", "events:watchProgress", args).await;
        answer["state"].as_str().expect("a state").to_owned()
    }

    /// Reads the open questions.
    pub async fn questions(&self) -> Vec<Value> {
        let open = self.call("query", "permissions:pending", json!({})).await;
        open.as_array().expect("a list").clone()
    }

    /// Waits for an open question and returns it.
    pub async fn next_question(&self) -> Value {
        wait_for_some("a question", async || self.questions().await.pop()).await
    }

    /// Answers a question with this option and returns the backend's reply.
    pub async fn choose(&self, question: &Value, option: &str) -> Value {
        let args = json!({ "permissionId": question["permissionId"], "optionId": option });
        self.call("mutation", "permissions:answer", args).await
    }

    /// Answers a question with this text and returns the backend's reply.
    pub async fn answer_with_text(&self, question: &Value, text: &str) -> Value {
        let answered = self.try_answer(question, "text", Some(text)).await;
        answered["value"].clone()
    }

    /// Answers a question and returns the whole reply, also a refusal.
    pub async fn try_answer(&self, question: &Value, option: &str, text: Option<&str>) -> Value {
        let mut args = json!({
            "callerToken": self.token, "permissionId": question["permissionId"], "optionId": option,
        });
        if let Some(text) = text {
            args["text"] = json!(text);
        }
        let path = "permissions:answer";
        self.wire.call("mutation", path, &args).await
    }

    /// Stores a request and waits for its result.
    pub async fn call_and_wait(&self, ask: ToolCall) -> CallAnswer {
        let id = self.ask(ask).await;
        self.answer(&id).await
    }

    /// The tools that the device has published, by name.
    pub async fn tools(&self) -> Vec<(String, Value)> {
        self.catalog("tool").await
    }

    /// The items of this kind that the device has published, by name.
    pub async fn catalog(&self, kind: &str) -> Vec<(String, Value)> {
        let args = json!({ "deviceId": self.device, "kind": kind });
        let items = self.call("query", "catalog:list", args).await;
        let tool = |item: &Value| {
            let body = item["body"].as_str().expect("a body");
            (
                item["key"].as_str().expect("a key").to_owned(),
                serde_json::from_str(body).expect("JSON"),
            )
        };
        items.as_array().expect("a list").iter().map(tool).collect()
    }

    /// The health that the device reported last.
    pub async fn health(&self) -> Value {
        let health = self.presence().await["health"].take();
        health
            .as_str()
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    }

    /// Returns true if the backend considers the device online.
    pub async fn sees_online(&self) -> bool {
        self.presence().await["online"].as_bool().unwrap_or(false)
    }

    async fn presence(&self) -> Value {
        let args = json!({ "deviceId": self.device });
        self.call("query", "devices:presence", args).await
    }
}
