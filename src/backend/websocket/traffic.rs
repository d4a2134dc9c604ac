//! The task of one open socket: it receives frames, sends results and pings, and answers pings.
//! Not here: opening sockets, and the reaction to their end.

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

use super::frames::{self, Heard};
use super::inbox::Inbox;
use crate::backend::dial::{Dialer, Socket};
use crate::backend::error::BackendError;

/// The time limit for writing one frame. A slower peer does not read.
const WRITE: Duration = Duration::from_secs(30);

/// The time for which unread input is still accepted while closing, so that the peer receives the close reason.
const LINGER: Duration = Duration::from_secs(3);

/// The ping intervals.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Silence after which a ping is sent.
    pub idle: Duration,
    /// Silence after a ping that ends the connection.
    pub patience: Duration,
}

/// A command to the socket's task.
pub(super) enum Order {
    /// Send this text, if any, and then a ping. `done` fires when that ping is answered: everything sent before it has
    /// then arrived.
    Send(Option<String>, oneshot::Sender<()>),
    /// Send this text without waiting for a confirmation.
    Tell(String),
    /// Close the socket.
    Close,
}

/// The task that owns one socket.
pub(super) struct Traffic {
    socket: Socket,
    dialer: Arc<Dialer>,
    inbox: Arc<Inbox>,
    orders: mpsc::Receiver<Order>,
    pace: Pace,
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
type End = BackendError;

impl Traffic {
    pub(super) fn new(
        socket: Socket,
        dialer: Arc<Dialer>,
        inbox: Arc<Inbox>,
        orders: mpsc::Receiver<Order>,
        pace: Pace,
    ) -> Self {
        let (waiting, heard) = (VecDeque::new(), Instant::now());
        Self { socket, dialer, inbox, orders, pace, pings: 0, waiting, asked: None, heard }
    }

    /// Runs until the socket ends, and returns the reason. Senders that wait for a pong get an error.
    pub(super) async fn run(mut self) -> End {
        loop {
            if let Err(end) = self.turn().await {
                return end;
            }
        }
    }

    async fn turn(&mut self) -> Result<(), End> {
        let reads = self.inbox.has_room();
        let due = match self.asked {
            Some(asked) => asked.max(self.heard) + self.pace.patience,
            None => self.heard + self.pace.idle,
        };
        tokio::select! {
            order = self.orders.recv() => match order {
                Some(Order::Send(text, done)) => self.send(text, done).await,
                Some(Order::Tell(text)) => self.write(Message::text(text)).await,
                Some(Order::Close) | None => Err(self.leave(CloseCode::Away, "the runner stops").await),
            },
            message = self.socket.next(), if reads => match message {
                Some(Ok(message)) => self.hear(message).await,
                Some(Err(error)) => Err(self.broken(error).await),
                None => Err(self.dialer.closed(None)),
            },
            () = self.inbox.room(), if !reads => {
                // The runner was not reading, so the silence is not the peer's.
                self.heard = Instant::now();
                Ok(())
            }
            () = at(reads.then_some(due)) => self.probe().await,
        }
    }

    async fn send(&mut self, text: Option<String>, done: oneshot::Sender<()>) -> Result<(), End> {
        if let Some(text) = text {
            self.write(Message::text(text)).await?;
        }
        self.ping().await?;
        self.waiting.push_back((self.pings, done));
        Ok(())
    }

    async fn ping(&mut self) -> Result<(), End> {
        self.pings += 1;
        self.asked.get_or_insert_with(Instant::now);
        let number = self.pings.to_be_bytes();
        self.write(Message::Ping(Bytes::copy_from_slice(&number))).await
    }

    /// Handles a silence: sends a ping, or ends the connection after an unanswered one.
    async fn probe(&mut self) -> Result<(), End> {
        if self.asked.is_none() {
            return self.ping().await;
        }
        let silence = self.pace.idle + self.pace.patience;
        Err(self.dialer.unreachable(&format!("nothing came for about {} s", silence.as_secs())))
    }

    async fn hear(&mut self, message: Message) -> Result<(), End> {
        self.heard = Instant::now();
        match message {
            Message::Text(text) => match frames::read(text.as_str()) {
                Heard::Event(event) => self.inbox.put(event, text.len()),
                Heard::Answer(answer) => return self.write(Message::text(answer)).await,
                Heard::Ignored(what) => tracing::debug!(what, "a frame is passed over"),
            },
            Message::Binary(_) => return self.write(Message::text(frames::binary())).await,
            Message::Pong(payload) => self.answered(&payload),
            Message::Close(frame) => {
                self.acknowledge_close().await;
                return Err(self.dialer.closed(frame.as_ref()));
            }
            // The library answers pings by itself.
            Message::Ping(_) | Message::Frame(_) => {}
        }
        Ok(())
    }

    /// Completes the ping with this payload and all before it (RFC 6455, 5.5.3).
    fn answered(&mut self, payload: &[u8]) {
        let Ok(number) = payload.try_into().map(u64::from_be_bytes) else { return };
        while let Some((_, done)) = self.waiting.pop_front_if(|(waiting, _)| *waiting <= number) {
            // A sender that gave up waiting sends again, which is harmless.
            let _ = done.send(());
        }
        if number == self.pings {
            self.asked = None;
        }
    }

    async fn write(&mut self, message: Message) -> Result<(), End> {
        match tokio::time::timeout(WRITE, self.socket.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(self.dialer.unreachable(&error.to_string())),
            Err(_elapsed) => Err(self
                .dialer
                .unreachable(&format!("a frame could not be written within {} s", WRITE.as_secs()))),
        }
    }

    /// Returns the end for a protocol violation or a lost connection.
    async fn broken(&mut self, error: Error) -> End {
        match error {
            Error::Capacity(_) => self.leave(CloseCode::Size, "the message is too large").await,
            Error::Utf8(_) => self.leave(CloseCode::Invalid, "the text is not UTF-8").await,
            Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => self.dialer.closed(None),
            Error::Protocol(cause) => {
                let cause = cause.to_string();
                self.leave(CloseCode::Protocol, &cause).await
            }
            other => self.dialer.unreachable(&other.to_string()),
        }
    }

    /// Closes with a reason and discards input for a moment. A connection that is closed over unread bytes is reset,
    /// and the reason is lost.
    async fn leave(&mut self, code: CloseCode, reason: &str) -> End {
        let frame = CloseFrame { code, reason: reason.chars().take(100).collect::<String>().into() };
        let parting = async {
            if self.socket.close(Some(frame)).await.is_ok() {
                discard_rest(&mut self.socket).await;
            }
        };
        let _ = tokio::time::timeout(LINGER, parting).await;
        self.dialer.unreachable(&format!("the connection was closed from here: {reason}"))
    }

    /// Answers the peer's Close frame with its own status code (RFC 6455, 5.5.1). The library has queued that frame and
    /// refuses another, so it is only flushed. Then the peer closes the connection.
    async fn acknowledge_close(&mut self) {
        let parting = async {
            if self.socket.flush().await.is_ok() {
                discard_rest(&mut self.socket).await;
            }
        };
        let _ = tokio::time::timeout(LINGER, parting).await;
    }
}

/// Discards input until the peer closes the connection.
async fn discard_rest(socket: &mut Socket) {
    let mut unread = vec![0; 64 << 10];
    while matches!(socket.get_mut().read(&mut unread).await, Ok(read) if read > 0) {}
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => pending().await,
    }
}
