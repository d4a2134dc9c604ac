//! A client of the caller's functions, for `send`, `cancel` and `demo`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::answer_watch::{AnswerWatch, poll_intervals};
use super::console;
use punie_core::ids::{DeviceId, RequestId};
use punie_engine::backend::{
    BackendError, FunctionKind, HttpFunctions, RecoveryAction, SyncSocket, omit_nulls,
};
use punie_text::redact::Secret;
use punie_tool::request::{RequestSession, untold_notes};

/// A caller of tools on devices, through a backend.
#[derive(Debug, Clone)]
pub struct CallerClient {
    functions: HttpFunctions,
    token: Secret<String>,
}

/// A request for a device.
#[derive(Debug, Clone)]
pub struct CallerRequest {
    /// The id, created here so that a repeated request counts once.
    pub id: RequestId,
    pub tool: String,
    /// Its arguments as JSON text.
    pub args: String,
    /// The conversation, if there is one.
    pub conversation: Option<String>,
    /// The session of the client that asks, if it has folders.
    pub session: Option<RequestSession>,
    /// Request progress from the start.
    pub progress: bool,
    /// The time of signing in milliseconds since 1970, and the signature, if signed.
    pub signed: Option<(i64, String)>,
}

/// A stored result.
#[derive(Debug, Clone)]
pub struct CallerAnswer {
    /// `ok`, `error` or `cancelled`.
    pub outcome: String,
    /// `{toolName, result? | error?, meta}`.
    pub payload: Value,
}

/// A piece of progress of a running request.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputPiece {
    /// Its number.
    pub n: f64,
    /// The output since the previous piece.
    pub text: String,
    /// The number of bytes omitted before the text.
    pub omitted_bytes: u64,
}

impl CallerAnswer {
    /// Parses a row of the backend; `None` if there is no row yet.
    pub(super) fn from_result_row(row: &Value) -> Option<Self> {
        if row.is_null() {
            return None;
        }
        let text = row["payload"].as_str().unwrap_or_default();
        Some(Self {
            outcome: row["outcome"].as_str().unwrap_or("error").to_owned(),
            payload: serde_json::from_str(text).unwrap_or_else(|_| json!({"error": text})),
        })
    }

    /// Returns the text for the model: the result or the error; a JSON result as JSON.
    pub fn text(&self) -> String {
        let body = self
            .payload
            .get("result")
            .or_else(|| self.payload.get("error"));
        match body {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => String::new(),
        }
    }
}

impl CallerAnswer {
    /// Prints the remarks that the text does not have.
    pub fn print_notes(&self) {
        if let Some(notes) = untold_notes(&self.payload) {
            console::print_stderr(&format!("{notes}\n"));
        }
    }
}

impl OutputPiece {
    /// Parses a row of the backend, if it is valid.
    pub(super) fn from_progress_row(row: &Value) -> Option<Self> {
        let data: Value = serde_json::from_str(row.get("data")?.as_str()?).unwrap_or_default();
        Some(Self {
            n: row.get("n")?.as_f64()?,
            text: data["text"].as_str().unwrap_or_default().to_owned(),
            omitted_bytes: data["omittedBytes"].as_u64().unwrap_or(0),
        })
    }
}

impl CallerClient {
    /// Creates a caller with this token.
    pub fn new(functions: HttpFunctions, token: Secret<String>) -> Self {
        Self { functions, token }
    }

    /// Adds the token to a function's arguments. Absent ones (null) are omitted.
    fn with_token(&self, mut args: Value) -> Value {
        args["callerToken"] = json!(self.token.expose());
        omit_nulls(args)
    }

    async fn call_with_token(
        &self,
        kind: FunctionKind,
        path: &str,
        args: Value,
    ) -> Result<Value, BackendError> {
        self.functions
            .call_function(kind, path, &self.with_token(args), Duration::ZERO)
            .await
    }

