//! The task of one open socket: it receives frames, sends results and pings, and answers pings.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::AsyncReadExt as _;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Bytes, Error, Message, protocol::CloseFrame};

use super::frames::{self, ParsedFrame};
use super::inbox::CallInbox;
use crate::backend::dial::{DialedSocket, WebSocketDialer};
use crate::backend::error::BackendError;

/// The time limit for writing one frame. A slower peer does not read.
const FRAME_TIMEOUT: Duration = Duration::from_secs(30);

/// The time for which unread input is still accepted while closing, so that the peer receives the close reason.
const LINGER: Duration = Duration::from_secs(3);

/// The ping intervals.
#[derive(Debug, Clone, Copy)]
pub(super) struct PingPolicy {
    /// Silence after which a ping is sent.
    pub idle: Duration,
    /// Silence after a ping that ends the connection.
    pub patience: Duration,
}

/// A command to the socket's task.
pub(super) enum SocketCommand {
    /// Send this text, if any, and then a ping. `done` fires when that ping is answered: everything sent before it has
    /// then arrived.
    SendConfirmed(Option<String>, oneshot::Sender<()>),
    /// Send this text without waiting for a confirmation.
    SendUnconfirmed(String),
    Close,
}

/// The task that owns one socket.
pub(super) struct SocketTask {
    socket: DialedSocket,
    dialer: Arc<WebSocketDialer>,
    inbox: Arc<CallInbox>,
    orders: mpsc::Receiver<SocketCommand>,
    pace: PingPolicy,
    /// The number of the last ping; each ping carries its number.
    pings: u64,
    /// The senders that wait for an answer to a ping, oldest first.
    waiting: VecDeque<(u64, oneshot::Sender<()>)>,
    /// The time of the first ping without a pong so far.
    asked: Option<Instant>,
    /// The time of the last received message.
    heard: Instant,
}

/// The reason why a socket ended.
type SocketEnd = BackendError;

impl SocketTask {
    pub(super) fn new(
        socket: DialedSocket,
        dialer: Arc<WebSocketDialer>,
        inbox: Arc<CallInbox>,
        orders: mpsc::Receiver<SocketCommand>,
        pace: PingPolicy,
    ) -> Self {
        let waiting = VecDeque::new();
        let heard = Instant::now();
        Self {
            socket,
            dialer,
            inbox,
            orders,
            pace,
            pings: 0,
            waiting,
            asked: None,
            heard,
        }
    }

    /// Runs until the socket ends, and returns the reason. Senders that wait for a pong get an error.
    pub(super) async fn run_until_closed(mut self) -> SocketEnd {
        loop {
            if let Err(end) = self.run_step().await {
                return end;
            }
        }
    }

    async fn run_step(&mut self) -> Result<(), SocketEnd> {
        let reads = self.inbox.has_capacity();
        let due = match self.asked {
            Some(asked) => asked.max(self.heard) + self.pace.patience,
            None => self.heard + self.pace.idle,
        };
        tokio::select! {
            order = self.orders.recv() => match order {
                Some(SocketCommand::SendConfirmed(text, done)) => self.send_and_ping(text, done).await,
                Some(SocketCommand::SendUnconfirmed(text)) => self.write_frame(Message::text(text)).await,
                Some(SocketCommand::Close) | None => Err(self.close_with_reason(CloseCode::Away, "the runner stops").await),
            },
            message = self.socket.next(), if reads => match message {
                Some(Ok(message)) => self.handle_message(message).await,
                Some(Err(error)) => Err(self.stream_error(error).await),
                None => Err(self.dialer.close_error(None)),
            },
            () = self.inbox.wait_for_capacity(), if !reads => {
                // The runner was not reading, so the silence is not the peer's.
                self.heard = Instant::now();
                Ok(())
            }
            () = sleep_until_due(reads.then_some(due)) => self.probe_silence().await,
        }
    }

    async fn send_and_ping(
        &mut self,
        text: Option<String>,
        done: oneshot::Sender<()>,
    ) -> Result<(), SocketEnd> {
        if let Some(text) = text {
            self.write_frame(Message::text(text)).await?;
        }
        self.send_ping().await?;
        self.waiting.push_back((self.pings, done));
        Ok(())
    }

    async fn send_ping(&mut self) -> Result<(), SocketEnd> {
        self.pings += 1;
        self.asked.get_or_insert_with(Instant::now);
        let number = self.pings.to_be_bytes();
        self.write_frame(Message::Ping(Bytes::copy_from_slice(&number)))
            .await
    }

