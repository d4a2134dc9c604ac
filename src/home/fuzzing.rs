//! The entry point of the fuzz targets to Markdown heads. Absent from release builds.

use std::collections::BTreeMap;

use super::frontmatter;

/// Parses a head as arbitrary fields, and as lists.
///
/// # Panics
/// Where a text without a head is not all body.
pub fn head(data: &[u8]) {
    let text = &*String::from_utf8_lossy(data);
    let read = frontmatter::parse_frontmatter::<BTreeMap<String, serde_json::Value>>(text);
    let _ = frontmatter::parse_frontmatter::<BTreeMap<String, frontmatter::TextList>>(text);
    if let Ok(frontmatter::Frontmatter { fields, body, .. }) = read
        && !text.trim_start_matches('\u{FEFF}').starts_with("---")
    {
        assert!(fields.is_empty());
        assert_eq!(
            body,
            text.strip_prefix('\u{FEFF}')
                .unwrap_or(text)
                .replace("\r\n", "\n")
        );
    }
}