    /// Stores a request for a device.
    pub async fn append_request(
        &self,
        device: &DeviceId,
        ask: &CallerRequest,
    ) -> Result<(), BackendError> {
        let (issued_at_ms, signature) = ask.signed.as_ref().map(|(at, text)| (at, text)).unzip();
        #[expect(
            clippy::cast_precision_loss,
            reason = "milliseconds since 1970 are far below 2^53"
        )]
        let issued_at_ms = issued_at_ms.map(|ms| *ms as f64);
        let args = json!({
            "requestId": ask.id.as_str(),
            "deviceId": device.as_str(),
            "toolName": ask.tool,
            "args": ask.args,
            "conversationId": ask.conversation,
            "session": ask.session,
            "progress": ask.progress.then_some(true),
            "issuedAtMs": issued_at_ms,
            "signature": signature,
        });
        self.call_with_token(FunctionKind::Mutation, "events:appendRequest", args)
            .await
            .map(drop)
    }

    /// Stores a request for a device, and tries again while the backend is away.
    ///
    /// # Errors
    /// The backend refuses, or is away when the time is over.
    pub async fn append_within(
        &self,
        device: &DeviceId,
        ask: &CallerRequest,
        limit: Duration,
    ) -> Result<(), BackendError> {
        let begun = Instant::now();
        let mut pauses = poll_intervals();
        let mut is_away = false;
        loop {
            let sent = self.append_request(device, ask).await;
            let pause = pauses.next().unwrap_or(limit);
            match sent {
                Err(error)
                    if matches!(error.recovery_action(), RecoveryAction::Retry(_))
                        && begun.elapsed() + pause < limit =>
                {
                    if !is_away {
                        tracing::warn!(%error, "the request is sent again until the wait ends");
                    }
                    is_away = true;
                    tokio::time::sleep(pause).await;
                }
                ended => return ended,
            }
        }
    }

    /// Returns the schema of a tool in the device's catalog, if it has one.
    pub async fn tool_schema(
        &self,
        device: &DeviceId,
        tool: &str,
    ) -> Result<Option<Value>, BackendError> {
        let bodies = self.list_catalog(device, "tool").await?.into_iter();
        let mut found = bodies.filter(|body| body["name"] == tool);
        Ok(found.next().map(|mut body| body["schema"].take()))
    }

    /// Lists the readable entries of one kind in the device's catalog.
    pub(super) async fn list_catalog(
        &self,
        device: &DeviceId,
        kind: &str,
    ) -> Result<Vec<Value>, BackendError> {
        let args = json!({"deviceId": device.as_str(), "kind": kind});
        let items = self
            .call_with_token(FunctionKind::Query, "catalog:list", args)
            .await?;
        let body = |item: &Value| serde_json::from_str(item["body"].as_str()?).ok();
        Ok(items
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(body)
            .collect())
    }

    /// Lists the open questions about this device's calls. The device asks a caller who has done so lately.
    pub(super) async fn list_questions(&self, device: &DeviceId) -> Result<Value, BackendError> {
        let args = json!({"deviceId": device.as_str()});
        self.call_with_token(FunctionKind::Query, "permissions:pending", args)
            .await
    }

    pub(super) async fn answer_question(
        &self,
        question: &str,
        option: &str,
        text: Option<&str>,
    ) -> Result<(), BackendError> {
        let args = json!({"permissionId": question, "optionId": option, "text": text});
        self.call_with_token(FunctionKind::Mutation, "permissions:answer", args)
            .await
            .map(drop)
    }

    /// Returns whether the token may approve calls. No caller counts as listening because of this.
    pub(super) async fn may_approve(&self) -> Result<bool, BackendError> {
        let unknown = RequestId::new();
        let answered = self.answer_question(unknown.as_str(), "none", None).await;
        match answered {
            Err(error) if error.refusal_code() == Some("CALLER_UNAUTHORIZED") => Ok(false),
            Err(error) if error.refusal_code() == Some("REQUEST_UNKNOWN") => Ok(true),
            answered => answered.map(|()| true),
        }
    }

    /// Cancels a request; returns `cancelling`, `finished` or `unknown`.
    pub async fn cancel_request(&self, id: &RequestId) -> Result<String, BackendError> {
        let answer = self
            .call_with_token(
                FunctionKind::Mutation,
                "events:cancel",
                json!({"requestId": id.as_str()}),
            )
            .await?;
        Ok(answer["state"].as_str().unwrap_or("unknown").to_owned())
    }

    /// Returns the result, once there is one.
    pub async fn fetch_result(&self, id: &RequestId) -> Result<Option<CallerAnswer>, BackendError> {
        let row = self
            .call_with_token(
                FunctionKind::Query,
                "events:getResult",
                json!({"requestId": id.as_str()}),
            )
            .await?;
        Ok(CallerAnswer::from_result_row(&row))
    }

    /// Opens a socket for subscribing to queries about a request.
    pub(super) async fn open_sync_socket(&self) -> Result<SyncSocket, BackendError> {
        self.functions.open_sync_socket().await
    }

    /// Builds the arguments of a query about a request.
    pub(super) fn query_args(&self, id: &RequestId, after: Option<f64>) -> Value {
        self.with_token(json!({"requestId": id.as_str(), "after": after}))
    }

    /// Requests progress for the next minute.
    pub(super) async fn watch_progress(&self, id: &RequestId) -> Result<(), BackendError> {
        let args = json!({"requestId": id.as_str()});
        self.call_with_token(FunctionKind::Mutation, "events:watchProgress", args)
            .await
            .map(drop)
    }

    /// Returns the pieces of progress after this number, in order.
    pub(super) async fn fetch_progress(
        &self,
        id: &RequestId,
        after: Option<f64>,
    ) -> Result<Value, BackendError> {
        let args = json!({"requestId": id.as_str(), "after": after});
        self.call_with_token(FunctionKind::Query, "events:listProgress", args)
            .await
    }

    /// Waits for the result up to this limit.
    pub async fn wait_for_answer(
        &self,
        id: &RequestId,
        limit: Duration,
    ) -> Result<Option<CallerAnswer>, BackendError> {
        self.watch_for_answer(id, limit, None).await
    }

    /// Waits for the result and shows the progress meanwhile; also while the backend is away.
    ///
    /// # Errors
    /// The backend refuses, or is away when the time is over.
    pub async fn watch_for_answer<'a>(
        &'a self,
        id: &'a RequestId,
        limit: Duration,
        show: Option<&'a mut (dyn FnMut(&OutputPiece) + Send)>,
    ) -> Result<Option<CallerAnswer>, BackendError> {
        let mut watching = AnswerWatch::new(self, id, show);
        match tokio::time::timeout(limit, watching.wait_until_answered()).await {
            Ok(answered) => answered.map(Some),
            Err(_elapsed) => watching.into_away_error().map_or(Ok(None), Err),
        }
    }

    /// Lists the devices that are not revoked, each with its name, platform and last heartbeat.
    pub async fn list_devices(&self) -> Result<Value, BackendError> {
        self.call_with_token(FunctionKind::Query, "devices:list", json!({}))
            .await
    }

    /// Lists the devices that the backend knows, and whether each is online.
    pub async fn list_known_devices(&self) -> Result<Vec<(String, bool)>, BackendError> {
        let rows = self.list_devices().await?;
        let device = |row: &Value| {
            let id = row["deviceId"].as_str()?.to_owned();
            Some((id, row["online"].as_bool().unwrap_or(false)))
        };
        Ok(rows
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(device)
            .collect())
    }
}
