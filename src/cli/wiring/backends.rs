//! The backend as the configuration names it, for the device's side and for the caller's.

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

/// Where the backend of a process comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackendSource {
    /// The owner named it.
    Configured,
    /// This process runs it: nothing that belongs to a configured one is its.
    Embedded,
}

/// The tokens of the backend that the configuration names.
pub fn tokens(config: &Config, home: &Home) -> anyhow::Result<Tokens> {
    Ok(Tokens::of(home, config.backend.url.as_ref().ok_or_else(no_backend)?.as_str()))
}

/// Which backend it is, as far as that is known without asking it.
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

/// The backend as the configuration names it.
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
            // Masked in results from before it is shown for the first time.
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

/// Whether something answers at the backend's address, and if not, why in one word; none where there is no address.
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
    // No handshake: a worker may take a second connection of a device for the end of the first.
    match tokio::time::timeout(patience, tokio::net::TcpStream::connect(place)).await {
        Ok(Ok(_)) => Ok(()),
        _ => Err(Some("unreachable")),
    }
}

fn proxies(config: &Config) -> ProxyRules {
    let Proxies { http, https, all, no } = config.proxies.clone();
    ProxyRules { http, https, all, no }
}

/// Whose signature every request must have.
pub(super) fn request_auth(config: &Config, device: &DeviceId) -> anyhow::Result<Option<RequestAuth>> {
    let Some(key) = config.backend.request_key else { return Ok(None) };
    // Never without it because something is wrong with it.
    let auth = RequestAuth::new(device.clone(), key.bytes());
    let auth =
        auth.ok_or_else(|| exit::Stop::with(Exit::Config, "backend.request_key is no Ed25519 public key"))?;
    Ok(Some(auth))
}

/// A Convex backend as this device sees it.
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

/// The backend's functions, for whichever side.
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
