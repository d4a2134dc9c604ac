//! The door to heads of Markdown files for the fuzz targets. Absent from every normal build. Not here: the reading
//! (frontmatter).

use std::collections::BTreeMap;

use super::frontmatter;

/// Reads a head as any fields at all, and as lists; a text without one is all body.
pub(crate) fn head(text: &str) {
    let read = frontmatter::parse::<BTreeMap<String, serde_json::Value>>(text);
    let _ = frontmatter::parse::<BTreeMap<String, frontmatter::List>>(text);
    if let Ok((fields, body)) = read
        && !text.trim_start_matches('\u{FEFF}').starts_with("---")
    {
        assert!(fields.is_empty());
        assert_eq!(body, text.strip_prefix('\u{FEFF}').unwrap_or(text).replace("\r\n", "\n"));
    }
}
