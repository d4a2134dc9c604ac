//! Addresses of pages: the host that stands for a page, and the pages that are never counted.

use url::{Host, Url};

/// The longer address is a document in itself (`data:`), not the address of a page.
const MAX_ADDRESS_BYTES: usize = 16 << 10;
/// Labels of hosts that only log people in.
const LOGIN_LABELS: &[&str] = &[
    "accounts", "auth", "idp", "login", "logon", "oauth", "signin", "sso",
];
/// Segments of paths at which people log in or out, or get a new password.
const LOGIN_SEGMENTS: &[&str] = &[
    "authorize",
    "forgot-password",
    "log-in",
    "login",
    "logon",
    "logout",
    "oauth",
    "oauth2",
    "password-reset",
    "password_reset",
    "reset-password",
    "reset_password",
    "saml",
    "saml2",
    "sign-in",
    "sign_in",
    "signin",
    "signout",
    "sso",
];

/// Returns the host of a page: in lower case, without port, user, password, and one leading `www.`, `m.` or `mobile.`.
/// `None` if the page is not counted: on this computer, no web page at all, or a page at which people log in.
pub(super) fn counted_host(address: &str) -> Option<String> {
    if address.len() > MAX_ADDRESS_BYTES {
        return None;
    }
    let url = Url::parse(address).ok()?;
    if !matches!(url.scheme(), "http" | "https") || is_login_page(&url) {
        return None;
    }
    let host = match url.host()? {
        Host::Ipv4(address) if address.is_loopback() || address.is_unspecified() => return None,
        Host::Ipv6(address) if address.is_loopback() || address.is_unspecified() => return None,
        Host::Domain(domain) => shorten_domain(domain),
        other => other.to_string(),
    };
    let is_here = host == "localhost" || host.ends_with(".localhost");
    (!host.is_empty() && !is_here).then_some(host)
}

fn shorten_domain(domain: &str) -> String {
    let domain = domain.trim_end_matches('.');
    let prefixes = ["www.", "m.", "mobile."];
    let rest = prefixes
        .iter()
        .find_map(|prefix| domain.strip_prefix(prefix));
    // `m.com` is a host of its own.
    rest.filter(|rest| rest.contains('.'))
        .unwrap_or(domain)
        .to_owned()
}

fn is_login_page(url: &Url) -> bool {
    let domain = url.domain().unwrap_or_default().trim_end_matches('.');
    let labels: Vec<&str> = domain.split('.').collect();
    // The last label is a country or the like. `id` is also one, and stands before others: example.id, example.id.au.
    let (_, before_last) = labels.split_last().unwrap_or((&"", &[]));
    let is_login_host = before_last.iter().any(|label| LOGIN_LABELS.contains(label))
        || before_last.first() == Some(&"id");
    let mut segments = url.path_segments().into_iter().flatten();
    is_login_host || segments.any(is_login_segment)
}

fn is_login_segment(segment: &str) -> bool {
    // `login.php` is the same page.
    let name = segment.split('.').next().unwrap_or_default();
    LOGIN_SEGMENTS
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_parsed_and_not_searched_for() {
        let hosts = [
            ("https://www.GitHub.com/rust-lang", "github.com"),
            ("http://user:secret@docs.rs:8080/tokio?token=1#x", "docs.rs"),
            ("https://m.example.org", "example.org"),
            ("https://mobile.example.org/", "example.org"),
            ("https://search.example/?q=github.com", "search.example"),
            ("https://m.com/", "m.com"),
            ("https://xn--bcher-kva.example/", "xn--bcher-kva.example"),
            ("https://192.0.2.7:8443/", "192.0.2.7"),
        ];
        for (address, host) in hosts {
            assert_eq!(counted_host(address).as_deref(), Some(host), "{address}");
        }
    }

    #[test]
    fn login_hosts_are_told_by_whole_labels() {
        let counted = [
            "https://madrid.es/",
            "https://android.com/",
            "https://tokopedia.id/",
            "https://shop.example.id.au/",
            "https://authors.example/",
            "https://blogin.example/",
            "https://example.org/authors/login-theory",
        ];
        for address in counted {
            assert!(counted_host(address).is_some(), "{address}");
        }
        let hidden = [
            "https://accounts.google.com/x",
            "https://login.microsoftonline.com/",
            "https://id.example.com/",
            "https://eu.login.example.com/",
            "https://login.gov/",
            "https://sso.example.org:444/a",
            "https://github.com/login",
            "https://example.org/Login.php?next=/",
            "https://github.com/login/oauth/authorize",
        ];
        for address in hidden {
            assert_eq!(counted_host(address), None, "{address}");
        }
    }

    #[test]
    fn pages_on_this_computer_and_what_is_no_page_are_not_counted() {
        let others = [
            "http://localhost:3000/",
            "http://app.localhost/",
            "http://127.0.0.1/",
            "http://127.8.0.1/",
            "http://[::1]/",
            "http://0.0.0.0:8000/",
            "file:///home/x",
            "chrome://settings",
            "about:config",
            "moz-extension://x/y",
            "",
            "not an address",
            "javascript:alert(1)",
        ];
        for address in others {
            assert_eq!(counted_host(address), None, "{address}");
        }
        assert_eq!(
            counted_host(&format!("https://e.example/{}", "a".repeat(20_000))),
            None
        );
    }
}
