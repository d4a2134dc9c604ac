//! A client's connection: receives its texts, sends messages whole or in chunks, pings a silent client, and says
//! goodbye.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::chunks;
use super::messages::ServerMessage;
use crate::failure::FunctionFailure;

/// The silence of the server after which it sends a Ping. Clients give up after 30 to 60 s.
const PING_EVERY: Duration = Duration::from_secs(15);
/// The silence after which a client counts as gone.
const CLIENT_SILENCE_LIMIT: Duration = Duration::from_mins(2);
/// The time that a client has to read one message.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);
/// The time to wait for the client's close.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(1);

/// The reason why a socket ends.
#[derive(Debug)]
pub(super) enum ConnectionEnd {
    /// The client closed it, or is unreachable.
    Gone,
    /// An injected fault: closed without a goodbye.
    Cut,
    /// The client violated the protocol; the official one then gives up for good.
    Fatal(String),
    /// The client's token is invalid.
    Unauthenticated(&'static str, u32),
    /// The server closes it, and the client may reconnect. The reason begins with a code.
    Closed(u16, String),
}

impl ConnectionEnd {
    /// Returns the end for an internal failure; the client reconnects and asks again.
    pub fn for_failure(failure: &FunctionFailure) -> Self {
        Self::Closed(1011, format!("InternalServerError: {failure}"))
    }
}

pub(super) struct ClientSocket {
    ws: WebSocket,
    /// True if the client joins the parts of a long Transition.
    joins_chunks: bool,
    stopping: CancellationToken,
    sent_at: Instant,
    /// The time of the first ping without an answer.
    pinged_at: Option<Instant>,
}

impl ClientSocket {
    pub fn new(ws: WebSocket, joins_chunks: bool, stopping: CancellationToken) -> Self {
        Self {
            ws,
            joins_chunks,
            stopping,
            sent_at: Instant::now(),
            pinged_at: None,
        }
    }

    /// Receives the next text; `None` for a ping or a pong. The caller may drop the future at any time.
    pub async fn receive_text(&mut self) -> Result<Option<Utf8Bytes>, ConnectionEnd> {
        let message = self.ws.recv().await;
        self.pinged_at = None;
        match message {
            Some(Ok(Message::Text(text))) => Ok(Some(text)),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(None),
            Some(Ok(Message::Binary(_))) => Err(ConnectionEnd::Fatal("messages are text".into())),
            Some(Err(broken)) => Err(ConnectionEnd::Closed(1002, format!("BadMessage: {broken}"))),
            None | Some(Ok(Message::Close(_))) => Err(ConnectionEnd::Gone),
        }
    }

    /// Returns the time at which the client must hear from us.
    pub fn next_ping_at(&self) -> Instant {
        self.sent_at + PING_EVERY
    }

    /// Sends a Transition, in parts if it is long and the client joins them.
    pub async fn send_transition_text(&mut self, text: String) -> Result<(), ConnectionEnd> {
        if !self.joins_chunks || text.len() <= chunks::CHUNK_BYTES {
            return self.send_frame(Message::Text(text.into())).await;
        }
        let id = Uuid::new_v4().to_string();
        let total_parts = chunks::split_into_parts(&text, chunks::CHUNK_BYTES).count();
        for (part_number, chunk) in chunks::split_into_parts(&text, chunks::CHUNK_BYTES).enumerate()
        {
            self.send_server_message(&ServerMessage::TransitionChunk {
                chunk,
                part_number,
                total_parts,
                transition_id: &id,
            })
            .await?;
        }
        Ok(())
    }

    /// Pings the client, unless it has been silent for too long.
    pub async fn ping(&mut self) -> Result<(), ConnectionEnd> {
        let pinged_at = *self.pinged_at.get_or_insert_with(Instant::now);
        if pinged_at.elapsed() >= CLIENT_SILENCE_LIMIT {
            return Err(ConnectionEnd::Closed(
                1001,
                "SilentClient: no ping was answered for 2 minutes".into(),
            ));
        }
        // The first is answered by the client's WebSocket library, the second is for the client's own timer.
        self.send_frame(Message::Ping(Bytes::new())).await?;
        self.send_server_message(&ServerMessage::Ping).await
    }

    /// Sends a message of the protocol.
    pub async fn send_server_message(
        &mut self,
        message: &ServerMessage<'_>,
    ) -> Result<(), ConnectionEnd> {
        self.send_frame(Message::Text(message.to_text().into()))
            .await
    }

    /// Sends a message. Until it is written, the socket does nothing else, so no queue builds up.
    async fn send_frame(&mut self, message: Message) -> Result<(), ConnectionEnd> {
        let sent = tokio::select! {
            biased;
            sent = timeout(SEND_TIMEOUT, self.ws.send(message)) => sent,
            () = self.stopping.cancelled() => return Err(ConnectionEnd::Gone),
        };
        self.sent_at = Instant::now();
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(ConnectionEnd::Gone),
        }
    }

    /// Closes the connection as the end requires, and waits a moment for the client's close.
    pub async fn say_goodbye(mut self, end: ConnectionEnd) {
        let (last_message, frame) = match end {
            ConnectionEnd::Cut => return,
            ConnectionEnd::Gone => (None, None),
            ConnectionEnd::Fatal(error) => (
                Some(ServerMessage::FatalError { error: &error }.to_text()),
                Some((1002, error)),
            ),
            ConnectionEnd::Unauthenticated(error, base_version) => {
                let message = ServerMessage::AuthError {
                    error,
                    base_version,
                    auth_update_attempted: true,
                };
                (Some(message.to_text()), Some((1000, error.to_owned())))
            }
            ConnectionEnd::Closed(code, reason) => (None, Some((code, reason))),
        };
        let goodbye = async {
            if let Some(text) = last_message {
                drop(self.ws.send(Message::Text(text.into())).await);
            }
            if let Some((code, reason)) = frame {
                // A reason has at most 123 bytes.
                let reason = reason[..reason.floor_char_boundary(120)].into();
                drop(
                    self.ws
                        .send(Message::Close(Some(CloseFrame { code, reason })))
                        .await,
                );
            }
            while let Some(Ok(_)) = self.ws.recv().await {}
        };
        drop(timeout(GOODBYE_TIMEOUT, goodbye).await);
    }
}
