//! Decodes a file's bytes to UTF-8 for an edit, and maps text changes back to byte changes. Unchanged text stays
//! identical byte for byte, even in encodings with several forms of one character.

use std::sync::Arc;

use memchr::{memchr, memchr_iter};

use punie_host::encoding::{FileEncoding, UnencodableChar};
use punie_host::files::{ByteSplice, LoadedFile};
use punie_tool::{ErrorCode, ToolError};

/// The largest file in an encoding other than UTF-8 that is edited: its text is in memory beside
/// its bytes.
const MAX_BYTES: usize = 32 << 20;

/// A file as text.
#[derive(Debug)]
pub(super) struct TranscodedText {
    bytes: Arc<Vec<u8>>,
    encoding: FileEncoding,
    /// The text; for UTF-8 the bytes themselves, including a byte order mark.
    text: Arc<Vec<u8>>,
    /// The start of each line, in the text and in the bytes.
    lines: Vec<(usize, usize)>,
    /// The file's lines end in a carriage return alone; those of the text in a line feed.
    has_bare_returns: bool,
}

impl TranscodedText {
    /// Decodes a loaded file for an edit.
    ///
    /// # Errors
    /// `too_large` for a file that would have to be converted and is over 32 MB.
    pub(super) fn decode_for_edit(shown: &str, loaded: &LoadedFile) -> Result<Self, ToolError> {
        if !loaded.encoding.is_utf8() && loaded.bytes.len() > MAX_BYTES {
            let text = format!(
                "{shown} is {} and over 32 MB; files in that encoding are edited up to that size. Convert it with Bash, \
                 for example `iconv -t utf-8`.",
                loaded.encoding.as_str()
            );
            return Err(ToolError::new(ErrorCode::TooLarge, text));
        }
        Ok(Self::decode_loaded(loaded))
    }

    /// Decodes a loaded file of any size.
    pub(super) fn decode_loaded(loaded: &LoadedFile) -> Self {
        let bytes = Arc::clone(&loaded.bytes);
        let encoding = loaded.encoding;
        if encoding.is_utf8() {
            let has_bare_returns = has_bare_returns(&bytes);
            return Self {
                text: if has_bare_returns {
                    Arc::new(replace_byte(bytes.to_vec(), b'\r', b'\n'))
                } else {
                    Arc::clone(&bytes)
                },
                bytes,
                encoding,
                lines: Vec::new(),
                has_bare_returns,
            };
        }
        let mark = encoding.bom_bytes().len();
        let (text, _) = encoding.decode_lossy(&bytes[mark..]);
        let text = text.into_owned().into_bytes();
        let in_bytes = stored_line_starts(&bytes, mark, encoding);
        let in_text = std::iter::once(0).chain(memchr_iter(b'\n', &text).map(|at| at + 1));
        let lines = in_text.zip(in_bytes).collect();
        let has_bare_returns = has_bare_returns(&text);
        let text = if has_bare_returns {
            replace_byte(text, b'\r', b'\n')
        } else {
            text
        };
        Self {
            bytes,
            encoding,
            text: Arc::new(text),
            lines,
            has_bare_returns,
        }
    }

    /// The text to search and to show.
    pub(super) fn utf8(&self) -> &Arc<Vec<u8>> {
        &self.text
    }

    /// Maps changes of the text to changes of the bytes.
    ///
    /// # Errors
    /// `invalid_args` for a character that the encoding lacks, `not_text` for a place inside
    /// invalid bytes.
    pub(super) fn to_stored_splices(
        &self,
        shown: &str,
        mut splices: Vec<ByteSplice>,
    ) -> Result<Vec<ByteSplice>, ToolError> {
        if self.has_bare_returns {
            for splice in &mut splices {
                splice.with = replace_byte(std::mem::take(&mut splice.with), b'\n', b'\r');
            }
        }
        if self.encoding.is_utf8() {
            return Ok(splices);
        }
        splices
            .into_iter()
            .map(|splice| self.to_stored_splice(shown, &splice))
            .collect()
    }

