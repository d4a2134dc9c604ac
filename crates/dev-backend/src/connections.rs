//! Limits the server's connections: their number, and the time for the headers of a request. Silent connections of any
//! local user would otherwise use up the open files of this process.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, Request};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use axum::serve::{IncomingStream, Listener};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// The most connections at once. The server listens on loopback only, so all its peers share this number. Most systems
/// let a process open 1,024 files.
pub const MAX_CONNECTIONS: usize = 512;
/// The time limit for the headers of a request, from the accept or from their first byte.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// The shortest time between two log lines about closed connections.
const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// The state of a connection.
#[derive(Debug, Clone, Copy)]
enum ConnectionPhase {
    /// Accepted, and no byte has come since then. Clients open such a connection in advance.
    Silent(Instant),
    /// Headers of a request are expected or arriving, since then.
    Headers(Instant),
    /// A request is handled, or the connection is a WebSocket.
    Busy,
    /// Between two requests, since then.
    Idle(Instant),
}

/// The connections that are open.
#[derive(Debug)]
struct ConnectionList {
    max: usize,
    open: Mutex<OpenConnections>,
}

#[derive(Debug, Default)]
struct OpenConnections {
    next_id: u64,
    by_id: BTreeMap<u64, OpenConnection>,
    last_logged: Option<Instant>,
}

#[derive(Debug)]
struct OpenConnection {
    phase: ConnectionPhase,
    closing: CancellationToken,
}

/// One connection in the list, by its id.
#[derive(Debug, Clone)]
pub(super) struct ConnectionHandle {
    id: u64,
    list: Arc<ConnectionList>,
}

impl ConnectionList {
    /// Adds a connection. At the limit the one closes that has waited longest for a request; if all are busy, there is
    /// no room.
    fn add(self: &Arc<Self>) -> Option<(ConnectionHandle, WaitForCancellationFutureOwned)> {
        let mut open = self.open.lock();
        if open.by_id.len() >= self.max {
            let waiting = open.by_id.iter().filter_map(|(id, one)| match one.phase {
                ConnectionPhase::Silent(since)
                | ConnectionPhase::Headers(since)
                | ConnectionPhase::Idle(since) => Some((since, *id)),
                ConnectionPhase::Busy => None,
            });
            let Some((_, oldest)) = waiting.min() else {
                open.log_rarely(|| {
                    tracing::warn!(
                        limit = self.max,
                        "the embedded backend refuses a connection: it has as many as it may, and all are in use"
                    );
                });
                return None;
            };
            if let Some(closed) = open.by_id.remove(&oldest) {
                closed.closing.cancel();
            }
            open.log_rarely(|| {
                tracing::warn!(
                    limit = self.max,
                    "the embedded backend has as many connections as it may: it closes the one that was idle longest"
                );
            });
        }
        let id = open.next_id;
        let closing = CancellationToken::new();
        open.next_id += 1;
        let closed = closing.clone().cancelled_owned();
        let phase = ConnectionPhase::Silent(Instant::now());
        open.by_id.insert(id, OpenConnection { phase, closing });
        let list = Arc::clone(self);
        Some((ConnectionHandle { id, list }, closed))
    }
}

impl OpenConnections {
    /// Writes a log line, unless there was one a short time ago.
    fn log_rarely(&mut self, write: impl FnOnce()) {
        let is_soon = |last: Instant| last.elapsed() < LOG_INTERVAL;
        if !self.last_logged.is_some_and(is_soon) {
            self.last_logged = Some(Instant::now());
            write();
        }
    }
}

impl ConnectionHandle {
    fn set_phase(&self, phase: ConnectionPhase) {
        if let Some(connection) = self.list.open.lock().by_id.get_mut(&self.id) {
            connection.phase = phase;
        }
    }

    /// Notes that bytes arrived: the first ones begin the headers of a request.
    fn record_bytes(&self) {
        let mut open = self.list.open.lock();
        if let Some(connection) = open.by_id.get_mut(&self.id) {
            connection.phase = match connection.phase {
                ConnectionPhase::Silent(since) => ConnectionPhase::Headers(since),
                ConnectionPhase::Idle(_) => ConnectionPhase::Headers(Instant::now()),
                phase => phase,
            };
        }
    }

