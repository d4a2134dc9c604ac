//! Builds the configured backend, for the device's side and for the caller's.

use std::sync::Arc;
use std::time::Duration;

use super::device::{IdentitySigner, StoredToken};
use crate::backend::{
    Backend, ConvexBackend, HttpFunctions, ProxyRules, TokenSource, TransportOptions,
    WebSocketBackend, WebSocketOptions,
};
use crate::cli::exit::{self, Exit};
use crate::config::{BackendKind, Config, ProxyVariables, ValueOrigin};
use crate::home::{BackendTokens, DeviceIdentity, Home, TokenName, command_to_type};
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
        id: backend_tokens(config, home)?.backend_id(),
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
        let known = backend_tokens(config, home)?.backend_id();
        let backend = convex_backend(config, home, identity, redactor, pairing_code)?;
        return Ok(Arc::new(
            backend
                .with_backend_id(known)
                .with_process_id(ProcessId::random()),
        ));
    }
    if pairing_code.is_some() {
        let file = backend_tokens(config, home)?.token_path(TokenName::Backend);
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
        proxies: proxy_rules(config),
    };
    let (tokens, redactor) = (backend_tokens(config, home)?, redactor.clone());
    let shown: TokenSource = Arc::new(move || match tokens.read_token(TokenName::Backend) {
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

/// Probes the backend's address and returns the problem as a keyword; `Err(None)` if there is no address.
pub async fn probe_configured(
    config: &Config,
    patience: Duration,
) -> Result<(), Option<&'static str>> {
    let url = config.backend.url.as_ref().ok_or(None)?;
    if config.backend.kind == BackendKind::Convex {
        let functions = http_functions(config).map_err(|_| None)?;
        return functions
            .probe_address(patience)
            .await
            .map_err(|error| Some(error.connection_problem().as_str()));
    }
    let place = match proxy_rules(config)
        .proxy_server_for(&url.to_url())
        .map_err(|_| None)?
    {
        Some(proxy) => proxy.proxy_host_and_port(),
        None => url.host_and_port(),
    };
    // Without a handshake: a worker may take a second connection of a device for the end of the first.
    match tokio::time::timeout(patience, tokio::net::TcpStream::connect(place)).await {
        Ok(Ok(_)) => Ok(()),
        _ => Err(Some("unreachable")),
    }
}

fn proxy_rules(config: &Config) -> ProxyRules {
    let ProxyVariables {
        http,
        https,
        all,
        no,
    } = config.proxies.clone();
    ProxyRules {
        http,
        https,
        all,
        no,
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
    let token = StoredToken::new(backend_tokens(config, home)?, redactor.clone());
    Ok(ConvexBackend::new(
        http_functions(config)?,
        Arc::new(IdentitySigner::new(identity)),
        Arc::new(token),
        pairing_code,
        config.limits.lease,
    ))
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
        proxies: proxy_rules(config),
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
