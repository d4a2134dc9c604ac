//! Stored outputs as resources: their addresses, and the arguments of `ReadOutput` for a page.

use rmcp::model::Resource;
use serde_json::{Map, Value, json};

/// The beginning of the address of a stored output; its handle follows.
const OUTPUT_URI: &str = "punie-output://";
/// The form of the address of a page (RFC 6570).
pub(super) const PAGE_TEMPLATE: &str = "punie-output://{handle}{?offset,column}";
/// The most lines of a page. `ReadOutput` ends it earlier where they are long.
const MAX_PAGE_LINES: u64 = 10_000;

/// Describes a stored output. Its address is that of the first page.
pub(super) fn output_resource(handle: &str) -> Resource {
    Resource::new(format!("{OUTPUT_URI}{handle}"), handle)
        .with_title("The output of a call, from its first line")
        .with_mime_type("text/plain")
}

/// Returns the arguments of `ReadOutput` for the address of a page, if it is one.
pub(super) fn page_args(uri: &str) -> Option<Map<String, Value>> {
    let page = uri.strip_prefix(OUTPUT_URI)?;
    let (handle, query) = page.split_once('?').unwrap_or((page, ""));
    let mut args = Map::new();
    args.insert("handle".to_owned(), json!(handle));
    args.insert("limit".to_owned(), json!(MAX_PAGE_LINES));
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=')?;
        if !["offset", "column"].contains(&key) {
            return None;
        }
        args.insert(key.to_owned(), json!(value.parse::<u64>().ok()?));
    }
    Some(args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_a_page() {
        let args = |uri: &str| page_args(uri).map(Value::Object);
        assert_eq!(
            args("punie-output://out_1"),
            Some(json!({"handle": "out_1", "limit": MAX_PAGE_LINES}))
        );
        assert_eq!(
            args("punie-output://out_1?offset=20&column=7"),
            Some(json!({"handle": "out_1", "limit": MAX_PAGE_LINES, "offset": 20, "column": 7}))
        );
        for other in [
            "file:///etc/passwd",
            "punie-output://out_1?offset=x",
            "punie-output://out_1?offset",
            "punie-output://out_1?raw=true",
        ] {
            assert_eq!(args(other), None, "{other}");
        }
    }
}
