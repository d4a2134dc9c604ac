//! What a fuzz target calls, with the law that it checks. Absent from release builds.

use crate::output::terminal_text::{TerminalTextCleaner, Utf8Decoder};

/// A command's output: however it is cut, it is the same text, and no control character is left.
///
/// # Panics
/// Where that is not so.
pub fn hygiene(data: &[u8]) {
    let Some((cut, bytes)) = data.split_first() else {
        return;
    };
    let clean = |size: usize| {
        let mut decoder = Utf8Decoder::default();
        let mut command = TerminalTextCleaner::default();
        let mut text = String::new();
        let mut out = String::new();
        for chunk in bytes.chunks(size) {
            decoder.push(chunk, &mut text);
            command.push(&text, &mut out);
            text.clear();
        }
        decoder.finish(&mut text);
        command.push(&text, &mut out);
        command.finish(&mut out);
        out
    };
    let whole = clean(bytes.len().max(1));
    assert_eq!(
        whole,
        clean(usize::from(*cut) + 1),
        "cut into pieces of {}",
        usize::from(*cut) + 1
    );
    let left = whole
        .chars()
        .find(|c| c.is_control() && !matches!(c, '\n' | '\t'));
    assert_eq!(left, None, "a control character is left");
}
