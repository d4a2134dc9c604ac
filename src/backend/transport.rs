//! The way to a backend: which addresses are allowed, its limits, the HTTP client. Not here: what is said on it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::Resolve;
use reqwest::{Client, Url};

use super::proxy::{ProxyRules, ProxyServer};

/// The limits of the transport.
#[derive(Clone)]
pub struct TransportOptions {
    /// Until a connection stands.
    pub connect_timeout: Duration,
    /// Until the whole answer is there, once the body is sent. A call that asks to be held has that long and ten seconds
    /// more.
    pub total_timeout: Duration,
    /// The largest answer that is read, after decompression.
    pub max_answer_bytes: usize,
    /// Whether plain `http` is allowed to hosts other than this machine.
    pub allow_insecure_http: bool,
    /// The proxies that there are.
    pub proxies: ProxyRules,
    /// Who finds the addresses of a name; the system where nobody is named.
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
            // A page of the contract's 4 MiB, escaped once more at worst, and more than any function may return.
            max_answer_bytes: 24 << 20,
            allow_insecure_http: false,
            proxies: ProxyRules::default(),
            resolver: None,
        }
    }
}

/// The address cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BadUrl {
    /// It is not an address.
    #[error("{0:?} is not a URL like https://name.convex.cloud: {1}")]
    Unparsable(String, String),
    /// It would send the token in the clear.
    #[error(
        "{0} is plain http to another machine, which would show the token to everyone in between; use https"
    )]
    Insecure(String),
    /// It carries a password, which would end in logs.
    #[error("the backend's address must not carry a user name or password")]
    Credentials,
    /// The proxy cannot be used.
    #[error("{0}; set `proxy` under [backend] to an http proxy, or to \"none\"")]
    Proxy(String),
    /// The HTTP client cannot be set up.
    #[error("the HTTP client cannot be set up: {0}")]
    Client(String),
}

/// The HTTP client for this address.
///
/// # Errors
/// It cannot be set up.
pub(super) fn build_client(
    base: &Url,
    proxy: Option<&ProxyServer>,
    options: &TransportOptions,
) -> reqwest::Result<Client> {
    // Longer than the time between two heartbeats, which would else each open a connection; what stands between may
    // forget one that was silent for longer. On this machine nothing does, and a timer to look would wake an idle device
    // for nothing else.
    let idle = (!is_loopback(base)).then_some(Duration::from_secs(90));
    let mut client = Client::builder()
        .connect_timeout(options.connect_timeout)
        .pool_idle_timeout(idle)
        .tcp_nodelay(true)
        .redirect(reqwest::redirect::Policy::none())
        // Which proxy there is, if any, is decided here, for calls and sockets alike.
        .no_proxy();
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        // The system would count a line that is slow, and waited for here (upload), as one that is dead.
        client = client.tcp_user_timeout(None);
    }
    if let Some(proxy) = proxy {
        client = client.proxy(proxy.for_client()?);
    }
    if base.scheme() == "http" && proxy.is_none_or(|proxy| !proxy.is_https()) {
        // No certificate will ever be looked at; reading the system's takes longer than all else at the start.
        client = client.tls_certs_only([]);
    }
    if let Some(resolver) = &options.resolver {
        client = client.dns_resolver(Arc::clone(resolver));
    }
    client.build()
}

/// Whether the address is on this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    url.host_str().is_some_and(|host| {
        host == "localhost"
            || host
                .trim_matches(['[', ']'])
                .parse::<std::net::IpAddr>()
                .is_ok_and(|address| address.is_loopback())
    })
}
