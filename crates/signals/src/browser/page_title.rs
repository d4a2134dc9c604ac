//! Titles of pages: cleaned, and told apart from those that say nothing about the page.

use crate::plain_text::clean_title;

/// Titles that a page has while it loads, checks its visitor, or fails.
const NOISE_TITLES: &[&str] = &[
    "access denied",
    "attention required! | cloudflare",
    "authenticating",
    "checking your browser",
    "document",
    "error",
    "forbidden",
    "home",
    "internal server error",
    "just a moment",
    "loading",
    "new tab",
    "no title",
    "not found",
    "object moved",
    "page not found",
    "please wait",
    "problem loading page",
    "redirect",
    "redirecting",
    "sign in",
    "log in",
    "login",
    "server not found",
    "untitled",
    "untitled document",
];
/// Beginnings of titles of the same kind.
const NOISE_BEGINNINGS: &[&str] = &[
    "checking your browser",
    "just a moment",
    "log in to ",
    "loading ",
    "please wait",
    "redirecting",
    "sign in to ",
    "sign in - ",
    "verify you are human",
];

/// Cleans a title. Empty if it only repeats the host.
pub(super) fn shown_title(title: &str, host: &str) -> String {
    let title = clean_title(title);
    let is_host = title.trim_start_matches("www.").eq_ignore_ascii_case(host);
    if is_host { String::new() } else { title }
}

/// Returns whether a title says nothing about its page: an error, a check of the visitor, an address.
pub(super) fn is_noise_title(title: &str) -> bool {
    let lower = title.to_lowercase();
    let bare = lower.trim_end_matches(['.', '…', ' ', '!']);
    bare.is_empty()
        || NOISE_TITLES.contains(&bare)
        || NOISE_BEGINNINGS
            .iter()
            .any(|begin| lower.starts_with(begin))
        || is_http_error(&lower)
        || is_address(&lower)
}

/// `404 Not Found`, `Error 503`, `HTTP 500 - Internal Server Error`.
fn is_http_error(lower: &str) -> bool {
    let rest = lower
        .trim_start_matches("http ")
        .trim_start_matches("error ");
    let (code, after) = rest.split_at_checked(3).unwrap_or((rest, ""));
    let is_code = code.starts_with(['4', '5']) && code.chars().all(|c| c.is_ascii_digit());
    let names_the_error = [
        "error",
        "not found",
        "forbidden",
        "bad ",
        "denied",
        "unavailable",
        "unauthorized",
        "timeout",
    ];
    is_code && (after.is_empty() || names_the_error.iter().any(|name| after.contains(name)))
}

fn is_address(lower: &str) -> bool {
    let is_one_word = !lower.contains(' ');
    is_one_word && (lower.contains("://") || (lower.contains('/') && lower.contains('.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_of_errors_checks_and_addresses_are_noise() {
        for title in [
            "",
            "Just a moment...",
            "Loading…",
            "404 Not Found",
            "Error 503",
            "HTTP 500 - Internal Server Error",
            "Untitled",
            "https://example.org/a",
            "example.org/a/b.html",
            "Redirecting to example",
            "502 Bad Gateway",
        ] {
            assert!(is_noise_title(title), "{title}");
        }
    }

    #[test]
    fn titles_of_pages_are_none() {
        for title in [
            "500 days of summer",
            "Error handling in Rust",
            "CI/CD explained",
            "404 Media",
            "tokio - Rust",
        ] {
            assert!(!is_noise_title(title), "{title}");
        }
    }

    #[test]
    fn a_title_that_is_the_host_is_left_out() {
        assert_eq!(shown_title("www.Example.org", "example.org"), "");
        assert_eq!(shown_title("Example", "example.org"), "Example");
    }
}
