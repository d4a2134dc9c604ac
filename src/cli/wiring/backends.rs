//! The backend as the configuration names it, for the device's side and for the caller's.

use std::sync::Arc;
use std::time::Duration;

use super::{Device, StoredToken};
use crate::backend::{
    Backend, ConvexBackend, HttpFunctions, ShownToken, TransportOptions, WebSocketBackend, WebSocketOptions,
};
use crate::cli::exit::{self, Exit};
use crate::config::{BackendKind, Config};
use crate::home::{DeviceIdentity, Home, TokenName, Tokens};
use crate::ids::{DeviceId, ProcessId};
use crate::redact::Redactor;
use crate::request::RequestAuth;

/// The backend as the configuration names it.
pub(super) fn device_backend(
    config: &Config,
    home: &Home,
    identity: DeviceIdentity,
    redactor: &Redactor,
    pairing_code: Option<String>,
) -> anyhow::Result<Arc<dyn Backend>> {
    if config.backend.kind == BackendKind::Convex {
        let backend = backend(config, home, identity, redactor, pairing_code)?;
        return Ok(Arc::new(backend.with_process(ProcessId::random())));
    }
    if pairing_code.is_some() {
        let text =
            "a websocket backend knows no pairing: put its token into tokens/backend of the home instead";
        return Err(exit::Stop::with(Exit::Config, text));
    }
    let url = config.backend.url.as_ref().ok_or_else(no_backend)?;
    let options = WebSocketOptions {
        ping: config.websocket.ping,
        pong_timeout: config.websocket.pong_timeout,
        allow_insecure: config.backend.allow_insecure_http,
    };
    let (tokens, redactor) = (Tokens::of(home), redactor.clone());
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
        return functions.probe(patience).await.map_err(|error| Some(error.trouble()));
    }
    // No handshake: a worker may take a second connection of a device for the end of the first.
    match tokio::time::timeout(patience, tokio::net::TcpStream::connect(url.place())).await {
        Ok(Ok(_)) => Ok(()),
        _ => Err(Some("unreachable")),
    }
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
    let token = StoredToken::new(Tokens::of(home), redactor.clone());
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
        ..TransportOptions::default()
    };
    Ok(HttpFunctions::new(url.as_str(), options)?)
}
