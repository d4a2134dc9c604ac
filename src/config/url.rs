//! The backend's address, checked on entry.

use std::fmt;
use std::net::IpAddr;

use reqwest::Url;

/// The address of a backend: `http`, `https`, `ws` or `wss`, a host, and no credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendUrl(Url);

impl BackendUrl {
    /// Parses the address. Errors do not repeat the text, because it may hold a password.
    ///
    /// # Errors
    /// A sentence for people.
    pub fn parse(text: &str) -> Result<Self, String> {
        let url = Url::parse(text.trim()).map_err(|error| {
            format!("the address is not a URL ({error}). Write it as https://host")
        })?;
        if !matches!(url.scheme(), "http" | "https" | "ws" | "wss") {
            return Err(format!(
                "the address begins with {}:, not with https:// (for this machine http:// is right too)",
                url.scheme()
            ));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(
                "the address has a user or a password in it. Take them out: addresses are logged"
                    .to_owned(),
            );
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(
                "the address has a ? or # part. Give the address of the deployment alone"
                    .to_owned(),
            );
        }
        Ok(Self(url))
    }

    /// Returns the address without a trailing slash, so that a path can be appended.
    pub fn as_str(&self) -> &str {
        self.0.as_str().trim_end_matches('/')
    }

    /// Returns the address as a URL for HTTP clients.
    pub fn to_url(&self) -> Url {
        self.0.clone()
    }

    /// Returns whether the address leads only to this machine.
    pub fn is_loopback(&self) -> bool {
        let host = self.0.host_str().unwrap_or_default();
        let address = host.trim_start_matches('[').trim_end_matches(']');
        host == "localhost"
            || address
                .parse::<IpAddr>()
                .is_ok_and(|address| address.is_loopback())
    }

    /// Returns whether others on the network can read the traffic.
    pub fn is_plaintext_remote(&self) -> bool {
        matches!(self.0.scheme(), "http" | "ws") && !self.is_loopback()
    }

    /// Returns whether the scheme is a WebSocket's.
    pub fn is_websocket(&self) -> bool {
        matches!(self.0.scheme(), "ws" | "wss")
    }

    /// Returns the scheme: `https`, `http`, `wss` or `ws`.
    pub fn scheme(&self) -> &str {
        self.0.scheme()
    }

    /// Returns host and port, to test for a listener.
    pub fn host_and_port(&self) -> (String, u16) {
        let host = self
            .0
            .host_str()
            .unwrap_or_default()
            .trim_matches(['[', ']'])
            .to_owned();
        (host, self.0.port_or_known_default().unwrap_or(443))
    }
}

impl fmt::Display for BackendUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_without_its_last_slash() {
        for (given, taken) in [
            ("https://a.convex.cloud", "https://a.convex.cloud"),
            (" http://127.0.0.1:3210/ ", "http://127.0.0.1:3210"),
            ("HTTPS://Example.COM/convex/", "https://example.com/convex"),
        ] {
            assert_eq!(BackendUrl::parse(given).expect(given).as_str(), taken);
        }
    }

    #[test]
    fn what_is_no_address_is_refused_without_repeating_it() {
        for given in [
            "",
            "example.com",
            "ftp://example.com",
            "https://",
            "https://me:hunter2@example.com",
            "https://hunter2@example.com",
            "https://example.com/?token=hunter2",
            "https://example.com/#hunter2",
        ] {
            let refused = BackendUrl::parse(given).expect_err(given);
            assert!(!refused.contains("hunter2"), "{refused}");
        }
    }

    #[test]
    fn only_this_machine_is_loopback() {
        for (given, loopback) in [
            ("http://localhost:1", true),
            ("http://127.0.0.1", true),
            ("http://127.9.9.9", true),
            ("http://2130706433", true),
            ("http://[::1]:80", true),
            ("http://localhost.example.com", false),
            ("http://127.0.0.1.example.com", false),
            ("http://0.0.0.0", false),
            ("http://192.168.1.2", false),
            ("http://[::2]", false),
        ] {
            assert_eq!(
                BackendUrl::parse(given).expect(given).is_loopback(),
                loopback,
                "{given}"
            );
        }
        assert!(
            !BackendUrl::parse("https://example.com")
                .expect("good")
                .is_plaintext_remote()
        );
    }
}
