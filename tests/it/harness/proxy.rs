//! A TCP proxy that injects faults into connections. It handles bytes and parses no calls. For faults of a call or its
//! answer, use the backend's fault injector or the relay.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::reserved_port::ReservedPort;

/// The fault of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionFault {
    /// No fault.
    Pass,
    /// Bytes disappear in both directions, without an end of stream and without a reset.
    BlackHole,
    /// The connection is reset after this many more bytes from the client.
    ResetAsking(usize),
    /// The connection is reset after this many more bytes from the server.
    ResetAnswering(usize),
    /// The answers arrive at this many bytes a second.
    Bandwidth(usize),
    /// All connections share an uplink with this many bytes a second for their calls.
    Uplink(usize),
    /// Bytes arrive this much later, in both directions.
    Latency(Duration),
    /// The connection is closed this long after its next bytes, which are lost.
    Timeout(Duration),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StreamDirection {
    Asking,
    Answering,
}

struct SharedProxy {
    upstream: SocketAddr,
    /// The fault of all connections.
    toxic: watch::Sender<ConnectionFault>,
    /// The fault of connections whose client has sent this text.
    marked: Mutex<Option<(String, ConnectionFault)>>,
    met: AtomicUsize,
    /// The time at which the uplink has carried all bytes so far, under [`ConnectionFault::Uplink`].
    free_at: Mutex<Instant>,
}

impl SharedProxy {
    /// Returns the time at which an uplink of this rate has carried these bytes, too.
    fn carry_bytes(&self, bytes: usize, rate: usize) -> Instant {
        let mut free_at = self.free_at.lock();
        let time = Duration::from_micros((bytes * 1_000_000 / rate) as u64);
        *free_at = (*free_at).max(Instant::now()) + time;
        *free_at
    }
}

/// A running proxy.
pub struct FaultyProxy {
    pub url: String,
    port: ReservedPort,
    shared: Arc<SharedProxy>,
    serving: JoinSet<()>,
}

impl FaultyProxy {
    /// Starts a proxy to the server at this address.
    pub fn before(url: &str) -> Self {
        let upstream = url
            .trim_start_matches("http://")
            .parse()
            .expect("an address");
        let port = ReservedPort::new();
        let listener = port.listen();
        let shared = Arc::new(SharedProxy {
            upstream,
            toxic: watch::Sender::new(ConnectionFault::Pass),
            marked: Mutex::default(),
            met: AtomicUsize::new(0),
            free_at: Mutex::new(Instant::now()),
        });
        let mut proxy = Self {
            url: format!("http://{}", port.address()),
            port,
            shared,
            serving: JoinSet::new(),
        };
        proxy.serve(listener);
        proxy
    }

    /// Applies this fault to all connections, open ones included.
    pub fn inject_fault(&self, toxic: ConnectionFault) {
        self.shared.toxic.send_replace(toxic);
    }

    /// Applies this fault to a connection as soon as its client sends this text.
    pub fn poison_those_with(&self, text: &str, toxic: ConnectionFault) {
        *self.shared.marked.lock() = Some((text.to_owned(), toxic));
    }

    /// Removes all faults, except from open connections whose client has sent the marked text.
    pub fn clear_faults(&self) {
        *self.shared.marked.lock() = None;
        self.inject_fault(ConnectionFault::Pass);
    }

    /// The number of times that clients sent the text of [`Self::poison_those_with`].
    pub fn marked_requests(&self) -> usize {
        self.shared.met.load(Ordering::SeqCst)
    }

    /// Refuses new connections and resets open ones.
    pub async fn down(&mut self) {
        self.serving.shutdown().await;
    }

    /// Accepts connections again, at the same address.
    pub fn up(&mut self) {
        self.serve(self.port.listen());
    }

    fn serve(&mut self, listener: TcpListener) {
        let shared = Arc::clone(&self.shared);
        self.serving.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                let shared = Arc::clone(&shared);
                open.spawn(async move {
                    // If the server is down, the client's connection is closed.
                    let _ = proxy_connection(&shared, near).await;
                });
            }
        });
    }
}

async fn proxy_connection(shared: &SharedProxy, near: TcpStream) -> io::Result<()> {
    near.set_nodelay(true)?;
    let far = TcpStream::connect(shared.upstream).await?;
    far.set_nodelay(true)?;
    let (near_in, near_out) = near.into_split();
    let (far_in, far_out) = far.into_split();
    let (mark, marked) = watch::channel(None);
    let asking = pump_bytes(
        shared,
        StreamDirection::Asking,
        near_in,
        far_out,
        Some(&mark),
        marked.clone(),
    );
    let answering = pump_bytes(
        shared,
        StreamDirection::Answering,
        far_in,
        near_out,
        None,
        marked,
    );
    tokio::select! {
        asked = asking => asked,
        answered = answering => answered,
    }
}

/// Copies the bytes of one direction until the connection must end.
async fn pump_bytes(
    shared: &SharedProxy,
    way: StreamDirection,
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mark: Option<&watch::Sender<Option<ConnectionFault>>>,
    mut marked: watch::Receiver<Option<ConnectionFault>>,
) -> io::Result<()> {
    let mut general = shared.toxic.subscribe();
    let mut buffer = vec![0; 16 << 10];
    let mut carried = 0;
    let mut under = ConnectionFault::Pass;
    let mut asked = Vec::new();
    loop {
        let read = tokio::select! {
            read = from.read(&mut buffer) => read?,
            // A new fault counts its bytes from zero.
            _ = general.changed() => continue,
            Ok(()) = marked.changed() => continue,
        };
        if read == 0 {
            return to.shutdown().await;
        }
        let mut bytes = &buffer[..read];
        if let Some(mark) = mark {
            asked.extend_from_slice(bytes);
            let of_text = shared.marked.lock().clone();
            if let Some((text, toxic)) = of_text
                && asked
                    .windows(text.len())
                    .any(|part| part == text.as_bytes())
            {
                shared.met.fetch_add(1, Ordering::SeqCst);
                mark.send_replace(Some(toxic));
                asked.clear();
            }
        }
        let toxic = marked.borrow().unwrap_or(*general.borrow());
        if toxic != under {
            (under, carried) = (toxic, 0);
        }
        carried += read;
        match (toxic, way) {
            (ConnectionFault::BlackHole, _) => continue,
            (ConnectionFault::ResetAsking(limit), StreamDirection::Asking) if carried > limit => {
                to.write_all(&bytes[..read - (carried - limit)]).await?;
                return from.as_ref().set_zero_linger();
            }
            (ConnectionFault::ResetAnswering(limit), StreamDirection::Answering)
                if carried > limit =>
            {
                to.write_all(&bytes[..read - (carried - limit)]).await?;
                return to.as_ref().set_zero_linger();
            }
            (ConnectionFault::Bandwidth(rate), StreamDirection::Answering) => {
                while bytes.len() > rate {
                    to.write_all(&bytes[..rate]).await?;
                    bytes = &bytes[rate..];
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
            (ConnectionFault::Uplink(rate), StreamDirection::Asking) => {
                sleep_until(shared.carry_bytes(read, rate)).await;
            }
            (ConnectionFault::Latency(time), _) => tokio::time::sleep(time).await,
            (ConnectionFault::Timeout(time), _) => {
                tokio::time::sleep(time).await;
                return Ok(());
            }
            _ => {}
        }
        to.write_all(bytes).await?;
    }
}
