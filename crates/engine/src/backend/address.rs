//! The addresses at which a backend may be: encrypted, or on this machine.

use reqwest::Url;

/// The reason why an address cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BadUrl {
    /// It is not a URL.
    #[error("{0:?} is not a URL like https://name.convex.cloud: {1}")]
    Unparsable(String, String),
    /// It would send the token in the clear.
    #[error(
        "{0} is plain http to another machine, which would show the token to everyone in between; use https"
    )]
    Insecure(String),
    /// It contains a password, which would end up in logs.
    #[error("the backend's address must not carry a user name or password")]
    Credentials,
    /// The proxy cannot be used.
    #[error("{0}; set `proxy` under [backend] to an http proxy, or to \"none\"")]
    Proxy(String),
    /// The HTTP client cannot be set up.
    #[error("the HTTP client cannot be set up: {0}")]
    Client(String),
}

/// Parses a backend's address: one of the scheme `encrypted`, or one of the scheme `plain` on this machine. With
/// `allow_insecure`, plain addresses of other machines are allowed, too.
///
/// # Errors
/// [`BadUrl`].
pub(super) fn parse_address(
    text: &str,
    encrypted: &str,
    plain: &str,
    allow_insecure: bool,
) -> Result<Url, BadUrl> {
    let unparsable = |why: String| BadUrl::Unparsable(text.to_owned(), why);
    let url = Url::parse(text).map_err(|cause| unparsable(cause.to_string()))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(BadUrl::Credentials);
    }
    match url.scheme() {
        scheme if scheme == encrypted => Ok(url),
        scheme if scheme == plain && (is_loopback_url(&url) || allow_insecure) => Ok(url),
        scheme if scheme == plain => Err(BadUrl::Insecure(url.to_string())),
        other => Err(unparsable(format!("the scheme {other} is not {encrypted}"))),
    }
}

/// Returns whether the address is on this machine.
pub(super) fn is_loopback_url(url: &Url) -> bool {
    url.host_str().is_some_and(|host| {
        host == "localhost"
            || host
                .trim_matches(['[', ']'])
                .parse::<std::net::IpAddr>()
                .is_ok_and(|address| address.is_loopback())
    })
}
