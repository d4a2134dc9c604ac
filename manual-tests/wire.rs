//! The caller's side of the wire, in as few words as it takes: Convex's HTTP functions API, spoken plainly.
//! Not here: what is asked and what of it is right.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::{Value, json};

/// Asks one device through its backend.
pub struct Caller {
    client: reqwest::Client,
    url: String,
    token: String,
    device: String,
}

/// A stored result.
pub struct Answer {
    /// `ok`, `error` or `cancelled`.
    pub outcome: String,
    /// `{toolName, result | error, meta}`.
    pub payload: Value,
}

impl Answer {
    /// The text for the model.
    pub fn text(&self) -> String {
        match self
            .payload
            .get("result")
            .or_else(|| self.payload.get("error"))
        {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => String::new(),
        }
    }
}

impl Caller {
    /// A caller of this backend. Without a device's name the backend must know exactly one.
    pub async fn connect(url: &str, token: String, device: Option<String>) -> anyhow::Result<Self> {
        // The client is built without a TLS provider of its own. Installing one twice is harmless.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .no_proxy()
            .timeout(Duration::from_secs(30))
            .build()?;
        let mut caller = Self {
            client,
            url: url.trim_end_matches('/').to_owned(),
            token,
            device: String::new(),
        };
        caller.device = match device {
            Some(device) => device,
            None => caller.only_device().await?,
        };
        Ok(caller)
    }

    /// The backend's address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The device that is asked.
    pub fn device(&self) -> &str {
        &self.device
    }

    async fn only_device(&self) -> anyhow::Result<String> {
        let rows = self.call("query", "devices:list", json!({})).await?;
        let ids: Vec<&str> = rows
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|row| row["deviceId"].as_str())
            .collect();
        match ids.as_slice() {
            [only] => Ok((*only).to_owned()),
            _ => bail!(
                "the backend knows {} devices; set PUNIE_MANUAL_DEVICE to one: {ids:?}",
                ids.len()
            ),
        }
    }

    /// Stores a request.
    pub async fn append(
        &self,
        request: &str,
        (conversation, agent_type): (&str, Option<&str>),
        tool: &str,
        args: &Value,
    ) -> anyhow::Result<()> {
        let mut fields = json!({
            "requestId": request, "deviceId": self.device, "conversationId": conversation,
            "toolName": tool, "args": args.to_string(),
        });
        if let Some(agent_type) = agent_type {
            fields["agentType"] = json!(agent_type);
        }
        self.call("mutation", "events:appendRequest", fields)
            .await
            .map(drop)
    }

    /// Takes a request back.
    pub async fn cancel(&self, request: &str) -> anyhow::Result<()> {
        self.call("mutation", "events:cancel", json!({"requestId": request}))
            .await
            .map(drop)
    }

    /// Waits for a result.
    pub async fn wait(&self, request: &str, limit: Duration) -> anyhow::Result<Answer> {
        let begun = Instant::now();
        let mut pause = Duration::from_millis(10);
        loop {
            let row = self
                .call("query", "events:getResult", json!({"requestId": request}))
                .await?;
            if let (Some(outcome), Some(payload)) =
                (row["outcome"].as_str(), row["payload"].as_str())
            {
                let payload = serde_json::from_str(payload).context("the payload is not JSON")?;
                return Ok(Answer {
                    outcome: outcome.to_owned(),
                    payload,
                });
            }
            if begun.elapsed() > limit {
                bail!("no answer within {} s", limit.as_secs());
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 3 / 2).min(Duration::from_millis(500));
        }
    }

    async fn call(&self, kind: &str, path: &str, mut args: Value) -> anyhow::Result<Value> {
        args["callerToken"] = json!(self.token);
        let body = json!({"path": path, "args": args, "format": "json"});
        let answer = self
            .client
            .post(format!("{}/api/{kind}", self.url))
            .header("Content-Type", "application/json")
            .body(body.to_string())
            .send()
            .await
            .with_context(|| format!("{} cannot be reached", self.url))?;
        let status = answer.status();
        let text = answer.text().await?;
        let envelope: Value = serde_json::from_str(&text)
            .with_context(|| format!("{path}: status {status}, and no JSON: {text:.200}"))?;
        if envelope["status"] == "success" {
            return Ok(envelope["value"].clone());
        }
        bail!("{path}: status {status}: {envelope}");
    }
}
