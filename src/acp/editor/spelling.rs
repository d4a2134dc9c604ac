//! The form of a file's text in an editor. Many editors hold a text without its byte order mark and CRLF line endings,
//! and restore both when they save. Not here: requesting the text.

use crate::acp::files::Endings;

const MARK: &[u8] = b"\xEF\xBB\xBF";

/// The differences in form between an editor's text and the file on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Spelling {
    /// The file has a byte order mark and the editor's text has none.
    no_mark: bool,
    /// The file has CRLF line endings and the editor's text has no carriage return.
    plain_lines: bool,
}

impl Spelling {
    /// Detects the differences between a file and the editor's text.
    pub fn between(disk: &[u8], text: &str) -> Self {
        Self {
            no_mark: disk.starts_with(MARK) && !text.starts_with('\u{FEFF}'),
            plain_lines: matches!(Endings::of(disk), Endings::Crlf | Endings::Mixed) && !text.contains('\r'),
        }
    }

    /// Converts the editor's text to bytes as they would be on disk. Returns the disk's own bytes if the text is the
    /// same.
    pub fn on_disk(self, disk: &[u8], text: &str) -> Vec<u8> {
        if self.for_editor(disk).as_deref() == Some(text) {
            return disk.to_vec();
        }
        let mut bytes = if self.no_mark { MARK.to_vec() } else { Vec::new() };
        if self.plain_lines && Endings::of(disk) == Endings::Crlf {
            bytes.extend_from_slice(text.replace('\n', "\r\n").as_bytes());
        } else {
            bytes.extend_from_slice(text.as_bytes());
        }
        bytes
    }

    /// Converts bytes of the disk to the editor's form; `None` if they are not UTF-8.
    pub fn for_editor(self, bytes: &[u8]) -> Option<String> {
        let bytes = if self.no_mark { bytes.strip_prefix(MARK).unwrap_or(bytes) } else { bytes };
        let text = std::str::from_utf8(bytes).ok()?;
        Some(if self.plain_lines { text.replace("\r\n", "\n") } else { text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a text of the editor's comes to on a disk that holds this.
    fn seen(disk: &str, text: &str) -> String {
        let spelling = Spelling::between(disk.as_bytes(), text);
        let bytes = spelling.on_disk(disk.as_bytes(), text);
        assert_eq!(spelling.for_editor(&bytes).as_deref(), Some(text), "and back");
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn a_text_that_differs_in_form_alone_is_the_same_text() {
        for (disk, text) in [
            ("a\r\nb\r\n", "a\nb\n"),
            ("\u{FEFF}a\n", "a\n"),
            ("\u{FEFF}a\r\nb", "a\nb"),
            ("a\r\nb\nc\r\n", "a\nb\nc\n"),
            ("a\r\nb\r\n", "a\r\nb\r\n"),
            ("", ""),
        ] {
            assert_eq!(seen(disk, text), disk, "{disk:?} as {text:?}");
        }
    }

    #[test]
    fn another_text_gets_the_form_of_the_file() {
        assert_eq!(seen("a\r\nb\r\n", "a\nnew\n"), "a\r\nnew\r\n");
        assert_eq!(seen("\u{FEFF}a\r\n", "new\n"), "\u{FEFF}new\r\n");
        assert_eq!(seen("a\r\nb\r\n", "a\r\nnew\r\n"), "a\r\nnew\r\n");
        assert_eq!(seen("a\nb\n", "a\r\nb\n"), "a\r\nb\n");
    }
}
