//! Builds the configured backend, for the device's side and for the caller's.

use std::sync::Arc;
use std::time::Duration;

use super::{Device, StoredToken};
use crate::backend::{
    Backend, ConvexBackend, HttpFunctions, ProxyRules, ShownToken, TransportOptions, WebSocketBackend,
    WebSocketOptions,
};
use crate::cli::exit::{self, Exit};
use crate::config::{BackendKind, Config, Proxies};
use crate::home::{DeviceIdentity, Home, TokenName, Tokens};
use crate::ids::{DeviceId, ProcessId};
use crate::journal::BackendIdentity;
use crate::redact::Redactor;
use crate::request::RequestAuth;

/// The origin of a process's backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackendSource {
    /// Named by the owner.
    Configured,
    /// Run by this process; it does not use the state of a configured backend.
    Embedded,
}

/// Returns the tokens of the configured backend.
pub fn tokens(config: &Config, home: &Home) -> anyhow::Result<Tokens> {
    Ok(Tokens::of(home, config.backend.url.as_ref().ok_or_else(no_backend)?.as_str()))
}

/// Returns the identity of the backend, as far as it is known without a request.
pub(super) fn identity(
    config: &Config,
    home: &Home,
    source: BackendSource,
) -> anyhow::Result<BackendIdentity> {
    let url = config.backend.url.as_ref().ok_or_else(no_backend)?;
    Ok(BackendIdentity {
        address: url.as_str().to_owned(),
        id: tokens(config, home)?.backend_id(),
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
        let known = tokens(config, home)?.backend_id();
        let backend = backend(config, home, identity, redactor, pairing_code)?;
        return Ok(Arc::new(backend.only_with(known).with_process(ProcessId::random())));
    }
    if pairing_code.is_some() {
        let file = tokens(config, home)?.path(TokenName::Backend);
        let text =
            format!("a websocket backend knows no pairing: put its token into {} instead", file.display());
        return Err(exit::Stop::with(Exit::Config, text));
    }
    let url = config.backend.url.as_ref().ok_or_else(no_backend)?;
    let options = WebSocketOptions {
        ping: config.websocket.ping,
        pong_timeout: config.websocket.pong_timeout,
        allow_insecure: config.backend.allow_insecure_http,
        proxies: proxies(config),
    };
    let (tokens, redactor) = (tokens(config, home)?, redactor.clone());
    let shown: ShownToken = Arc::new(move || match tokens.read(TokenName::Backend) {
        Ok(token) => {
            // Mask it in results before it is used for the first time.
            if let Some(token) = &token {
                redactor.add(token);
            }
            token
        }
        Err(error) => {
            tracing::warn!(%error, "the worker is shown no token");
            None
        }
    });
    Ok(Arc::new(WebSocketBackend::new(url.as_str(), shown, &options)?))
}

fn no_backend() -> anyhow::Error {
    let text = "no backend is set: give --backend-url (PUNIE_BACKEND_URL), or `url` under [backend] in config.toml; \
                `punie-runner dev` starts one of its own";
    exit::Stop::with(Exit::Config, text)
}

/// Probes the backend's address and returns the problem as a keyword; `Err(None)` if there is no address.
pub async fn probe(config: &Config, patience: Duration) -> Result<(), Option<&'static str>> {
    let url = config.backend.url.as_ref().ok_or(None)?;
    if config.backend.kind == BackendKind::Convex {
        let functions = functions(config).map_err(|_| None)?;
        return functions.probe(patience).await.map_err(|error| Some(error.problem().as_str()));
    }
    let place = match proxies(config).server_for(&url.to_url()).map_err(|_| None)? {
        Some(proxy) => proxy.place(),
        None => url.place(),
    };
    // Without a handshake: a worker may take a second connection of a device for the end of the first.
    match tokio::time::timeout(patience, tokio::net::TcpStream::connect(place)).await {
        Ok(Ok(_)) => Ok(()),
        _ => Err(Some("unreachable")),
    }
}

fn proxies(config: &Config) -> ProxyRules {
    let Proxies { http, https, all, no } = config.proxies.clone();
    ProxyRules { http, https, all, no }
}

/// Returns the required signature of requests, if one is configured.
pub(super) fn request_auth(config: &Config, device: &DeviceId) -> anyhow::Result<Option<RequestAuth>> {
    let Some(key) = config.backend.request_key else { return Ok(None) };
    // An invalid key must not disable the check.
    let auth = RequestAuth::new(device.clone(), key.bytes());
    let auth =
        auth.ok_or_else(|| exit::Stop::with(Exit::Config, "backend.request_key is no Ed25519 public key"))?;
    Ok(Some(auth))
}

/// Builds a Convex backend for this device.
pub fn backend(
    config: &Config,
    home: &Home,
    identity: DeviceIdentity,
    redactor: &Redactor,
    pairing_code: Option<String>,
) -> anyhow::Result<ConvexBackend> {
    let token = StoredToken::new(tokens(config, home)?, redactor.clone());
    Ok(ConvexBackend::new(
        functions(config)?,
        Arc::new(Device::new(identity)),
        Arc::new(token),
        pairing_code,
        config.limits.lease,
    ))
}

/// Builds the client of the backend's functions, for either side.
pub fn functions(config: &Config) -> anyhow::Result<HttpFunctions> {
    let url = config.backend.url.as_ref().ok_or_else(no_backend)?;
    if config.backend.kind == BackendKind::WebSocket {
        let text = "the configuration names a websocket backend, which has neither pairing nor callers; this command \
                    needs a convex one (kind under [backend])";
        return Err(exit::Stop::with(Exit::Config, text));
    }
    let options = TransportOptions {
        allow_insecure_http: config.backend.allow_insecure_http,
        proxies: proxies(config),
        ..TransportOptions::default()
    };
    Ok(HttpFunctions::new(url.as_str(), options)?)
}
