//! The proxy to a backend: the configured one, else the one of the environment. A backend on this machine is reached
//! directly.
//! Not here: reading the configuration (`config`), calls (`http`), sockets (`dial`).

use std::fmt;

use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use reqwest::Url;
use reqwest::header::HeaderValue;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::address::{BadUrl, is_loopback_url};
use punie_core::owner_choices::ProxyVariables;

/// The size limit of a proxy's answer to `CONNECT`.
const MAX_ANSWER: usize = 16 << 10;

/// A proxy that speaks HTTP.
#[derive(Clone)]
pub struct ProxyServer {
    /// Its address, without user name and password.
    url: Url,
    authorization: Option<HeaderValue>,
}

impl fmt::Debug for ProxyServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyServer")
            .field("url", &self.url.as_str())
            .finish_non_exhaustive()
    }
}

impl ProxyServer {
    /// Returns the proxy for this address.
    ///
    /// # Errors
    /// [`BadUrl::Proxy`] for a proxy that does not speak HTTP.
    pub fn for_address(url: &Url, proxies: &ProxyVariables) -> Result<Option<Self>, BadUrl> {
        if is_loopback_url(url) {
            return Ok(None);
        }
        let matcher = Matcher::builder()
            .http(proxies.http.as_str())
            .https(proxies.https.as_str())
            .all(proxies.all.as_str())
            .no(proxies.no.as_str())
            .build();
        // `ws` becomes `http` and `wss` becomes `https`.
        let scheme = if matches!(url.scheme(), "https" | "wss") {
            "https"
        } else {
            "http"
        };
        let target = format!("{scheme}://{}/", url.authority()).parse();
        let Some(found) = target.ok().and_then(|target| matcher.intercept(&target)) else {
            return Ok(None);
        };
        Self::new(&found).map(Some)
    }

    fn new(found: &Intercept) -> Result<Self, BadUrl> {
        let scheme = found.uri().scheme_str().unwrap_or_default();
        if !matches!(scheme, "http" | "https") {
            return Err(BadUrl::Proxy(format!(
                "a proxy of the kind {scheme:?} is not supported"
            )));
        }
        let url = Url::parse(&found.uri().to_string()).map_err(|cause| {
            BadUrl::Proxy(format!("the proxy's address cannot be read: {cause}"))
        })?;
        let mut authorization = found.basic_auth().cloned();
        if let Some(value) = &mut authorization {
            value.set_sensitive(true);
        }
        Ok(Self { url, authorization })
    }

    /// Returns the host and the port to connect to.
    pub fn host_and_port(&self) -> (String, u16) {
        let host = self
            .url
            .host_str()
            .unwrap_or_default()
            .trim_matches(['[', ']'])
            .to_owned();
        (host, self.url.port_or_known_default().unwrap_or(80))
    }

    /// Returns whether the connection to the proxy itself is encrypted.
    pub(super) fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Returns the proxy in the HTTP client's form.
    pub(super) fn to_reqwest(&self) -> reqwest::Result<reqwest::Proxy> {
        let proxy = reqwest::Proxy::all(self.url.clone())?;
        Ok(match &self.authorization {
            Some(value) => proxy.custom_http_auth(value.clone()),
            None => proxy,
        })
    }

    /// Opens a tunnel to a host on this connection to the proxy (`CONNECT`, RFC 9110 section 9.3.6).
    ///
    /// # Errors
    /// The reason why there is no tunnel.
    pub(super) async fn open_tunnel(
        &self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        host: &str,
        port: u16,
    ) -> Result<(), String> {
        let host = if host.contains(':') {
            format!("[{host}]")
        } else {
            host.to_owned()
        };
        let mut request =
            format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n").into_bytes();
        if let Some(value) = &self.authorization {
            request.extend_from_slice(b"Proxy-Authorization: ");
            request.extend_from_slice(value.as_bytes());
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"\r\n");
        stream
            .write_all(&request)
            .await
            .map_err(|cause| cause.to_string())?;
        stream.flush().await.map_err(|cause| cause.to_string())?;
        let mut answer = Vec::new();
        // Byte by byte, because the bytes after the head belong to the tunnel.
        while !answer.ends_with(b"\r\n\r\n") {
            if answer.len() >= MAX_ANSWER {
                return Err("the proxy's answer is too long".to_owned());
            }
            answer.push(
                stream
                    .read_u8()
                    .await
                    .map_err(|cause| format!("the proxy hung up: {cause}"))?,
            );
        }
        let line = String::from_utf8_lossy(&answer);
        let status = line.split_ascii_whitespace().nth(1).unwrap_or_default();
        match status {
            _ if status.starts_with('2') => Ok(()),
            "407" => Err("the proxy wants another user name or password (407)".to_owned()),
            _ => Err(format!("the proxy refused a tunnel ({status:.3})")),
        }
    }
}
