//! What goes on one open socket, in one task: frames in, results out, pings both ways. Not here: opening sockets, and
//! what follows when one ends (link).

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

/// Until one frame is written; a peer that takes longer does not read.
const WRITE: Duration = Duration::from_secs(30);

/// How long the other end may go on sending what is not read any more, so that it gets to our reason.
const LINGER: Duration = Duration::from_secs(3);

/// How often silence is probed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Silence after which a ping is sent.
    pub idle: Duration,
    /// Silence after a ping that ends the link.
    pub patience: Duration,
}

/// What the link is asked for.
pub(super) enum Order {
    /// Send this, if it is anything, and a ping after it; `done` hears when that ping is answered. Whatever was sent
    /// before it has then arrived.
    Send(Option<String>, oneshot::Sender<()>),
    /// Send this and wait for nothing.
    Tell(String),
    /// Close the socket.
    Close,
}

/// One socket at work.
pub(super) struct Traffic {
    socket: Socket,
    dialer: Arc<Dialer>,
    inbox: Arc<Inbox>,
    orders: mpsc::Receiver<Order>,
    pace: Pace,
    /// The number of the last ping; each ping carries its own.
    pings: u64,
    /// Who waits for which ping's answer, oldest first.
    waiting: VecDeque<(u64, oneshot::Sender<()>)>,
    /// When a ping was sent after which no pong came yet.
    asked: Option<Instant>,
    /// When anything came last.
    heard: Instant,
}

/// Why a socket's work is over.
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

    /// Works until the socket ends, and says why it did. Who waits for a pong then hears nothing.
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
                // The silence was ours.
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

    /// Nothing came for a while.
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
            // The library answers pings itself.
            Message::Ping(_) | Message::Frame(_) => {}
        }
        Ok(())
    }

    /// A pong answers its ping and all before it (RFC 6455, 5.5.3).
    fn answered(&mut self, payload: &[u8]) {
        let Ok(number) = payload.try_into().map(u64::from_be_bytes) else { return };
        while let Some((_, done)) = self.waiting.pop_front_if(|(waiting, _)| *waiting <= number) {
            // Whoever gave up waiting sends again, which harms nothing.
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

    /// What came breaks the rules, or the connection is gone.
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

    /// Closes with a reason, and reads on for a moment without looking: a connection that is closed over unread bytes
    /// is reset, and the reason is lost with it.
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

    /// Answers the other end's Close frame with its own status code (RFC 6455, 5.5.1). The library has queued that frame,
    /// and refuses to send another: it is only flushed. Then the other end closes the connection.
    async fn acknowledge_close(&mut self) {
        let parting = async {
            if self.socket.flush().await.is_ok() {
                discard_rest(&mut self.socket).await;
            }
        };
        let _ = tokio::time::timeout(LINGER, parting).await;
    }
}

/// Reads what the other end still sends, until it closes the connection.
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
