//! Whether a file is text, from its first bytes, and how many of all its bytes are not. Not here: decoding.

use crate::acp::files::Encoding;

/// So many bytes of a file are looked at.
pub(super) const HEAD: usize = 8 << 10;

/// What a file is that is not text, and what to do with it instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Binary {
    pub kind: &'static str,
    pub hint: &'static str,
}

const IMAGE: &str = "Read shows text only.";
const ARCHIVE: &str = "List it with Bash, for example `tar tf` or `unzip -l`.";
const PROGRAM: &str = "Look into it with Bash, for example `file`, `strings` or `nm`.";
const MEDIA: &str = "Read shows text only.";
const SQLITE: &str = "Query it with SqliteQuery.";
const PLAIN: &str = "Look into it with Bash, for example `file` or `xxd`.";

const MAGIC: &[(&[u8], &str, &str)] = &[
    (b"SQLite format 3\0", "an SQLite database", SQLITE),
    (b"\x89PNG\r\n\x1a\n", "a PNG image", IMAGE),
    (b"\xFF\xD8\xFF", "a JPEG image", IMAGE),
    (b"GIF87a", "a GIF image", IMAGE),
    (b"GIF89a", "a GIF image", IMAGE),
    (b"II*\0", "a TIFF image", IMAGE),
    (b"MM\0*", "a TIFF image", IMAGE),
    (b"\0\0\x01\0", "an icon", IMAGE),
    (b"%PDF-", "a PDF document", "Extract its text with Bash, for example `pdftotext`."),
    (b"PK\x03\x04", "a ZIP archive (or a document or package in that format)", ARCHIVE),
    (b"PK\x05\x06", "an empty ZIP archive", ARCHIVE),
    (b"\x1f\x8b", "gzip data", ARCHIVE),
    (b"BZh", "bzip2 data", ARCHIVE),
    (b"\xFD7zXZ\0", "xz data", ARCHIVE),
    (b"\x28\xB5\x2F\xFD", "zstd data", ARCHIVE),
    (b"7z\xBC\xAF\x27\x1C", "a 7z archive", ARCHIVE),
    (b"Rar!\x1a\x07", "a RAR archive", ARCHIVE),
    (b"\x7fELF", "an ELF program or library", PROGRAM),
    (b"\xCF\xFA\xED\xFE", "a Mach-O program or library", PROGRAM),
    (b"\xCA\xFE\xBA\xBE", "a Java class or a universal Mach-O program", PROGRAM),
    (b"\0asm", "a WebAssembly module", PROGRAM),
    (b"MZ\x90", "a Windows program or library", PROGRAM),
    (b"!<arch>\n", "a static library", PROGRAM),
    (b"ID3", "an MP3 recording", MEDIA),
    (b"OggS", "an Ogg recording", MEDIA),
    (b"fLaC", "a FLAC recording", MEDIA),
    (b"\x1A\x45\xDF\xA3", "a Matroska or WebM video", MEDIA),
    (b"wOFF", "a WOFF font", MEDIA),
    (b"wOF2", "a WOFF2 font", MEDIA),
];

/// The encoding of a file that is text.
pub(super) fn classify(head: &[u8]) -> Result<Encoding, Binary> {
    let head = &head[..head.len().min(HEAD)];
    for encoding in [Encoding::Utf8Bom, Encoding::Utf16Le, Encoding::Utf16Be] {
        if head.starts_with(encoding.mark()) {
            return Ok(encoding);
        }
    }
    let known = |kind, hint| Err(Binary { kind, hint });
    if let Some((_, kind, hint)) = MAGIC.iter().find(|(magic, _, _)| head.starts_with(magic)) {
        // A few marks are also the beginning of plain words.
        let also_a_word =
            magic_is_printable(kind) && std::str::from_utf8(head).is_ok() && !has_odd_bytes(head);
        if !also_a_word {
            return known(kind, hint);
        }
    }
    match (head.get(..4), head.get(4..8), head.get(8..12)) {
        (Some(b"RIFF"), _, Some(b"WEBP")) => return known("a WebP image", IMAGE),
        (Some(b"RIFF"), _, Some(b"WAVE")) => return known("a WAV recording", MEDIA),
        (_, Some(b"ftyp"), _) => return known("an MP4, HEIC or AVIF file", MEDIA),
        _ => {}
    }
    if head.get(257..262) == Some(b"ustar") {
        return known("a tar archive", ARCHIVE);
    }
    if head.contains(&0) {
        return known("binary data (it holds NUL bytes)", PLAIN);
    }
    if has_odd_bytes(head) {
        return known("binary data (over 30 % control characters)", PLAIN);
    }
    Ok(Encoding::Utf8)
}

