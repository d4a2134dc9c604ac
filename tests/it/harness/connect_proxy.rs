//! An HTTP proxy like those of companies: it opens tunnels for clients that send its password.

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The user name and the password that it requires.
pub const CREDENTIALS: &str = "me:hunter2";

struct SharedTunnels {
    /// The server at which every tunnel ends, for any requested name: the host names of the tests do not resolve.
    upstream: Mutex<Option<SocketAddr>>,
    tunnels: Mutex<Vec<String>>,
}

/// A running proxy.
pub struct ConnectProxy {
    address: SocketAddr,
    shared: Arc<SharedTunnels>,
    _serving: JoinSet<()>,
}

impl ConnectProxy {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(SharedTunnels {
            upstream: Mutex::default(),
            tunnels: Mutex::default(),
        });
        let serves = Arc::clone(&shared);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let shared = Arc::clone(&serves);
                open.spawn(async move {
                    // A client may disconnect at any time.
                    let _ = serve_connection(&shared, socket).await;
                });
            }
        });
        Self {
            address,
            shared,
            _serving: serving,
        }
    }

    /// Its address, with these credentials.
    pub fn url(&self, credentials: &str) -> String {
        format!("http://{credentials}@{}", self.address)
    }

    /// Sets the address at which later tunnels end.
    pub fn lead_to(&self, url: &str) {
        let address = url
            .trim_start_matches("https://")
            .trim_start_matches("http://");
        let address = address.parse().expect("an address");
        *self.shared.upstream.lock() = Some(address);
    }

    /// The requested targets of the tunnels that were opened.
    pub fn tunnels(&self) -> Vec<String> {
        self.shared.tunnels.lock().clone()
    }
}

async fn serve_connection(shared: &SharedTunnels, mut near: TcpStream) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(near.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).ok()?;
    let mut words = head.split_whitespace();
    let method = words.next()?;
    let target = words.next()?.to_owned();
    let wanted = format!(
        "proxy-authorization: basic {}",
        BASE64_STANDARD.encode(CREDENTIALS)
    );
    let is_known = head.lines().any(|line| line.eq_ignore_ascii_case(&wanted));
    let refusal = match (method, is_known) {
        ("CONNECT", true) => None,
        ("CONNECT", false) => Some("407 Proxy Authentication Required"),
        _ => Some("405 Method Not Allowed"),
    };
    if let Some(status) = refusal {
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
        return near.write_all(answer.as_bytes()).await.ok();
    }
    let upstream = *shared.upstream.lock();
    let mut far = TcpStream::connect(upstream?).await.ok()?;
    shared.tunnels.lock().push(target);
    near.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
        .await
        .ok()?;
    tokio::io::copy_bidirectional(&mut near, &mut far)
        .await
        .ok()
        .map(drop)
}
