//! Builds the configured backend, for the device's side and for the caller's.

use std::sync::Arc;
use std::time::Duration;

use crate::cli::exit::{self, Exit};
use crate::config::{BackendKind, Config, ValueOrigin};
use punie_core::ids::{DeviceId, ProcessId};
use punie_engine::backend::{
    Backend, BackendError, BadUrl, ConnectionProblem, ConvexBackend, DeviceCredentials,
    HttpFunctions, ProxyServer, TransportOptions,
};
#[cfg(feature = "websocket")]
use punie_engine::backend::{TokenSource, WebSocketBackend, WebSocketOptions};
use punie_engine::journal::BackendIdentity;
use punie_home::{BackendTokens, DeviceIdentity, Home, command_to_type};
use punie_text::redact::Redactor;
use punie_tool::request::RequestAuth;

/// The origin of a process's backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackendSource {
    /// Named by the owner.
    Configured,
    /// Run by this process; it does not use the state of a configured backend.
    Embedded,
}

/// Returns the tokens of the configured backend.
pub fn backend_tokens(config: &Config, home: &Home) -> anyhow::Result<BackendTokens> {
    Ok(BackendTokens::for_backend(
        home,
        config
            .backend
            .url
            .as_ref()
            .ok_or_else(no_backend_error)?
            .as_str(),
    ))
}

/// Returns the identity of the backend, as far as it is known without a request.
pub(super) fn backend_identity(
    config: &Config,
    home: &Home,
    source: BackendSource,
) -> anyhow::Result<BackendIdentity> {
    let url = config.backend.url.as_ref().ok_or_else(no_backend_error)?;
    Ok(BackendIdentity {
        address: url.as_str().to_owned(),
        id: backend_tokens(config, home)?.id(),
        adopts_unassigned: source == BackendSource::Configured,
    })
}

/// Builds the device's side of the configured backend.
pub(super) fn device_backend(
    config: &Config,
    home: &Home,
    identity: DeviceIdentity,
    redactor: &Redactor,
    pairing_code: Option<String>,
) -> anyhow::Result<Arc<dyn Backend>> {
    if config.backend.kind == BackendKind::Convex {
        let known = backend_tokens(config, home)?.id();
        let backend = convex_backend(config, home, identity, redactor, pairing_code)?;
        return Ok(Arc::new(
            backend.with_id(known).with_process_id(ProcessId::random()),
        ));
    }
    #[cfg(feature = "websocket")]
    return websocket_backend(config, home, redactor, pairing_code.is_some());
    #[cfg(not(feature = "websocket"))]
    anyhow::bail!(crate::config::optional_parts::left_out_text("websocket"))
}

/// Builds the device's side of a backend of one WebSocket.
#[cfg(feature = "websocket")]
fn websocket_backend(
    config: &Config,
    home: &Home,
    redactor: &Redactor,
    is_pairing: bool,
) -> anyhow::Result<Arc<dyn Backend>> {
    if is_pairing {
        let file = backend_tokens(config, home)?.path(punie_home::TokenName::Backend);
        let text = format!(
            "a websocket backend knows no pairing: put its token into {} instead",
            file.display()
        );
        return Err(exit::CommandError::with_exit(Exit::Config, text));
    }
    let url = config.backend.url.as_ref().ok_or_else(no_backend_error)?;
    let options = WebSocketOptions {
        ping: config.websocket.ping,
        pong_timeout: config.websocket.pong_timeout,
        allow_insecure: config.backend.allow_insecure_http,
        proxies: config.proxies.clone(),
    };
    let tokens = backend_tokens(config, home)?;
    let redactor = redactor.clone();
    let shown: TokenSource = Arc::new(move || match tokens.read(punie_home::TokenName::Backend) {
        Ok(token) => {
            // Mask it in results before it is used for the first time.
            if let Some(token) = &token {
                redactor.add_secret(token);
            }
            token
        }
        Err(error) => {
            tracing::warn!(%error, "the worker is shown no token");
            None
        }
    });
    Ok(Arc::new(WebSocketBackend::new(
        url.as_str(),
        shown,
        &options,
    )?))
}

fn no_backend_error() -> anyhow::Error {
    let text = format!(
        "no backend is set: give --backend-url (PUNIE_BACKEND_URL), or `url` under [backend] in config.toml; `{}` \
         starts one of its own",
        command_to_type("dev")
    );
    exit::CommandError::with_exit(Exit::Config, text)
}

/// The answer of the backend's address to one probe.
#[derive(Debug)]
pub struct BackendProbe {
    /// It answers like a backend, or the reason why not.
    pub answer: Result<(), ProbeFailure>,
    /// The backend's clock minus the local one in milliseconds, if the answer had a date.
    pub clock_offset_ms: Option<i64>,
}

/// The reason why a probe failed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeFailure {
    /// No backend is configured.
    #[error("no backend is set")]
    NoAddress,
    /// The address or the proxy cannot be used.
    #[error("{0}")]
    Unusable(String),
    #[error("{host}:{port} cannot be reached")]
    NoConnection {
        /// The host of the backend or its proxy.
        host: String,
        port: u16,
    },
    /// The client's error.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