/// Counts the bytes that are not UTF-8, over pieces that may part a character.
#[derive(Debug, Default)]
pub(super) struct InvalidBytes {
    count: u64,
    /// The beginning of a character that the next piece may finish.
    begun: Vec<u8>,
}

impl InvalidBytes {
    /// So many bytes of the whole are not UTF-8.
    pub(super) fn of(bytes: &[u8]) -> u64 {
        bytes.utf8_chunks().map(|chunk| chunk.invalid().len() as u64).sum()
    }

    /// Looks at the next piece.
    pub(super) fn push(&mut self, piece: &[u8]) {
        let joined;
        let piece = if self.begun.is_empty() {
            piece
        } else {
            joined = [self.begun.as_slice(), piece].concat();
            joined.as_slice()
        };
        let (mut at, mut begun) = (0, Vec::new());
        for chunk in piece.utf8_chunks() {
            let invalid = chunk.invalid();
            at += chunk.valid().len() + invalid.len();
            // Only at the end of the piece can a character be begun and not wrong.
            let is_begun = at == piece.len()
                && std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if is_begun {
                begun = invalid.to_vec();
            } else {
                self.count += invalid.len() as u64;
            }
        }
        self.begun = begun;
    }

    /// How many there were, when there are no more pieces.
    pub(super) fn total(&self) -> u64 {
        self.count + self.begun.len() as u64
    }
}

/// Kinds whose mark is letters that a text may begin with.
fn magic_is_printable(kind: &str) -> bool {
    matches!(kind, "bzip2 data" | "an MP3 recording" | "an Ogg recording" | "a WOFF font" | "a WOFF2 font")
}

fn has_odd_bytes(head: &[u8]) -> bool {
    let odd = head.iter().filter(|byte| is_control(**byte)).count();
    odd * 10 > head.len() * 3
}

/// A control character that plain text does not have. Escape is not counted: logs are full of it.
fn is_control(byte: u8) -> bool {
    (byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0C | 0x1B)) || byte == 0x7F
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_binary_are_told_apart() {
        assert_eq!(classify(b""), Ok(Encoding::Utf8));
        assert_eq!(classify("grüße\n".as_bytes()), Ok(Encoding::Utf8));
        assert_eq!(classify(b"\xEF\xBB\xBFx"), Ok(Encoding::Utf8Bom));
        assert_eq!(classify(b"\xFF\xFEx\0"), Ok(Encoding::Utf16Le));
        assert_eq!(classify(b"ID3 tags are described here\n"), Ok(Encoding::Utf8));
        assert_eq!(classify(b"caf\xe9 au lait\n"), Ok(Encoding::Utf8));
        assert_eq!(classify(b"SQLite format 3\0....").unwrap_err().hint, SQLITE);
        assert_eq!(classify(b"\x89PNG\r\n\x1a\n").unwrap_err().kind, "a PNG image");
        assert!(classify(b"a\0b").is_err());
        assert!(classify(b"\x01\x02\x03ab").is_err());
    }

    #[test]
    fn invalid_bytes_are_counted_alike_in_every_piecing() {
        for text in
            [b"caf\xe9 \xe9".as_slice(), "grüße – 🦀".as_bytes(), b"\xf0\x9f\x90 \xc3(\xff\xf0\x9f", b""]
        {
            let whole = InvalidBytes::of(text);
            assert_eq!(whole > 0, std::str::from_utf8(text).is_err());
            for size in 1..=text.len() {
                let mut counter = InvalidBytes::default();
                text.chunks(size).for_each(|piece| counter.push(piece));
                assert_eq!(counter.total(), whole, "{text:?} in pieces of {size}");
            }
        }
    }
}
