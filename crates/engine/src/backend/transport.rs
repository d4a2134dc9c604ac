//! The connection settings for a backend: limits, and the HTTP client.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::Resolve;
use reqwest::{Client, Url};

use super::address::{BadUrl, is_loopback_url};
use super::proxy::ProxyServer;
use punie_core::owner_choices::ProxyVariables;

/// The limits of the transport.
#[derive(Clone)]
pub struct TransportOptions {
    /// The time limit for connecting.
    pub connect_timeout: Duration,
    /// The time limit from the sent body to the complete answer. A call that asks to be held has ten seconds more than
    /// the hold.
    pub total_timeout: Duration,
    /// The largest answer that is accepted, after decompression.
    pub max_answer_bytes: usize,
    /// Allows plain `http` to other hosts than this machine.
    pub allow_insecure_http: bool,
    /// The proxies to use.
    pub proxies: ProxyVariables,
    /// The name resolver; the system's if absent.
    pub resolver: Option<Arc<dyn Resolve>>,
}

impl fmt::Debug for TransportOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransportOptions")
            .field("connect_timeout", &self.connect_timeout)
            .field("total_timeout", &self.total_timeout)
            .field("max_answer_bytes", &self.max_answer_bytes)
            .field("allow_insecure_http", &self.allow_insecure_http)
            .finish_non_exhaustive()
    }
}

impl Default for TransportOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            total_timeout: Duration::from_secs(30),
            // A page of the contract has 4 MiB, at worst escaped once more. This is more than any function may return.
            max_answer_bytes: 24 << 20,
            allow_insecure_http: false,
            proxies: ProxyVariables::default(),
            resolver: None,
        }
    }
}

/// Makes ring the implementation behind TLS. A second call has no effect.
pub(super) fn install_crypto_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Builds a client that downloads files from this address. It follows redirects, and limits the silence of the other side
/// instead of the time for the whole file.
///
/// # Errors
/// [`BadUrl`]: it or its proxy cannot be used.
pub fn build_download_client(base: &Url, proxies: &ProxyVariables) -> Result<Client, BadUrl> {
    install_crypto_provider();
    let mut client = Client::builder()
        .connect_timeout(Duration::from_secs(10))
        .read_timeout(Duration::from_secs(30))
        .no_proxy();
    if let Some(proxy) = ProxyServer::for_address(base, proxies)? {
        let proxy = proxy.to_reqwest();
        client = client.proxy(proxy.map_err(|cause| BadUrl::Client(cause.to_string()))?);
    }
    client
        .build()
        .map_err(|cause| BadUrl::Client(cause.to_string()))
}

/// Builds the HTTP client for this address.
///
/// # Errors
/// It cannot be set up.
pub(super) fn build_client(
    base: &Url,
    proxy: Option<&ProxyServer>,
    options: &TransportOptions,
) -> reqwest::Result<Client> {
    let is_local = is_loopback_url(base);
    // Longer than the time between two heartbeats, which would otherwise each open a connection. A router or proxy may
    // drop a connection that was idle for longer. On this machine there is none, and an idle timer would wake the
    // device for nothing.
    let idle = (!is_local).then_some(Duration::from_secs(90));
    let mut client = Client::builder()
        .connect_timeout(options.connect_timeout)
        .pool_idle_timeout(idle)
        .tcp_nodelay(true)
        .redirect(reqwest::redirect::Policy::none())
        // The proxy is chosen by this program, the same for calls and sockets.
        .no_proxy();
    if is_local {
        // Nothing ends those of a busy time, and a new one is cheap here.
        client = client.pool_max_idle_per_host(2);
    }
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        // The system would treat a slow upload, which `upload` waits for, as a dead connection.
        client = client.tcp_user_timeout(None);
    }
    if let Some(proxy) = proxy {
        client = client.proxy(proxy.to_reqwest()?);
    }
    if base.scheme() == "http" && proxy.is_none_or(|proxy| !proxy.is_https()) {
        // No certificate will be checked, and loading the system's takes longer than everything else at the start.
        client = client.tls_certs_only([]);
    }
    if let Some(resolver) = &options.resolver {
        client = client.dns_resolver(Arc::clone(resolver));
    }
    client.build()
}