impl ProbeFailure {
    /// Returns the problem as a keyword; `None` if nothing was tried.
    pub fn keyword(&self) -> Option<&'static str> {
        match self {
            Self::NoAddress | Self::Unusable(_) => None,
            Self::NoConnection { .. } => Some(ConnectionProblem::Unreachable.as_str()),
            Self::Backend(error) => Some(error.connection_problem().as_str()),
        }
    }
}

/// Probes the backend's address.
pub async fn probe_configured(config: &Config, timeout: Duration) -> BackendProbe {
    let mut clock_offset_ms = None;
    let answer = if config.backend.kind == BackendKind::Convex && config.backend.url.is_some() {
        match http_functions(config) {
            Ok(functions) => {
                let answer = functions.probe_address(timeout).await;
                clock_offset_ms = functions.date_header_offset_ms();
                answer.map_err(ProbeFailure::from)
            }
            Err(error) => Err(ProbeFailure::Unusable(format!("{error:#}"))),
        }
    } else {
        probe_connection(config, timeout).await
    };
    BackendProbe {
        answer,
        clock_offset_ms,
    }
}

/// Connects to the backend or its proxy, without a handshake: a worker may take a second connection of a device for the
/// end of the first.
async fn probe_connection(config: &Config, timeout: Duration) -> Result<(), ProbeFailure> {
    let url = config.backend.url.as_ref().ok_or(ProbeFailure::NoAddress)?;
    let proxy =
        proxy_of_backend(config).map_err(|error| ProbeFailure::Unusable(error.to_string()))?;
    connect_once(proxy.unwrap_or_else(|| url.host_and_port()), timeout).await
}

/// Returns the host and port of the proxy through which the configured backend is reached, if there is one.
///
/// # Errors
/// [`BadUrl`] for a proxy that cannot be used.
pub fn proxy_of_backend(config: &Config) -> Result<Option<(String, u16)>, BadUrl> {
    let Some(url) = &config.backend.url else {
        return Ok(None);
    };
    let proxy = ProxyServer::for_address(&url.to_url(), &config.proxies)?;
    Ok(proxy.map(|proxy| proxy.host_and_port()))
}

/// Connects to a host within the time limit, and closes the connection.
///
/// # Errors
/// [`ProbeFailure::NoConnection`].
pub async fn connect_once(
    (host, port): (String, u16),
    timeout: Duration,
) -> Result<(), ProbeFailure> {
    let connection = tokio::net::TcpStream::connect((host.as_str(), port));
    match tokio::time::timeout(timeout, connection).await {
        Ok(Ok(_)) => Ok(()),
        _ => Err(ProbeFailure::NoConnection { host, port }),
    }
}

/// Returns the required signature of requests, if one is configured.
pub(super) fn configured_request_auth(
    config: &Config,
    device: &DeviceId,
) -> anyhow::Result<Option<RequestAuth>> {
    let Some(key) = config.backend.request_key else {
        return Ok(None);
    };
    // An invalid key must not disable the check.
    let auth = RequestAuth::new(device.clone(), key.as_bytes());
    let auth = auth.ok_or_else(|| {
        exit::CommandError::with_exit(Exit::Config, "backend.request_key is no Ed25519 public key")
    })?;
    Ok(Some(auth))
}

/// Builds a Convex backend for this device.
pub fn convex_backend(
    config: &Config,
    home: &Home,
    identity: DeviceIdentity,
    redactor: &Redactor,
    pairing_code: Option<String>,
) -> anyhow::Result<ConvexBackend> {
    let credentials = DeviceCredentials {
        identity,
        name: host_name(),
        tokens: backend_tokens(config, home)?,
        redactor: redactor.clone(),
    };
    Ok(ConvexBackend::new(
        http_functions(config)?,
        credentials,
        pairing_code,
        config.limits.lease,
    ))
}

#[cfg(unix)]
fn host_name() -> String {
    let name = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    if name.is_empty() {
        "unnamed".to_owned()
    } else {
        name.chars().take(100).collect()
    }
}

#[cfg(not(unix))]
fn host_name() -> String {
    std::env::consts::OS.to_owned()
}

/// Builds the client of the backend's functions, for either side.
pub fn http_functions(config: &Config) -> anyhow::Result<HttpFunctions> {
    let url = config.backend.url.as_ref().ok_or_else(no_backend_error)?;
    if config.backend.kind == BackendKind::WebSocket {
        let text = "the configuration names a websocket backend, which has neither pairing nor callers; this command \
                    needs a convex one (kind under [backend])";
        return Err(exit::CommandError::with_exit(Exit::Config, text));
    }
    let options = TransportOptions {
        allow_insecure_http: config.backend.allow_insecure_http,
        proxies: config.proxies.clone(),
        ..TransportOptions::default()
    };
    let functions = HttpFunctions::new(url.as_str(), options)?;
    Ok(match config.value_origin("backend.url") {
        Some(origin @ (ValueOrigin::Variable(_) | ValueOrigin::File { .. })) => {
            functions.with_address_origin(&origin.to_string())
        }
        _ => functions,
    })
}
