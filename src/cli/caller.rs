//! The caller's side of the wire, as `send`, `cancel` and `demo` use it. Not here: the device's side (backend).

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::backend::{BackendError, FunctionKind, HttpFunctions};
use crate::ids::{DeviceId, RequestId};
use crate::redact::Secret;

/// How often a caller says that it listens for progress; the backend takes that to be so for a minute.
const WATCH_AGAIN: Duration = Duration::from_secs(30);

/// Asks devices through a backend.
#[derive(Debug, Clone)]
pub struct Caller {
    functions: HttpFunctions,
    token: Secret<String>,
}

/// What to ask for.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The id, made by us so that asking twice is asking once.
    pub id: RequestId,
    /// The tool.
    pub tool: String,
    /// Its arguments as JSON text.
    pub args: String,
    /// The conversation, if it belongs to one.
    pub conversation: Option<String>,
    /// Whether we listen for progress from the start.
    pub progress: bool,
    /// When it was signed, in milliseconds since 1970, and the signature, where it is.
    pub signed: Option<(i64, String)>,
}

/// A stored result.
#[derive(Debug, Clone)]
pub struct Answer {
    /// `ok`, `error` or `cancelled`.
    pub outcome: String,
    /// `{toolName, result? | error?, meta}`.
    pub payload: Value,
}

/// Something that a running request had to show.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// Its place.
    pub n: f64,
    /// What was printed since the piece before.
    pub text: String,
    /// How much of that was left out in front of the text.
    pub omitted_bytes: u64,
}

impl Answer {
    /// The text for the model: the result's or the error's; a JSON result as JSON.
    pub fn text(&self) -> String {
        let body = self.payload.get("result").or_else(|| self.payload.get("error"));
        match body {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => String::new(),
        }
    }
}

/// Milliseconds as the wire wants them: a float.
#[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 are far below 2^53")]
fn millis(ms: i64) -> Value {
    json!(ms as f64)
}

impl Caller {
    /// A caller with this token.
    pub fn new(functions: HttpFunctions, token: Secret<String>) -> Self {
        Self { functions, token }
    }

    async fn call<const N: usize>(
        &self,
        kind: FunctionKind,
        path: &str,
        fields: [(&str, Option<Value>); N],
    ) -> Result<Value, BackendError> {
        let mut args: Map<String, Value> =
            fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect();
        args.insert("callerToken".to_owned(), json!(self.token.expose()));
        self.functions.call(kind, path, &Value::Object(args), Duration::ZERO).await
    }

    /// Stores a request for a device.
    pub async fn append(&self, device: &DeviceId, ask: &Ask) -> Result<(), BackendError> {
        let fields = [
            ("requestId", Some(json!(ask.id.as_str()))),
            ("deviceId", Some(json!(device.as_str()))),
            ("toolName", Some(json!(ask.tool))),
            ("args", Some(json!(ask.args))),
            ("conversationId", ask.conversation.as_ref().map(|id| json!(id))),
            ("progress", ask.progress.then_some(Value::Bool(true))),
            ("issuedAtMs", ask.signed.as_ref().map(|(issued, _)| millis(*issued))),
            ("signature", ask.signed.as_ref().map(|(_, signature)| json!(signature))),
        ];
        self.call(FunctionKind::Mutation, "events:appendRequest", fields).await.map(drop)
    }

    /// Takes a request back; answers `cancelling`, `finished` or `unknown`.
    pub async fn cancel(&self, id: &RequestId) -> Result<String, BackendError> {
        let answer = self
            .call(FunctionKind::Mutation, "events:cancel", [("requestId", Some(json!(id.as_str())))])
            .await?;
        Ok(answer.get("state").and_then(Value::as_str).unwrap_or("unknown").to_owned())
    }

    /// The result, once there is one.
    pub async fn result(&self, id: &RequestId) -> Result<Option<Answer>, BackendError> {
        let row = self
            .call(FunctionKind::Query, "events:getResult", [("requestId", Some(json!(id.as_str())))])
            .await?;
        if row.is_null() {
            return Ok(None);
        }
        let text = row.get("payload").and_then(Value::as_str).unwrap_or_default();
        Ok(Some(Answer {
            outcome: row.get("outcome").and_then(Value::as_str).unwrap_or("error").to_owned(),
            payload: serde_json::from_str(text).unwrap_or_else(|_| json!({"error": text})),
        }))
    }

    /// Says that we listen for a request's progress, for the next minute.
    async fn watch_progress(&self, id: &RequestId) -> Result<(), BackendError> {
        let fields = [("requestId", Some(json!(id.as_str())))];
        self.call(FunctionKind::Mutation, "events:watchProgress", fields).await.map(drop)
    }

    /// What a request has to show after the piece of this number, in order.
    pub async fn progress(&self, id: &RequestId, after: Option<f64>) -> Result<Vec<Piece>, BackendError> {
        let fields = [("requestId", Some(json!(id.as_str()))), ("after", after.map(|n| json!(n)))];
        let rows = self.call(FunctionKind::Query, "events:listProgress", fields).await?;
        let piece = |row: &Value| {
            let data: Value = serde_json::from_str(row.get("data")?.as_str()?).unwrap_or_default();
            Some(Piece {
                n: row.get("n")?.as_f64()?,
                text: data.get("text").and_then(Value::as_str).unwrap_or_default().to_owned(),
                omitted_bytes: data.get("omittedBytes").and_then(Value::as_u64).unwrap_or(0),
            })
        };
        Ok(rows.as_array().into_iter().flatten().filter_map(piece).collect())
    }

    /// Waits for the result, at most this long. Looks often at first and more seldom as time goes by.
    pub async fn wait(&self, id: &RequestId, limit: Duration) -> Result<Option<Answer>, BackendError> {
        self.watch(id, limit, None).await
    }

    /// The same, and hands on what the request has to show meanwhile.
    pub async fn watch(
        &self,
        id: &RequestId,
        limit: Duration,
        mut show: Option<&mut (dyn FnMut(&Piece) + Send)>,
    ) -> Result<Option<Answer>, BackendError> {
        let deadline = Instant::now() + limit;
        let mut said = Instant::now();
        let mut pause = Duration::from_millis(2);
        let mut seen = None;
        loop {
            // Asked before the result is, so that what came before the result is shown before it.
            if let Some(show) = &mut show {
                if said.elapsed() >= WATCH_AGAIN {
                    said = Instant::now();
                    self.watch_progress(id).await?;
                }
                for piece in self.progress(id, seen).await? {
                    seen = Some(piece.n);
                    show(&piece);
                }
            }
            if let Some(answer) = self.result(id).await? {
                return Ok(Some(answer));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            tokio::time::sleep(pause.min(left)).await;
            pause = (pause * 3 / 2).min(Duration::from_millis(500));
        }
    }

    /// The devices that the backend knows, with whether each is there.
    pub async fn devices(&self) -> Result<Vec<(String, bool)>, BackendError> {
        let rows = self.call(FunctionKind::Query, "devices:list", []).await?;
        let device = |row: &Value| {
            let id = row.get("deviceId").and_then(Value::as_str)?.to_owned();
            Some((id, row.get("online").and_then(Value::as_bool).unwrap_or(false)))
        };
        Ok(rows.as_array().into_iter().flatten().filter_map(device).collect())
    }
}