    fn phase(&self) -> Option<ConnectionPhase> {
        let open = self.list.open.lock();
        open.by_id.get(&self.id).map(|connection| connection.phase)
    }

    /// Returns the time at which the headers must be complete, if some are expected.
    fn header_deadline(&self) -> Option<Instant> {
        match self.phase()? {
            ConnectionPhase::Silent(since) | ConnectionPhase::Headers(since) => {
                Some(since + HEADER_TIMEOUT)
            }
            ConnectionPhase::Busy | ConnectionPhase::Idle(_) => None,
        }
    }

    fn log_timeout(&self) {
        // A silent connection is a client's spare one: no reason to warn.
        if !matches!(self.phase(), Some(ConnectionPhase::Headers(_))) {
            return;
        }
        self.list.open.lock().log_rarely(|| {
            tracing::warn!(
                limit_s = HEADER_TIMEOUT.as_secs(),
                "the embedded backend closes a connection: the headers of a request did not come in time"
            );
        });
    }
}

/// Follows a connection from the headers of a request to its answer.
pub(super) async fn track_request(
    ConnectInfo(connection): ConnectInfo<ConnectionHandle>,
    request: Request,
    next: Next,
) -> Response {
    connection.set_phase(ConnectionPhase::Busy);
    let answer = next.run(request).await;
    // A WebSocket stays in use until it is closed.
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        connection.set_phase(ConnectionPhase::Idle(Instant::now()));
    }
    answer
}

/// Accepts connections within the limits.
pub(super) struct LimitedListener {
    listener: TcpListener,
    list: Arc<ConnectionList>,
}

impl LimitedListener {
    /// Accepts at most `max` connections at once.
    pub fn new(listener: TcpListener, max: usize) -> Self {
        let open = Mutex::default();
        Self {
            listener,
            list: Arc::new(ConnectionList { max, open }),
        }
    }
}

impl Listener for LimitedListener {
    type Io = LimitedSocket;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (LimitedSocket, SocketAddr) {
        loop {
            let (socket, peer) = Listener::accept(&mut self.listener).await;
            if let Some((connection, closed)) = self.list.add() {
                // A reply is two small writes. With Nagle's algorithm the second would wait for a delayed ACK.
                drop(socket.set_nodelay(true));
                let socket = LimitedSocket {
                    socket,
                    connection,
                    closed: Box::pin(closed),
                    timer: Box::pin(sleep_until(Instant::now() + HEADER_TIMEOUT)),
                };
                return (socket, peer);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Connected<IncomingStream<'_, LimitedListener>> for ConnectionHandle {
    fn connect_info(stream: IncomingStream<'_, LimitedListener>) -> Self {
        stream.io().connection.clone()
    }
}

/// A connection that ends when its headers are late, or when another one needs its place.
pub(super) struct LimitedSocket {
    socket: TcpStream,
    connection: ConnectionHandle,
    closed: Pin<Box<WaitForCancellationFutureOwned>>,
    timer: Pin<Box<Sleep>>,
}

impl LimitedSocket {
    /// Returns an error if the connection has to end, else wakes the task when that is so.
    fn check_limits(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.closed.as_mut().poll(cx).is_ready() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let Some(deadline) = self.connection.header_deadline() else {
            return Ok(());
        };
        if self.timer.deadline() != deadline {
            self.timer.as_mut().reset(deadline);
        }
        if self.timer.as_mut().poll(cx).is_ready() {
            self.connection.log_timeout();
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }
}

impl Drop for LimitedSocket {
    fn drop(&mut self) {
        let mut open = self.connection.list.open.lock();
        open.by_id.remove(&self.connection.id);
    }
}

impl AsyncRead for LimitedSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.socket).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            this.connection.record_bytes();
        }
        // Also after bytes: a client that sends one now and then must not escape the limit.
        this.check_limits(cx)?;
        read
    }
}

impl AsyncWrite for LimitedSocket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn log_lines_are_a_minute_apart() {
        let mut open = OpenConnections::default();
        let mut written = Vec::new();
        for second in 0..125 {
            open.log_rarely(|| written.push(second));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(written, [0, 60, 120]);
    }
}
