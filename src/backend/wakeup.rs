//! The wake-up socket: a subscription to the device's newest event (`events:head`) by Convex's sync protocol. All that is
//! heard on it means "poll now"; no event comes this way, so that a socket that lies, stalls or dies loses nothing.
//! Not here: when it is opened and what a wake-up costs at most (runner).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::http::header::{HeaderName, HeaderValue};

use super::dial::{Dialer, Socket};
use super::error::{BackendError, Refusal};
use crate::ids::DeviceId;
use crate::redact::Secret;

/// The longest message that is read: a number is all that is subscribed to.
pub(super) const MOST_BYTES: usize = 1 << 20;

/// Silence after which the socket is given up. The backend says something every 15 s.
const SILENCE: Duration = Duration::from_mins(1);

/// Until a message is written.
const WRITE: Duration = Duration::from_secs(10);

/// The session's token, as it changes.
pub(super) type Token = watch::Receiver<Option<Secret<String>>>;

/// One subscription on one socket.
struct Subscription<'a> {
    socket: Socket,
    dialer: &'a Dialer,
    device: &'a DeviceId,
    /// Of the set of queries; each change makes the next. The query's own number is the same.
    version: u32,
}

/// Subscribes and calls `heard` for the first answer and for each further one, until the socket ends; says why it did.
pub(super) async fn listen(
    dialer: &Dialer,
    device: &DeviceId,
    mut token: Token,
    heard: &(dyn Fn() + Send + Sync),
) -> BackendError {
    match subscribe(dialer, device, &mut token, heard).await {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

async fn subscribe(
    dialer: &Dialer,
    device: &DeviceId,
    token: &mut Token,
    heard: &(dyn Fn() + Send + Sync),
) -> Result<std::convert::Infallible, BackendError> {
    let client = HeaderValue::from_static(concat!("punie-runner-", env!("CARGO_PKG_VERSION")));
    let socket = dialer.dial(None, &[(HeaderName::from_static("convex-client"), client)]).await?;
    let mut subscription = Subscription { socket, dialer, device, version: 0 };
    subscription.connect().await?;
    let first = token.borrow_and_update().clone();
    subscription.ask(first.as_ref()).await?;
    let mut last = Instant::now();
    loop {
        tokio::select! {
            message = subscription.socket.next() => match message {
                Some(Ok(Message::Text(text))) => {
                    last = Instant::now();
                    if subscription.is_news(text.as_str())? {
                        heard();
                    }
                }
                Some(Ok(Message::Close(frame))) => return Err(dialer.closed(frame.as_ref())),
                // Pings of the socket say that a proxy lives, and nothing of what is behind it.
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(dialer.unreachable(&error.to_string())),
                None => return Err(dialer.closed(None)),
            },
            Ok(()) = token.changed() => {
                let now = token.borrow_and_update().clone();
                subscription.ask(now.as_ref()).await?;
            }
            () = tokio::time::sleep_until(last + SILENCE) => {
                let seconds = SILENCE.as_secs();
                return Err(dialer.unreachable(&format!("the wake-up socket said nothing for {seconds} s")));
            }
        }
    }
}

impl Subscription<'_> {
    async fn connect(&mut self) -> Result<(), BackendError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |age| age.as_secs_f64() * 1e3);
        // Nothing is ever mutated here, so that no session has to be taken up again.
        let session = uuid::Uuid::new_v4().to_string();
        self.send(&json!({
            "type": "Connect",
            "sessionId": session,
            "connectionCount": 0,
            "lastCloseReason": "InitialConnect",
            "clientTs": now,
        }))
        .await
    }

    /// Subscribes with this token, in place of an earlier one.
    async fn ask(&mut self, token: Option<&Secret<String>>) -> Result<(), BackendError> {
        let token = token.ok_or_else(unauthorized)?;
        let base = self.version;
        self.version += 1;
        let mut changes = Vec::new();
        if base > 0 {
            changes.push(json!({"type": "Remove", "queryId": base}));
        }
        changes.push(json!({
            "type": "Add",
            "queryId": self.version,
            "udfPath": "events:head",
            "args": [{"deviceId": self.device.as_str(), "token": token.expose()}],
        }));
        self.send(&json!({
            "type": "ModifyQuerySet",
            "baseVersion": base,
            "newVersion": self.version,
            "modifications": changes,
        }))
        .await
    }

    async fn send(&mut self, message: &Value) -> Result<(), BackendError> {
        let sending = self.socket.send(Message::text(message.to_string()));
        match tokio::time::timeout(WRITE, sending).await {
            Ok(sent) => sent.map_err(|cause| self.dialer.unreachable(&cause.to_string())),
            Err(_elapsed) => Err(self.dialer.unreachable("the wake-up socket takes nothing")),
        }
    }

    /// Whether a message says that there may be something new.
    fn is_news(&self, text: &str) -> Result<bool, BackendError> {
        let message: Value = serde_json::from_str(text)
            .map_err(|cause| self.intercepted(&format!("a message that is not JSON ({cause})")))?;
        match message.get("type").and_then(Value::as_str) {
            Some("Transition") => {
                let changes = message.get("modifications").and_then(Value::as_array);
                let ours = |change: &&Value| change["queryId"].as_u64() == Some(u64::from(self.version));
                let Some(change) = changes.into_iter().flatten().rfind(ours) else { return Ok(false) };
                match change.get("type").and_then(Value::as_str) {
                    Some("QueryUpdated") => Ok(true),
                    Some("QueryFailed") => Err(failed(change)),
                    _ => Ok(false),
                }
            }
            Some("FatalError" | "AuthError") => {
                Err(BackendError::Function { message: words(&message, "error") })
            }
            Some(_) => Ok(false),
            None => Err(self.intercepted("a message without a type")),
        }
    }

    fn intercepted(&self, cause: &str) -> BackendError {
        BackendError::Intercepted { url: self.dialer.url().to_owned(), cause: cause.to_owned() }
    }
}

/// The function refused: perhaps because the session is closed.
fn failed(change: &Value) -> BackendError {
    let message = words(change, "errorMessage");
    match change["errorData"]["code"].as_str() {
        Some(code) => {
            let code = code.to_owned();
            BackendError::Refused(Refusal { code, message, limit: None, server_now_ms: None })
        }
        None => BackendError::Function { message },
    }
}

fn unauthorized() -> BackendError {
    BackendError::Refused(Refusal {
        code: "DEVICE_UNAUTHORIZED".to_owned(),
        message: "no session is open".to_owned(),
        limit: None,
        server_now_ms: None,
    })
}

fn words(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().chars().take(200).collect()
}
