//! The caller's side of the wire, without faults. Not here: what is asked.

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::work::Job;

pub struct Caller {
    http: reqwest::Client,
    url: String,
    token: String,
}

/// A stored result.
#[derive(Debug, Clone)]
pub struct Answer {
    pub outcome: String,
    pub text: String,
    pub code: String,
    pub may_have_run: bool,
    pub recovered: bool,
}

impl Caller {
    pub fn new(url: &str, token: String) -> anyhow::Result<Self> {
        // A second time changes nothing.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().build()?;
        Ok(Self {
            http,
            url: url.to_owned(),
            token,
        })
    }

    async fn call(&self, kind: &str, path: &str, mut args: Value) -> anyhow::Result<Value> {
        args["callerToken"] = json!(self.token);
        let body = json!({ "path": path, "args": args, "format": "json" }).to_string();
        let request = self.http.post(format!("{}/api/{kind}", self.url));
        let reply = request
            .header("content-type", "application/json")
            .body(body)
            .send()
            .await?;
        let mut envelope: Value = serde_json::from_str(&reply.text().await?)?;
        anyhow::ensure!(envelope["status"] == "success", "{path}: {envelope}");
        Ok(envelope["value"].take())
    }

    pub async fn ask(&self, device: &str, job: &Job) -> anyhow::Result<()> {
        let fields = json!({
            "requestId": job.id, "deviceId": device, "toolName": job.tool(), "args": job.args().to_string(),
            "conversationId": job.conversation.to_string(),
        });
        self.call("mutation", "events:appendRequest", fields)
            .await
            .map(drop)
    }

    pub async fn cancel(&self, id: &str) -> anyhow::Result<()> {
        self.call("mutation", "events:cancel", json!({ "requestId": id }))
            .await
            .map(drop)
    }

    pub async fn result(&self, id: &str) -> anyhow::Result<Option<Answer>> {
        let row = self
            .call("query", "events:getResult", json!({ "requestId": id }))
            .await?;
        let Some(payload) = row["payload"].as_str() else {
            return Ok(None);
        };
        let payload: Value = serde_json::from_str(payload).context("a payload is JSON")?;
        let text = payload
            .get("result")
            .or_else(|| payload.get("error"))
            .unwrap_or(&Value::Null);
        Ok(Some(Answer {
            outcome: row["outcome"].as_str().unwrap_or_default().to_owned(),
            text: text
                .as_str()
                .map_or_else(|| text.to_string(), str::to_owned),
            code: payload["meta"]["code"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            may_have_run: payload["meta"]["mayHaveRun"] == true,
            recovered: payload["meta"]["recovered"] == true,
        }))
    }
}
