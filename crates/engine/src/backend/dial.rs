//! Opens WebSockets: connection, TLS, handshake, and the meaning of each failure.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use reqwest::Url;
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::http::header::{
    AUTHORIZATION, HeaderName, HeaderValue, USER_AGENT,
};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, protocol::CloseFrame};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::address::{BadUrl, parse_address};
use super::error::BackendError;
use super::http_response::parse_retry_after;
use super::proxy::ProxyServer;
use punie_core::owner_choices::ProxyVariables;
use punie_text::redact::Secret;

/// A byte stream, with or without TLS.
pub(super) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// An open WebSocket.
pub(super) type DialedSocket = WebSocketStream<Box<dyn ByteStream>>;

/// The time limit until the handshake is done.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// A WebSocket address that can be connected to any number of times.
pub(super) struct WebSocketDialer {
    url: Url,
    tls: Option<TlsConnector>,
    proxy: Option<ProxyServer>,
    limits: WebSocketConfig,
    /// True once a socket was opened.
    has_opened: AtomicBool,
}

impl WebSocketDialer {
    /// Prepares connections to this address. Messages over `most_bytes` are refused.
    ///
    /// # Errors
    /// [`BadUrl`].
    pub(super) fn new(
        url: &str,
        allow_insecure: bool,
        most_bytes: usize,
        proxies: &ProxyVariables,
    ) -> Result<Self, BadUrl> {
        let url = parse_address(url, "wss", "ws", allow_insecure)?;
        let tls = match url.scheme() {
            "wss" => Some(tls_connector().map_err(BadUrl::Client)?),
            _ => None,
        };
        let proxy = ProxyServer::for_address(&url, proxies)?;
        let limits = WebSocketConfig::default()
            .read_buffer_size(16 << 10)
            .write_buffer_size(16 << 10)
            .max_message_size(Some(most_bytes))
            .max_frame_size(Some(most_bytes));
        Ok(Self {
            url,
            tls,
            proxy,
            limits,
            has_opened: AtomicBool::new(false),
        })
    }

    /// Returns the address, without secrets.
    pub(super) fn url(&self) -> &str {
        self.url.as_str().trim_end_matches('/')
    }

    /// Opens a socket with this token.
    ///
    /// # Errors
    /// [`BackendError`], as for an HTTP call to the same address.
    pub(super) async fn open_socket(
        &self,
        token: Option<&Secret<String>>,
        extra: &[(HeaderName, HeaderValue)],
    ) -> Result<DialedSocket, BackendError> {
        let dialling = async {
            let stream = self
                .connect_stream()
                .await
                .map_err(|cause| self.unreachable_error(&cause))?;
            let request = self.handshake_request(token, extra)?;
            let opened = client_async_with_config(request, stream, Some(self.limits)).await;
            let (socket, _response) = opened.map_err(|error| self.handshake_error(&error))?;
            self.has_opened.store(true, Ordering::Relaxed);
            Ok(socket)
        };
        let dialled = tokio::time::timeout(HANDSHAKE_TIMEOUT, dialling).await;
        dialled.unwrap_or_else(|_| {
            let seconds = HANDSHAKE_TIMEOUT.as_secs();
            Err(self.unreachable_error(&format!("no WebSocket could be opened within {seconds} s")))
        })
    }

    async fn connect_stream(&self) -> Result<Box<dyn ByteStream>, String> {
        let host = self.url.host_str().unwrap_or_default();
        // An IPv6 address has brackets in URLs only.
        let host = host.trim_matches(['[', ']']).to_owned();
        let port = self.url.port_or_known_default().unwrap_or(443);
        let plain = match &self.proxy {
            None => connect_tcp(&host, port).await?,
            Some(proxy) => connect_through_proxy(proxy, &host, port).await?,
        };
        match &self.tls {
            None => Ok(plain),
            Some(tls) => start_tls(tls, host, plain).await,
        }
    }

