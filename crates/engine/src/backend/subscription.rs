//! Subscriptions by Convex's sync protocol: queries on a socket, and each new value of them.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::http::header::{HeaderName, HeaderValue};

use super::dial::{DialedSocket, WebSocketDialer};
use super::error::{BackendError, FunctionRefusal};
use super::http::HttpFunctions;

/// The longest message that a caller reads: a page of progress, or a result.
const MOST_BYTES: usize = 16 << 20;

/// The socket is given up after this much silence. The backend sends something every 15 s.
const SILENCE_LIMIT: Duration = Duration::from_mins(1);

/// The time limit for writing a message.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// A socket for query subscriptions.
pub struct SyncSocket {
    socket: DialedSocket,
    dialer: Arc<WebSocketDialer>,
    /// The version of the query set; each change increments it.
    version: u32,
    last_heard_at: Instant,
}

/// A query's number with its new value, or with the error that replaces it.
pub type QueryChange = (u32, Result<Value, BackendError>);

impl HttpFunctions {
    /// Opens a socket to the same deployment for query subscriptions.
    ///
    /// # Errors
    /// [`BackendError`], as for an HTTP call to the same address.
    pub async fn open_sync_socket(&self) -> Result<SyncSocket, BackendError> {
        let dialer = self
            .sync_socket_dialer(MOST_BYTES)
            .map_err(|bad| BackendError::BadCall {
                status: 0,
                message: bad.to_string(),
            })?;
        SyncSocket::open_with_dialer(Arc::new(dialer)).await
    }
}

impl SyncSocket {
    pub(super) async fn open_with_dialer(
        dialer: Arc<WebSocketDialer>,
    ) -> Result<Self, BackendError> {
        let client = HeaderValue::from_static(concat!("punie-runner-", env!("CARGO_PKG_VERSION")));
        let socket = dialer
            .open_socket(None, &[(HeaderName::from_static("convex-client"), client)])
            .await?;
        let mut opened = Self {
            socket,
            dialer,
            version: 0,
            last_heard_at: Instant::now(),
        };
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0.0, |age| age.as_secs_f64() * 1e3);
        // The runner sends no mutations here, so there is no session to resume.
        let session = uuid::Uuid::new_v4().to_string();
        opened
            .send_message(&json!({
                "type": "Connect",
                "sessionId": session,
                "connectionCount": 0,
                "lastCloseReason": "InitialConnect",
                "clientTs": now,
            }))
            .await?;
        Ok(opened)
    }

    /// Unsubscribes from the queries of these numbers and subscribes to others, each given by number, path and
    /// arguments.
    ///
    /// # Errors
    /// The socket is closed.
    pub async fn replace_queries(
        &mut self,
        removed: &[u32],
        added: &[(u32, &str, Value)],
    ) -> Result<(), BackendError> {
        let base = self.version;
        self.version += 1;
        let removed = removed
            .iter()
            .map(|id| json!({"type": "Remove", "queryId": id}));
        let added = added
            .iter()
            .map(|(id, path, args)| json!({"type": "Add", "queryId": id, "udfPath": path, "args": [args]}));
        let changes: Vec<Value> = removed.chain(added).collect();
        self.send_message(&json!({
            "type": "ModifyQuerySet",
            "baseVersion": base,
            "newVersion": self.version,
            "modifications": changes,
        }))
        .await
    }

    /// Waits for new values; values of one commit arrive together. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The socket is closed, silent, or speaks another protocol.
    pub async fn next_query_changes(&mut self) -> Result<Vec<QueryChange>, BackendError> {
        loop {
            let silent_at = self.last_heard_at + SILENCE_LIMIT;
            let message = tokio::select! {
                message = self.socket.next() => message,
                () = tokio::time::sleep_until(silent_at) => {
                    let why = format!("the sync socket said nothing for {} s", SILENCE_LIMIT.as_secs());
                    return Err(self.dialer.unreachable_error(&why));
                }
            };
            match message {
                Some(Ok(Message::Text(text))) => {
                    self.last_heard_at = Instant::now();
                    let changes = self.parse_changes(text.as_str())?;
                    if !changes.is_empty() {
                        return Ok(changes);
                    }
                }
                Some(Ok(Message::Close(frame))) => {
                    return Err(self.dialer.close_error(frame.as_ref()));
                }
                // WebSocket pings only show that a proxy is alive, not the backend behind it.
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(self.dialer.unreachable_error(&error.to_string())),
                None => return Err(self.dialer.close_error(None)),
            }
        }
    }

    async fn send_message(&mut self, message: &Value) -> Result<(), BackendError> {
        let sending = self.socket.send(Message::text(message.to_string()));
        match tokio::time::timeout(WRITE_TIMEOUT, sending).await {
            Ok(sent) => sent.map_err(|cause| self.dialer.unreachable_error(&cause.to_string())),
            Err(_elapsed) => Err(self
                .dialer
                .unreachable_error("the sync socket takes nothing")),
        }
    }

    /// Returns the query changes in a message.
    fn parse_changes(&self, text: &str) -> Result<Vec<QueryChange>, BackendError> {
        let mut message: Value = serde_json::from_str(text).map_err(|cause| {
            self.protocol_error(&format!("a message that is not JSON ({cause})"))
        })?;
        match message["type"].as_str() {
            Some("Transition") => {
                let changes = message
                    .get_mut("modifications")
                    .and_then(Value::as_array_mut);
                Ok(changes
                    .into_iter()
                    .flatten()
                    .filter_map(parse_query_change)
                    .collect())
            }
            Some("FatalError" | "AuthError") => Err(BackendError::Function {
                message: short_field(&message, "error"),
            }),
            Some(_) => Ok(Vec::new()),
            None => Err(self.protocol_error("a message without a type")),
        }
    }

    fn protocol_error(&self, cause: &str) -> BackendError {
        BackendError::Intercepted {
            url: self.dialer.url().to_owned(),
            cause: cause.to_owned(),
        }
    }
}

fn parse_query_change(change: &mut Value) -> Option<QueryChange> {
    let id = u32::try_from(change["queryId"].as_u64()?).ok()?;
    match change["type"].as_str()? {
        "QueryUpdated" => Some((id, Ok(change["value"].take()))),
        "QueryFailed" => Some((id, Err(parse_query_failure(change)))),
        _ => None,
    }
}

/// The function refused, for example because the session is closed.
fn parse_query_failure(change: &Value) -> BackendError {
    let message = short_field(change, "errorMessage");
    match change["errorData"]["code"].as_str() {
        Some(code) => {
            let code = code.to_owned();
            BackendError::Refused(FunctionRefusal {
                code,
                message,
                limit: None,
                server_now_ms: None,
            })
        }
        None => BackendError::Function { message },
    }
}

fn short_field(value: &Value, key: &str) -> String {
    let text = value[key].as_str().unwrap_or_default();
    text.chars().take(200).collect()
}
