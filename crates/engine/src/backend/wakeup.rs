//! The wake-up socket: a subscription to the device's newest event (`events:head`). Every message on it means "poll
//! now" and carries no event. So a socket that lies, stalls or breaks loses nothing.
//! Not here: the protocol (`subscription`), the times at which it is opened and the limit on wake-ups (`runner`).

use std::convert::Infallible;
use std::sync::Arc;

use serde_json::json;
use tokio::sync::watch;

use super::dial::WebSocketDialer;
use super::error::{BackendError, FunctionRefusal};
use super::subscription::SyncSocket;
use punie_core::ids::DeviceId;
use punie_text::redact::Secret;

/// The longest message that is accepted: the subscribed value is one number.
pub(super) const MOST_BYTES: usize = 1 << 20;

/// The session's current token.
pub(super) type SessionToken = watch::Receiver<Option<Secret<String>>>;

/// Subscribes, and calls `heard` for the first answer and each later one. Returns the reason when the socket ends.
pub(super) async fn listen_on_socket(
    dialer: Arc<WebSocketDialer>,
    device: &DeviceId,
    mut token: SessionToken,
    heard: &(dyn Fn() + Send + Sync),
) -> BackendError {
    match subscribe_to_head(dialer, device, &mut token, heard).await {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

async fn subscribe_to_head(
    dialer: Arc<WebSocketDialer>,
    device: &DeviceId,
    token: &mut SessionToken,
    heard: &(dyn Fn() + Send + Sync),
) -> Result<Infallible, BackendError> {
    let mut socket = SyncSocket::open_with_dialer(dialer).await?;
    // Each token gets a new query number.
    let mut query = 0;
    loop {
        let now = token
            .borrow_and_update()
            .clone()
            .ok_or_else(no_session_error)?;
        let args = json!({ "deviceId": device.as_str(), "token": now.expose() });
        let removed: &[u32] = if query == 0 { &[] } else { &[query] };
        socket
            .replace_queries(removed, &[(query + 1, "events:head", args)])
            .await?;
        query += 1;
        loop {
            tokio::select! {
                changes = socket.next_query_changes() => {
                    let ours = changes?.into_iter().rfind(|(id, _)| *id == query);
                    if let Some((_, value)) = ours {
                        value?;
                        heard();
                    }
                }
                Ok(()) = token.changed() => break,
            }
        }
    }
}

fn no_session_error() -> BackendError {
    BackendError::Refused(FunctionRefusal {
        code: "DEVICE_UNAUTHORIZED".to_owned(),
        message: "no session is open".to_owned(),
        limit: None,
        server_now_ms: None,
    })
}
