//! The request for a window of a text file, and the window made from the text that was gathered.

use super::text_lines::{LineGatherer, LineRemainder};
use crate::encoding::count_invalid_bytes;
use crate::files::{ReadTextFile, TextWindow};
use punie_text::output::{SecretBoundaries, number_format};
use punie_tool::ToolError;

/// The request, and the ranges that must not be cut.
#[derive(Clone, Copy)]
pub(super) struct WindowRequest<'a> {
    pub request: &'a ReadTextFile,
    pub uncut: &'a SecretBoundaries,
}

/// Returns the window on the rest of one line.
pub(super) fn window_of_remainder(
    request: &ReadTextFile,
    mut window: TextWindow,
    rest: LineRemainder,
    line: u64,
    column: u64,
) -> Result<TextWindow, ToolError> {
    if !rest.reached {
        return Err(ToolError::invalid_args(format!(
            "{}: line {} ends before column {}. Leave out column to see the line.",
            request.path.display_text(),
            number_format::group_digits(line),
            number_format::group_digits(column)
        )));
    }
    window.lines = 1;
    window.stopped_in_line = rest.more;
    window.back = rest.back;
    set_window_text(&mut window, rest.out);
    Ok(window)
}

/// Returns the window on these lines.
pub(super) fn window_of_lines(mut window: TextWindow, lines: LineGatherer) -> TextWindow {
    window.lines = lines.gathered;
    window.omitted_bytes = lines.omitted;
    window.first_cut = lines.first_cut;
    set_window_text(&mut window, lines.into_bytes());
    window
}

fn set_window_text(window: &mut TextWindow, bytes: Vec<u8>) {
    window.control = bytes
        .iter()
        .filter(|b| (**b < 0x20 && !matches!(**b, b'\t' | b'\n' | b'\r')) || **b == 0x7F)
        .count() as u64;
    window.text = String::from_utf8(bytes).unwrap_or_else(|error| {
        let bytes = error.into_bytes();
        window.invalid_bytes = window.invalid_bytes.max(count_invalid_bytes(&bytes));
        window.lossy = bytes
            .utf8_chunks()
            .filter(|chunk| !chunk.invalid().is_empty())
            .count() as u64;
        String::from_utf8_lossy(&bytes).into_owned()
    });
    // Decoded text contains them already.
    if !window.encoding.is_utf8() {
        window.lossy = window.text.matches(char::REPLACEMENT_CHARACTER).count() as u64;
    }
}