    fn handshake_request(
        &self,
        token: Option<&Secret<String>>,
        extra: &[(HeaderName, HeaderValue)],
    ) -> Result<Request, BackendError> {
        let bad = |cause: String| BackendError::BadCall {
            status: 0,
            message: cause,
        };
        let mut request = self
            .url
            .as_str()
            .into_client_request()
            .map_err(|cause| bad(cause.to_string()))?;
        let headers = request.headers_mut();
        headers.insert(
            USER_AGENT,
            HeaderValue::from_static(concat!("punie-runner/", env!("CARGO_PKG_VERSION"))),
        );
        for (name, value) in extra {
            headers.insert(name.clone(), value.clone());
        }
        if let Some(token) = token {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose()))
                .map_err(|_| bad("the token cannot stand in a header".to_owned()))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(request)
    }

    /// Returns the meaning of a failed handshake.
    fn handshake_error(&self, error: &Error) -> BackendError {
        let Error::Http(response) = error else {
            return self.unreachable_error(&error.to_string());
        };
        let status = response.status().as_u16();
        let headers = response.headers();
        match status {
            401 | 403 => BackendError::Unauthorized {
                code: format!("status {status}"),
            },
            // Another server answers: a login page, a proxy, or a web server without WebSockets.
            200..=399 | 407 | 511 => BackendError::Intercepted {
                url: self.url().to_owned(),
                cause: format!("status {status} in place of a WebSocket"),
            },
            404 if !self.has_opened.load(Ordering::Relaxed) => BackendError::NoBackend {
                url: self.url().to_owned(),
            },
            404 | 408 | 421 | 425 | 429 | 500..=599 => BackendError::Busy {
                status,
                code: String::new(),
                retry_after: parse_retry_after(headers, SystemTime::now()),
            },
            other => BackendError::BadCall {
                status: other,
                message: "no WebSocket is given".to_owned(),
            },
        }
    }

    /// Returns the error for a socket that the other end closed or that is lost.
    pub(super) fn close_error(&self, frame: Option<&CloseFrame>) -> BackendError {
        let Some(frame) = frame else {
            return self.unreachable_error("the connection was closed without a reason");
        };
        let code = u16::from(frame.code);
        let reason = printable_reason(frame.reason.as_str());
        match code {
            // Policy, unauthorized and forbidden, with the codes that many servers use for the last two.
            1008 | 3000 | 3003 | 4401 | 4403 => BackendError::Unauthorized {
                code: format!("close {code} {reason}").trim_end().to_owned(),
            },
            // Try again later.
            1013 => BackendError::Busy {
                status: 503,
                code: format!("close {code}"),
                retry_after: None,
            },
            _ => self.unreachable_error(
                format!("the connection was closed with {code} {reason}").trim_end(),
            ),
        }
    }

    pub(super) fn unreachable_error(&self, cause: &str) -> BackendError {
        BackendError::Unreachable {
            url: self.url().to_owned(),
            cause: cause.to_owned(),
        }
    }
}

async fn connect_tcp(host: &str, port: u16) -> Result<Box<dyn ByteStream>, String> {
    let stream = TcpStream::connect((host, port))
        .await
        .map_err(|cause| cause.to_string())?;
    stream
        .set_nodelay(true)
        .map_err(|cause| cause.to_string())?;
    Ok(Box::new(stream))
}

async fn start_tls(
    tls: &TlsConnector,
    host: String,
    stream: Box<dyn ByteStream>,
) -> Result<Box<dyn ByteStream>, String> {
    let name = ServerName::try_from(host).map_err(|cause| cause.to_string())?;
    let encrypted = tls
        .connect(name, stream)
        .await
        .map_err(|cause| cause.to_string())?;
    Ok(Box::new(encrypted))
}

/// Connects to this host through a proxy.
async fn connect_through_proxy(
    proxy: &ProxyServer,
    host: &str,
    port: u16,
) -> Result<Box<dyn ByteStream>, String> {
    let at_proxy = |cause: String| format!("at the proxy: {cause}");
    let (proxy_host, proxy_port) = proxy.host_and_port();
    let mut stream = connect_tcp(&proxy_host, proxy_port)
        .await
        .map_err(at_proxy)?;
    if proxy.is_https() {
        stream = start_tls(&tls_connector()?, proxy_host, stream)
            .await
            .map_err(at_proxy)?;
    }
    proxy.open_tunnel(&mut stream, host, port).await?;
    Ok(stream)
}

fn tls_connector() -> Result<TlsConnector, String> {
    let text = |cause: rustls::Error| cause.to_string();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(text)?
        .with_platform_verifier()
        .map_err(text)?
        .with_no_client_auth();
    // A WebSocket begins as HTTP/1.1.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Returns the other end's text in a form that is safe to log.
fn printable_reason(reason: &str) -> String {
    reason
        .chars()
        .filter(|c| !c.is_control())
        .take(120)
        .collect()
}
