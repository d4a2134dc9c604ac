//! The texts in place of output that is not shown: binary data and NUL bytes. Also tells which held-back text is too
//! short to hide.

use std::fmt::Write as _;

use crate::file_content::classify_content;
use punie_text::output::BinaryRun;
use punie_text::output::number_format::{format_count, format_size};

/// Held-back text below this length is shown although a secret may begin with it. A prompt would lose its last letter
/// otherwise, and so few bytes reveal no secret.
const HARMLESS_BYTES: usize = 4;

/// Returns whether text is so short that it may be shown although a secret may begin with it.
pub(super) fn is_too_short_for_secret(visible: &str) -> bool {
    visible.len() < HARMLESS_BYTES && !visible.contains(|c: char| c.is_control() || c == '\u{fffd}')
}

/// Builds the line that replaces binary data.
pub(super) fn binary_placeholder(run: &BinaryRun) -> String {
    let kind = classify_content(&run.first, false)
        .err()
        .map_or("binary data", |binary| binary.kind);
    let first: Vec<String> = run
        .first
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!(
        "[{kind}, {}, not shown; its first bytes: {}]",
        format_size(run.bytes),
        first.join(" ")
    )
}

/// Appends a line with the number of NUL bytes left out. Without it, a command that printed only NUL bytes would seem
/// to have printed nothing.
pub(super) fn add_nul_note(text: &mut String, nuls: u64) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let what = if nuls < 1024 {
        format_count(nuls, "NUL byte")
    } else {
        format!("{} of NUL bytes", format_size(nuls))
    };
    // Writing to a String cannot fail.
    let _ = writeln!(text, "[{what} left out]");
}