    fn to_stored_splice(&self, shown: &str, splice: &ByteSplice) -> Result<ByteSplice, ToolError> {
        let inside = || {
            let text = format!(
                "The place in {shown} begins or ends inside bytes that are not {}. Nothing was changed. Quote the \
                 text up to the next characters that are readable.",
                self.encoding.as_str()
            );
            ToolError::new(ErrorCode::NotText, text)
        };
        let from = self
            .stored_offset_of(splice.range.start)
            .ok_or_else(inside)?;
        let to = self.stored_offset_of(splice.range.end).ok_or_else(inside)?;
        let new = String::from_utf8_lossy(&splice.with);
        let with = self
            .encoding
            .encode_text(&new)
            .map_err(|lacking| unencodable_error(shown, lacking))?;
        Ok(ByteSplice {
            range: from..to,
            with: with.into_owned(),
        })
    }

    /// The byte offset of the character at this offset of the text.
    fn stored_offset_of(&self, offset: usize) -> Option<usize> {
        let line = self
            .lines
            .partition_point(|(in_text, _)| *in_text <= offset)
            .checked_sub(1)?;
        let (in_text, in_bytes) = self.lines[line];
        let before = std::str::from_utf8(&self.text[in_text..offset]).ok()?;
        match self.encoding {
            FileEncoding::Legacy(encoding) => {
                let mut decoder = encoding.new_decoder_without_bom_handling();
                let mut reached = 0;
                let mut buffer = [0; 16];
                for (at, byte) in self.bytes[in_bytes..].iter().enumerate() {
                    if reached >= before.len() {
                        return (reached == before.len()).then_some(in_bytes + at);
                    }
                    let (_, _, written, _) =
                        decoder.decode_to_utf8(std::slice::from_ref(byte), &mut buffer, false);
                    reached += written;
                }
                // The decoder emits an incomplete character at the very end only when the input
                // ends.
                (reached == before.len() || offset == self.text.len()).then_some(self.bytes.len())
            }
            // Each unit of UTF-16 is two bytes. This includes a lone surrogate, which is shown as
            // U+FFFD.
            _ => Some((in_bytes + 2 * before.encode_utf16().count()).min(self.bytes.len())),
        }
    }
}

/// Returns whether the lines of a text end in carriage returns and no line feeds.
fn has_bare_returns(text: &[u8]) -> bool {
    memchr(b'\n', text).is_none() && memchr(b'\r', text).is_some()
}

fn replace_byte(mut bytes: Vec<u8>, from: u8, to: u8) -> Vec<u8> {
    for byte in &mut bytes {
        if *byte == from {
            *byte = to;
        }
    }
    bytes
}

/// The error for a character that the file's encoding lacks.
fn unencodable_error(shown: &str, lacking: UnencodableChar) -> ToolError {
    ToolError::invalid_args(format!(
        "{shown} is {}, and {lacking}. Nothing was changed. Use a character that it has, or convert the file to UTF-8 \
         first, for example with Bash and `iconv`.",
        lacking.encoding.as_str()
    ))
}

/// The starts of the lines in the bytes.
fn stored_line_starts(bytes: &[u8], mark: usize, encoding: FileEncoding) -> Vec<usize> {
    let mut starts = vec![mark];
    match encoding {
        FileEncoding::Utf16Le | FileEncoding::Utf16LeUnmarked => {
            starts.extend(utf16_line_starts(bytes, mark, [b'\n', 0]));
        }
        FileEncoding::Utf16Be | FileEncoding::Utf16BeUnmarked => {
            starts.extend(utf16_line_starts(bytes, mark, [0, b'\n']));
        }
        FileEncoding::Utf8 | FileEncoding::Utf8Bom | FileEncoding::Legacy(_) => {
            starts.extend(memchr_iter(b'\n', &bytes[mark..]).map(|at| mark + at + 1));
        }
    }
    starts
}

/// The offsets after each two-byte line feed.
fn utf16_line_starts(bytes: &[u8], mark: usize, feed: [u8; 2]) -> Vec<usize> {
    let (units, _) = bytes[mark..].as_chunks::<2>();
    let feeds = units.iter().enumerate().filter(|(_, unit)| **unit == feed);
    feeds.map(|(at, _)| mark + 2 * (at + 1)).collect()
}
