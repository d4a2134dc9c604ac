//! The only way to stdout: lines, JSON lines, and tables that fit a terminal. Not here: logs (stderr).

use std::io::{self, IsTerminal, Write};

/// Writes a line to stdout and flushes it. A reader that went away ends the command quietly, as for any filter.
pub fn line(text: &str) {
    let mut out = io::stdout().lock();
    if out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()).is_err()
    {
        std::process::exit(0);
    }
}

/// Writes a value as one line of JSON.
///
/// # Panics
/// On a value with keys that are no strings, which none of ours has.
pub fn json(value: &impl serde::Serialize) {
    line(&serde_json::to_string(value).expect("our own values have string keys"));
}

/// Writes an error to stderr.
pub fn complain(text: &str) {
    // There is nowhere left to say that stderr is closed.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Whether a person reads stdout.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// A table with a head, its columns as wide as they need to be; the last column takes what is left.
pub fn table(head: &[&str], rows: &[Vec<String>]) {
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
    for row in std::iter::once(&head).chain(rows) {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell}{}", " ".repeat(width.saturating_sub(cell.chars().count()))))
            .collect();
        line(cells.join("  ").trim_end());
    }
}

/// The first line of a text, at most this many characters, for a table's cell. Control characters are shown, never
/// sent to the terminal.
pub fn cell(text: &str, width: usize) -> String {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    let shown: String =
        first.chars().map(|c| if c.is_control() || is_steering(c) { '\u{FFFD}' } else { c }).collect();
    if shown.chars().count() <= width {
        return shown;
    }
    let cut: String = shown.chars().take(width.saturating_sub(1)).collect();
    format!("{cut}…")
}

/// Characters that change what the ones around them look like (bidirectional controls, zero width, tags).
fn is_steering(c: char) -> bool {
    matches!(c, '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{2069}' | '\u{FEFF}' | '\u{E0000}'..='\u{E007F}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_cannot_steer_the_terminal() {
        assert_eq!(cell("\u{1b}]0;title\u{7}x\u{202E}y", 40), "\u{FFFD}]0;title\u{FFFD}x\u{FFFD}y");
        assert_eq!(cell("\n  first\nsecond", 40), "first");
        assert_eq!(cell("abcdef", 4), "abc…");
    }
}
