//! A TCP proxy that mistreats connections: it knows bytes, no calls. For faults of a call or its answer there are the
//! backend's own faults and the relay.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::reserved_port::ReservedPort;

/// What is done to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionFault {
    /// Nothing.
    Pass,
    /// What is sent disappears, without an end and without a reset.
    BlackHole,
    /// The connection is reset after so many more bytes of the calls.
    ResetAsking(usize),
    /// The connection is reset after so many more bytes of the answers.
    ResetAnswering(usize),
    /// The answers come at so many bytes a second.
    Bandwidth(usize),
    /// The calls of all connections together go out at so many bytes a second.
    Uplink(usize),
    /// Everything comes so much later.
    Latency(Duration),
    /// The connection is closed after that time, whatever it is doing.
    Timeout(Duration),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StreamDirection {
    Asking,
    Answering,
}

struct SharedProxy {
    upstream: SocketAddr,
    /// For all connections.
    toxic: watch::Sender<ConnectionFault>,
    /// Only for connections on which this text was asked.
    marked: Mutex<Option<(String, ConnectionFault)>>,
    met: AtomicUsize,
    /// When the line will have carried what went out so far, under [`Toxic::Uplink`].
    free_at: Mutex<Instant>,
}

impl SharedProxy {
    /// When a line of this rate will have carried so many bytes more.
    fn carry_bytes(&self, bytes: usize, rate: usize) -> Instant {
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
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
    /// Before the server at this address.
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

    /// From now on this is done to all connections, those that stand too.
    pub fn inject_fault(&self, toxic: ConnectionFault) {
        self.shared.toxic.send_replace(toxic);
    }

    /// From now on this is done to connections as soon as this text is asked on them.
    pub fn poison_those_with(&self, text: &str, toxic: ConnectionFault) {
        *self
            .shared
            .marked
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some((text.to_owned(), toxic));
    }

    /// Nothing is done to new connections any more, nor to those that stand, but for marked ones.
    pub fn clear_faults(&self) {
        *self
            .shared
            .marked
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = None;
        self.inject_fault(ConnectionFault::Pass);
    }

    /// How often the text was asked that [`Self::poison_those_with`] waits for.
    pub fn marked_requests(&self) -> usize {
        self.shared.met.load(Ordering::SeqCst)
    }

    /// Connections are refused, and those that stand are reset.
    pub async fn down(&mut self) {
        self.serving.shutdown().await;
    }

    /// They are taken again, at the same address.
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
                    // A server that is away is a reset to whoever asks.
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
    let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
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

/// Carries one way's bytes until the connection is to end.
async fn pump_bytes(
    shared: &SharedProxy,
    way: StreamDirection,
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mark: Option<&watch::Sender<Option<ConnectionFault>>>,
    mut marked: watch::Receiver<Option<ConnectionFault>>,
) -> io::Result<()> {
    let mut general = shared.toxic.subscribe();
    let (mut buffer, mut carried, mut under, mut asked) =
        (vec![0; 16 << 10], 0, ConnectionFault::Pass, Vec::new());
    loop {
        let read = tokio::select! {
            read = from.read(&mut buffer) => read?,
            // What began to count begins anew with another toxic.
            _ = general.changed() => continue,
            Ok(()) = marked.changed() => continue,
        };
        if read == 0 {
            return to.shutdown().await;
        }
        let mut bytes = &buffer[..read];
        if let Some(mark) = mark {
            asked.extend_from_slice(bytes);
            let of_text = shared
                .marked
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
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
                sleep_until(shared.carry_bytes(read, rate)).await
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
