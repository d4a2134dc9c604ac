//! A client of the sync protocol. Like the official clients, it checks that a Transition starts at the version where
//! the last one ended.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};
use uuid::Uuid;

/// Longer than any message takes on a slow machine under load.
const PATIENCE: Duration = Duration::from_secs(90);
/// The path for clients that join the parts of long messages.
pub const NPM: &str = "/api/1.48.0/sync";
/// The path for clients that do not.
pub const OTHERS: &str = "/api/sync";

pub struct SyncSocket {
    ws: WebSocketStream<TcpStream>,
    version: Value,
}

/// Decodes a time of the commit clock into a number that can be compared.
pub fn parse_timestamp(ts: &Value) -> u64 {
    use base64::Engine as _;
    let text = ts.as_str().unwrap_or_else(|| panic!("no timestamp: {ts}"));
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(text)
        .expect("base64");
    u64::from_le_bytes(bytes.try_into().expect("8 bytes"))
}

/// Encodes a time of the commit clock.
pub fn format_timestamp(time: u64) -> Value {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD
        .encode(time.to_le_bytes())
        .into()
}

/// Opens a socket with these headers beside the required ones.
pub async fn open_socket(
    url: &str,
    path: &str,
    headers: &[(&'static str, &str)],
) -> Result<SyncSocket, Error> {
    let address = url.strip_prefix("http://").expect("plain http");
    let mut request = format!("ws://{address}{path}").into_client_request()?;
    for (name, value) in headers {
        request
            .headers_mut()
            .insert(*name, value.parse().expect("a header"));
    }
    let stream = TcpStream::connect(address).await.expect("it listens");
    let (ws, _) = tokio_tungstenite::client_async(request, stream).await?;
    Ok(SyncSocket {
        ws,
        version: json!({ "querySet": 0, "identity": 0, "ts": format_timestamp(0) }),
    })
}

impl SyncSocket {
    /// Opens a socket and sends nothing yet.
    pub async fn open(url: &str, path: &str) -> Self {
        open_socket(url, path, &[]).await.expect("a socket")
    }

    /// Opens a socket and connects it to a new session.
    pub async fn connected(url: &str) -> Self {
        Self::of_session(url, NPM, Uuid::new_v4()).await
    }

    /// Opens a socket and connects it to this session.
    pub async fn of_session(url: &str, path: &str, session: Uuid) -> Self {
        let mut socket = Self::open(url, path).await;
        let session = session.to_string();
        socket.say(&json!({ "type": "Connect", "sessionId": session, "connectionCount": 0, "lastCloseReason": null, "clientTs": 0 })).await;
        socket
    }

    pub async fn say(&mut self, message: &Value) {
        self.send(Message::text(message.to_string())).await;
    }

    pub async fn send(&mut self, message: Message) {
        self.try_send(message).await.expect("the server listens");
    }

    pub async fn try_send(&mut self, message: Message) -> Result<(), Error> {
        self.ws.send(message).await
    }

    /// Requests changes to the current version of the query set.
    pub async fn modify(&mut self, changes: Value) {
        let base = self.version["querySet"].as_u64().expect("a number");
        let message = json!({
            "type": "ModifyQuerySet", "baseVersion": base, "newVersion": base + 1, "modifications": changes,
        });
        self.say(&message).await;
    }

    /// Subscribes to a query and returns the Transition that follows.
    pub async fn subscribe(&mut self, query_id: u32, path: &str, args: Value) -> Value {
        self.modify(json!([add_query(query_id, path, args)])).await;
        self.transition().await
    }

    pub async fn mutate(&mut self, request_id: u32, path: &str, args: &Value) {
        let message =
            json!({ "type": "Mutation", "requestId": request_id, "udfPath": path, "args": [args] });
        self.say(&message).await;
    }

    /// Returns the next message, Pings included, or `None` when the server has closed the socket.
    pub async fn hear(&mut self) -> Option<Value> {
        let message = self.frame().await?;
        let mut message: Value = serde_json::from_str(&message).expect("JSON");
        if message["type"] == "Transition" {
            assert_eq!(
                message["startVersion"], self.version,
                "a Transition starts where the last one ended"
            );
            assert!(
                parse_timestamp(&message["endVersion"]["ts"])
                    >= parse_timestamp(&self.version["ts"]),
                "{message}"
            );
            self.version = message["endVersion"].clone();
        }
        Some(message.take())
    }

    /// Returns the text of the next message.
    pub async fn frame(&mut self) -> Option<String> {
        loop {
            match timeout(PATIENCE, self.ws.next())
                .await
                .expect("a message in time")
            {
                Some(Ok(Message::Text(text))) => return Some(text.to_string()),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                Some(Ok(other)) => panic!("{other:?}"),
            }
        }
    }

    /// Returns the next message, which must be of this type.
    pub async fn expect(&mut self, kind: &str) -> Value {
        let message = self
            .hear()
            .await
            .unwrap_or_else(|| panic!("closed instead of a {kind}"));
        assert_eq!(message["type"], kind, "{message}");
        message
    }

    pub async fn transition(&mut self) -> Value {
        self.expect("Transition").await
    }

    /// Waits until the server closes the socket and returns its reason.
    pub async fn closed(&mut self) -> String {
        loop {
            match timeout(PATIENCE, self.ws.next())
                .await
                .expect("an end in time")
            {
                Some(Ok(Message::Close(Some(frame)))) => return frame.reason.to_string(),
                Some(Ok(Message::Close(None)) | Err(_)) | None => return String::new(),
                Some(Ok(_)) => {}
            }
        }
    }
}

/// Returns the modification that adds a query.
pub fn add_query(query_id: u32, path: &str, args: Value) -> Value {
    json!({ "type": "Add", "queryId": query_id, "udfPath": path, "args": Value::Array(vec![args]) })
}

/// Returns the value that a Transition has for a query.
pub fn query_value(transition: &Value, query_id: u32) -> Option<&Value> {
    let changes = transition["modifications"]
        .as_array()
        .expect("modifications");
    changes
        .iter()
        .find(|change| change["queryId"] == query_id)
        .map(|change| &change["value"])
}