    /// Handles a silence: sends a ping, or ends the connection after an unanswered one.
    async fn probe_silence(&mut self) -> Result<(), SocketEnd> {
        if self.asked.is_none() {
            return self.send_ping().await;
        }
        let silence = self.pace.idle + self.pace.patience;
        Err(self
            .dialer
            .unreachable_error(&format!("nothing came for about {} s", silence.as_secs())))
    }

    async fn handle_message(&mut self, message: Message) -> Result<(), SocketEnd> {
        self.heard = Instant::now();
        match message {
            Message::Text(text) => match frames::parse_frame(text.as_str()) {
                ParsedFrame::Event(event) => self.inbox.push_event(event, text.len()),
                ParsedFrame::Answer(answer) => {
                    return self.write_frame(Message::text(answer)).await;
                }
                ParsedFrame::Ignored(what) => tracing::debug!(what, "a frame is passed over"),
            },
            Message::Binary(_) => {
                return self
                    .write_frame(Message::text(frames::binary_frame_error()))
                    .await;
            }
            Message::Pong(payload) => self.complete_pings(&payload),
            Message::Close(frame) => {
                self.acknowledge_close().await;
                return Err(self.dialer.close_error(frame.as_ref()));
            }
            // The library answers pings by itself.
            Message::Ping(_) | Message::Frame(_) => {}
        }
        Ok(())
    }

    /// Completes the ping with this payload and all before it (RFC 6455, 5.5.3).
    fn complete_pings(&mut self, payload: &[u8]) {
        let Ok(number) = payload.try_into().map(u64::from_be_bytes) else {
            return;
        };
        while let Some((_, done)) = self.waiting.pop_front_if(|(waiting, _)| *waiting <= number) {
            // A sender that gave up waiting sends again, which is harmless.
            let _ = done.send(());
        }
        if number == self.pings {
            self.asked = None;
        }
    }

    async fn write_frame(&mut self, message: Message) -> Result<(), SocketEnd> {
        match tokio::time::timeout(FRAME_TIMEOUT, self.socket.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(self.dialer.unreachable_error(&error.to_string())),
            Err(_elapsed) => Err(self.dialer.unreachable_error(&format!(
                "a frame could not be written within {} s",
                FRAME_TIMEOUT.as_secs()
            ))),
        }
    }

    /// Returns the end for a protocol violation or a lost connection.
    async fn stream_error(&mut self, error: Error) -> SocketEnd {
        match error {
            Error::Capacity(_) => {
                self.close_with_reason(CloseCode::Size, "the message is too large")
                    .await
            }
            Error::Utf8(_) => {
                self.close_with_reason(CloseCode::Invalid, "the text is not UTF-8")
                    .await
            }
            Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => {
                self.dialer.close_error(None)
            }
            Error::Protocol(cause) => {
                let cause = cause.to_string();
                self.close_with_reason(CloseCode::Protocol, &cause).await
            }
            other => self.dialer.unreachable_error(&other.to_string()),
        }
    }

    /// Closes with a reason and discards input for a moment. A connection that is closed over unread bytes is reset,
    /// and the reason is lost.
    async fn close_with_reason(&mut self, code: CloseCode, reason: &str) -> SocketEnd {
        let frame = CloseFrame {
            code,
            reason: reason.chars().take(100).collect::<String>().into(),
        };
        let parting = async {
            if self.socket.close(Some(frame)).await.is_ok() {
                discard_unread(&mut self.socket).await;
            }
        };
        let _ = tokio::time::timeout(LINGER, parting).await;
        self.dialer
            .unreachable_error(&format!("the connection was closed from here: {reason}"))
    }

    /// Answers the peer's Close frame with its own status code (RFC 6455, 5.5.1). The library has queued that frame and
    /// refuses another, so it is only flushed. Then the peer closes the connection.
    async fn acknowledge_close(&mut self) {
        let parting = async {
            if self.socket.flush().await.is_ok() {
                discard_unread(&mut self.socket).await;
            }
        };
        let _ = tokio::time::timeout(LINGER, parting).await;
    }
}

/// Discards input until the peer closes the connection.
async fn discard_unread(socket: &mut DialedSocket) {
    let mut unread = vec![0; 64 << 10];
    while matches!(socket.get_mut().read(&mut unread).await, Ok(read) if read > 0) {}
}

async fn sleep_until_due(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => pending().await,
    }
}
