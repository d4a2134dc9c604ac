//! The form of a file's text in an editor. Many editors hold a text without its byte order mark and CRLF line endings,
//! and restore both when they save.

use punie_host::files::LineEndings;

const MARK: &[u8] = b"\xEF\xBB\xBF";

/// The differences in form between an editor's text and the file on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct EditorTextForm {
    /// The file has a byte order mark and the editor's text has none.
    lacks_bom: bool,
    /// The file has CRLF line endings and the editor's text has no carriage return.
    lacks_cr: bool,
}

impl EditorTextForm {
    /// Detects the differences between a file and the editor's text.
    pub fn detect(disk: &[u8], text: &str) -> Self {
        Self {
            lacks_bom: disk.starts_with(MARK) && !text.starts_with('\u{FEFF}'),
            lacks_cr: matches!(
                LineEndings::detect(disk),
                LineEndings::Crlf | LineEndings::Mixed
            ) && !text.contains('\r'),
        }
    }

    /// Converts the editor's text to bytes as they would be on disk. Returns the disk's own bytes if the text is the
    /// same.
    pub fn to_disk_bytes(self, disk: &[u8], text: &str) -> Vec<u8> {
        if self.to_editor_text(disk).as_deref() == Some(text) {
            return disk.to_vec();
        }
        let mut bytes = if self.lacks_bom {
            MARK.to_vec()
        } else {
            Vec::new()
        };
        if self.lacks_cr && LineEndings::detect(disk) == LineEndings::Crlf {
            bytes.extend_from_slice(text.replace('\n', "\r\n").as_bytes());
        } else {
            bytes.extend_from_slice(text.as_bytes());
        }
        bytes
    }

    /// Converts bytes of the disk to the editor's form; `None` if they are not UTF-8.
    pub fn to_editor_text(self, bytes: &[u8]) -> Option<String> {
        let bytes = if self.lacks_bom {
            bytes.strip_prefix(MARK).unwrap_or(bytes)
        } else {
            bytes
        };
        let text = std::str::from_utf8(bytes).ok()?;
        Some(if self.lacks_cr {
            text.replace("\r\n", "\n")
        } else {
            text.to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a text of the editor's comes to on a disk that holds this.
    fn seen(disk: &str, text: &str) -> String {
        let spelling = EditorTextForm::detect(disk.as_bytes(), text);
        let bytes = spelling.to_disk_bytes(disk.as_bytes(), text);
        assert_eq!(
            spelling.to_editor_text(&bytes).as_deref(),
            Some(text),
            "and back"
        );
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
