//! Text encodings of files: detecting, decoding and encoding.

use std::borrow::Cow;
use std::fmt;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{DecoderResult, EncoderResult};

/// The encoding of a text file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileEncoding {
    /// UTF-8.
    Utf8,
    /// UTF-8 with a byte order mark.
    Utf8Bom,
    /// UTF-16, little-endian, with a byte order mark.
    Utf16Le,
    /// UTF-16, big-endian, with a byte order mark.
    Utf16Be,
    /// UTF-16, little-endian, without a mark.
    Utf16LeUnmarked,
    /// UTF-16, big-endian, without a mark.
    Utf16BeUnmarked,
    /// One of the older encodings of the Encoding Standard (WHATWG): windows-1252, Shift_JIS and the like. In all of
    /// them the byte 0x0A is always a line feed.
    Legacy(&'static encoding_rs::Encoding),
}

/// A character that an encoding cannot represent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnencodableChar {
    /// The character.
    pub character: char,
    /// The encoding.
    pub encoding: FileEncoding,
}

impl fmt::Display for UnencodableChar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.character;
        let code = u32::from(self.character);
        write!(
            f,
            "{} has no {shown:?} (U+{code:04X})",
            self.encoding.as_str()
        )
    }
}

impl std::error::Error for UnencodableChar {}

impl FileEncoding {
    /// Returns the name for a reply.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Utf8 => "utf-8",
            Self::Utf8Bom => "utf-8 with BOM",
            Self::Utf16Le => "utf-16le with BOM",
            Self::Utf16Be => "utf-16be with BOM",
            Self::Utf16LeUnmarked => "utf-16le",
            Self::Utf16BeUnmarked => "utf-16be",
            Self::Legacy(encoding) => encoding.name(),
        }
    }

    /// Returns the encoding of a label of the Encoding Standard ("latin1", "windows-1252", "sjis", "utf-16le"), in any
    /// case. `None` for unknown labels, and for encodings that cannot be written. A label does not say whether there is
    /// a mark: [`FileEncoding::with_bom_of`] does.
    pub fn from_label(label: &str) -> Option<Self> {
        let found = encoding_rs::Encoding::for_label(label.as_bytes())?;
        match found {
            _ if found == encoding_rs::UTF_8 => Some(Self::Utf8),
            _ if found == encoding_rs::UTF_16LE => Some(Self::Utf16LeUnmarked),
            _ if found == encoding_rs::UTF_16BE => Some(Self::Utf16BeUnmarked),
            _ if found.output_encoding() != found => None,
            _ => Some(Self::Legacy(found)),
        }
    }

    /// Returns the encoding of the byte order mark that these bytes begin with.
    pub fn from_bom(head: &[u8]) -> Option<Self> {
        if super::file_content::is_utf32(head) {
            return None;
        }
        [Self::Utf8Bom, Self::Utf16Le, Self::Utf16Be]
            .into_iter()
            .find(|encoding| head.starts_with(encoding.bom_bytes()))
    }

    /// Returns the same encoding with or without a mark, as in the file that begins with `head`.
    #[must_use]
    pub fn with_bom_of(self, head: &[u8]) -> Self {
        match (self, Self::from_bom(head)) {
            (Self::Utf8 | Self::Utf8Bom, Some(Self::Utf8Bom)) => Self::Utf8Bom,
            (Self::Utf8 | Self::Utf8Bom, _) => Self::Utf8,
            (Self::Utf16Le | Self::Utf16LeUnmarked, Some(Self::Utf16Le)) => Self::Utf16Le,
            (Self::Utf16Le | Self::Utf16LeUnmarked, _) => Self::Utf16LeUnmarked,
            (Self::Utf16Be | Self::Utf16BeUnmarked, Some(Self::Utf16Be)) => Self::Utf16Be,
            (Self::Utf16Be | Self::Utf16BeUnmarked, _) => Self::Utf16BeUnmarked,
            (legacy @ Self::Legacy(_), _) => legacy,
        }
    }

    /// Returns whether it is UTF-8, with or without a mark.
    pub fn is_utf8(self) -> bool {
        matches!(self, Self::Utf8 | Self::Utf8Bom)
    }

    /// Returns whether it is UTF-16, with or without a mark.
    pub fn is_utf16(self) -> bool {
        !self.is_utf8() && !matches!(self, Self::Legacy(_))
    }

    pub(crate) fn standard_codec(self) -> &'static encoding_rs::Encoding {
        match self {
            Self::Utf8 | Self::Utf8Bom => encoding_rs::UTF_8,
            Self::Utf16Le | Self::Utf16LeUnmarked => encoding_rs::UTF_16LE,
            Self::Utf16Be | Self::Utf16BeUnmarked => encoding_rs::UTF_16BE,
            Self::Legacy(encoding) => encoding,
        }
    }

    /// Returns its byte order mark.
    pub fn bom_bytes(self) -> &'static [u8] {
        match self {
            Self::Utf8 | Self::Legacy(_) | Self::Utf16LeUnmarked | Self::Utf16BeUnmarked => b"",
            Self::Utf8Bom => b"\xEF\xBB\xBF",
            Self::Utf16Le => b"\xFF\xFE",
            Self::Utf16Be => b"\xFE\xFF",
        }
    }

    /// Detects the encoding of text without a mark: UTF-8 if it is valid, else the most likely one. `whole` means that
    /// these are all bytes; otherwise the last character may be incomplete.
    ///
    /// UTF-8 with a few invalid bytes stays UTF-8: other text rarely has more valid sequences by chance than invalid
    /// bytes.
    pub fn detect(bytes: &[u8], whole: bool) -> Self {
        if let Some(marked) = Self::from_bom(bytes) {
            return marked;
        }
        if let Some(wide) = Self::detect_unmarked_utf16(
            &bytes[..bytes.len().min(super::file_content::SNIFFED_BYTES)],
        ) {
            return wide;
        }
        // Most files are UTF-8.
        if std::str::from_utf8(bytes).is_ok() {
            return Self::Utf8;
        }
        let mut right = 0;
        let mut wrong = 0;
        let mut at = 0;
        for chunk in bytes.utf8_chunks() {
            right += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
            at += chunk.valid().len() + chunk.invalid().len();
            let cut = !whole
                && at == bytes.len()
                && std::str::from_utf8(chunk.invalid())
                    .is_err_and(|error| error.error_len().is_none());
            wrong += if cut { 0 } else { chunk.invalid().len() };
        }
        if wrong == 0 || right > wrong {
            return Self::Utf8;
        }
        let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
        detector.feed(bytes, whole);
        let likely = Self::Legacy(detector.guess(None, Utf8Detection::Deny));
        // If even the likeliest encoding cannot decode it, the text is shown as UTF-8 with its faults counted.
        if whole && likely.decode_lossy(bytes).1 > 0 {
            Self::Utf8
        } else {
            likely
        }
    }

    /// Detects UTF-16 without a mark, if there is no doubt. The low bytes must have no NUL and no control characters,
    /// and almost all high bytes must be NUL.
    pub(crate) fn detect_unmarked_utf16(head: &[u8]) -> Option<Self> {
        let (units, _) = head.as_chunks::<2>();
        if units.len() < 4 {
            return None;
        }
        let is_wide = |letter: usize| {
            let beside = units.iter().filter(|unit| unit[1 - letter] == 0).count();
            let letters = units
                .iter()
                .filter(|unit| unit[1 - letter] == 0)
                .map(|unit| unit[letter]);
            let odd = |byte: u8| {
                (byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0C | 0x1B))
                    || byte == 0x7F
            };
            beside * 10 >= units.len() * 9
                && units.iter().all(|unit| unit[letter] != 0)
                && !letters.into_iter().any(odd)
        };
        [(0, Self::Utf16LeUnmarked), (1, Self::Utf16BeUnmarked)]
            .into_iter()
            .find_map(|(letter, encoding)| is_wide(letter).then_some(encoding))
    }

    /// Decodes these bytes, which follow any mark. Returns the text, and the number of invalid places that became
    /// U+FFFD.
    pub fn decode_lossy(self, bytes: &[u8]) -> (Cow<'_, str>, u64) {
        let codec = match self {
            Self::Utf8 | Self::Utf8Bom => {
                let text = String::from_utf8_lossy(bytes);
                let lossy = match &text {
                    Cow::Borrowed(_) => 0,
                    Cow::Owned(_) => bytes
                        .utf8_chunks()
                        .filter(|chunk| !chunk.invalid().is_empty())
                        .count(),
                };
                return (text, lossy as u64);
            }
            _ => self.standard_codec(),
        };
        let mut decoder = codec.new_decoder_without_bom_handling();
        let mut text = String::with_capacity(bytes.len() + bytes.len() / 2 + 16);
        let mut at = 0;
        let mut lossy = 0;
        loop {
            let (result, read) =
                decoder.decode_to_string_without_replacement(&bytes[at..], &mut text, true);
            at += read;
            match result {
                DecoderResult::InputEmpty => return (text.into(), lossy),
                DecoderResult::OutputFull => text.reserve(bytes.len() - at + 64),
                DecoderResult::Malformed(..) => {
                    lossy += 1;
                    text.push(char::REPLACEMENT_CHARACTER);
                }
            }
        }
    }

    /// Encodes this text, without a mark.
    ///
    /// # Errors
    /// The first character that the encoding cannot represent.
    pub fn encode_text(self, text: &str) -> Result<Cow<'_, [u8]>, UnencodableChar> {
        let encoding = match self {
            Self::Utf8 | Self::Utf8Bom => return Ok(Cow::Borrowed(text.as_bytes())),
            Self::Utf16Le | Self::Utf16LeUnmarked => {
                return Ok(text.encode_utf16().flat_map(u16::to_le_bytes).collect());
            }
            Self::Utf16Be | Self::Utf16BeUnmarked => {
                return Ok(text.encode_utf16().flat_map(u16::to_be_bytes).collect());
            }
            Self::Legacy(encoding) => encoding,
        };
        let mut encoder = encoding.new_encoder();
        let mut bytes = Vec::with_capacity(text.len() + 16);
        let mut at = 0;
        loop {
            let (result, read) =
                encoder.encode_from_utf8_to_vec_without_replacement(&text[at..], &mut bytes, true);
            at += read;
            match result {
                EncoderResult::InputEmpty => return Ok(bytes.into()),
                EncoderResult::OutputFull => bytes.reserve(text.len() - at + 64),
                EncoderResult::Unmappable(character) => {
                    return Err(UnencodableChar {
                        character,
                        encoding: self,
                    });
                }
            }
        }
    }
}

/// Counts the bytes that are not UTF-8.
pub(crate) fn count_invalid_bytes(bytes: &[u8]) -> u64 {
    bytes
        .utf8_chunks()
        .map(|chunk| chunk.invalid().len() as u64)
        .sum()
}

/// Detects UTF-8 in text that comes in pieces, as [`FileEncoding::detect`] does for a whole text without a
/// mark.
#[derive(Debug, Default)]
pub struct Utf8Tally {
    right: u64,
    wrong: u64,
    /// The beginning of a character that the next piece may complete.
    begun: Vec<u8>,
}

impl Utf8Tally {
    /// Counts the characters of the next piece.
    pub fn count_piece(&mut self, piece: &[u8]) {
        if self.begun.is_empty() && piece.is_ascii() {
            return;
        }
        let joined;
        let mut rest = piece;
        if !self.begun.is_empty() {
            joined = [std::mem::take(&mut self.begun).as_slice(), piece].concat();
            rest = &joined;
        }
        // In valid UTF-8, each character that is not ASCII has one byte that begins with two ones.
        let characters = |bytes: &[u8]| bytes.iter().filter(|byte| **byte >= 0xC0).count() as u64;
        while let Err(error) = std::str::from_utf8(rest) {
            let (right, wrong) = rest.split_at(error.valid_up_to());
            self.right += characters(right);
            let Some(len) = error.error_len() else {
                self.begun = wrong.to_vec();
                return;
            };
            self.wrong += len as u64;
            rest = &wrong[len..];
        }
        self.right += characters(rest);
    }

    /// Returns whether the text is UTF-8, after the last piece.
    pub fn is_mostly_utf8(&self) -> bool {
        let wrong = self.invalid_bytes();
        wrong == 0 || self.right > wrong
    }

    /// Returns the number of bytes that are not UTF-8, after the last piece.
    pub fn invalid_bytes(&self) -> u64 {
        self.wrong + self.begun.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn legacy(label: &str) -> FileEncoding {
        FileEncoding::from_label(label).expect("a known label")
    }

    #[test]
    fn what_text_is_written_in_is_told_from_its_bytes() {
        assert_eq!(FileEncoding::detect(b"", true), FileEncoding::Utf8);
        assert_eq!(
            FileEncoding::detect("naïve – 🦀".as_bytes(), true),
            FileEncoding::Utf8
        );
        assert_eq!(
            FileEncoding::detect(&"naïve – 🦀".as_bytes()[..12], false),
            FileEncoding::Utf8
        );
        assert_eq!(
            FileEncoding::detect(b"\xEF\xBB\xBFx", true),
            FileEncoding::Utf8Bom
        );
        assert_eq!(
            FileEncoding::detect(b"\xFE\xFF\0x", true),
            FileEncoding::Utf16Be
        );
        let french = "Le café du théâtre est fermé à midi.\n".repeat(3);
        let western = legacy("windows-1252");
        let bytes = western.encode_text(&french).expect("it has all of them");
        assert_eq!(FileEncoding::detect(&bytes, true), western);
        let japanese = "こんにちは、世界。これはテストです。\n".repeat(3);
        let bytes = legacy("shift_jis")
            .encode_text(&japanese)
            .expect("it has all of them")
            .into_owned();
        assert_eq!(FileEncoding::detect(&bytes, true), legacy("shift_jis"));
        // One damaged place does not make another encoding of it.
        let mut damaged = "Grüße aus Köln, schöne Häuser\n".as_bytes().to_vec();
        damaged.push(0xFF);
        assert_eq!(FileEncoding::detect(&damaged, true), FileEncoding::Utf8);
    }

    #[test]
    fn a_label_names_what_can_be_written_back() {
        assert_eq!(FileEncoding::from_label("UTF-8"), Some(FileEncoding::Utf8));
        assert_eq!(legacy("latin1").as_str(), "windows-1252");
        assert_eq!(FileEncoding::from_label("replacement"), None);
        assert_eq!(FileEncoding::from_label("klingon"), None);
    }

    #[test]
    fn a_character_that_an_encoding_lacks_is_named() {
        let lacking = legacy("windows-1252")
            .encode_text("a🦀")
            .expect_err("no crab");
        assert_eq!(lacking.to_string(), "windows-1252 has no '🦀' (U+1F980)");
    }

    #[test]
    fn what_is_no_text_is_counted() {
        assert_eq!(
            FileEncoding::Utf8.decode_lossy(b"a\xFFb"),
            ("a\u{FFFD}b".into(), 1)
        );
        assert_eq!(FileEncoding::Utf16Le.decode_lossy(b"a\0\0\xD8b\0").1, 1);
    }

    proptest! {
        #[test]
        fn utf_8_is_told_alike_in_every_piecing(
            parts in prop::collection::vec(prop_oneof![
                Just("ä".as_bytes()), Just("🦀".as_bytes()), Just(b"a".as_slice()), Just(b"\xE9".as_slice()),
                Just(b"\xF0\x9F".as_slice()),
            ], 0..12),
            size in 1_usize..6,
        ) {
            let bytes = parts.concat();
            let mut tally = Utf8Tally::default();
            bytes.chunks(size).for_each(|piece| tally.count_piece(piece));
            // What no encoding can read stays UTF-8 with faults.
            if tally.is_mostly_utf8() {
                prop_assert_eq!(FileEncoding::detect(&bytes, true), FileEncoding::Utf8);
            } else if FileEncoding::detect(&bytes, true) == FileEncoding::Utf8 {
                prop_assert!(std::str::from_utf8(&bytes).is_err());
            }
        }

        #[test]
        fn every_encoding_gives_back_what_it_was_given(text in "[a-zA-Z0-9 .,;\n\r\t]{0,80}|[äöüßéèàç€ a-z\n]{0,60}") {
            for encoding in [FileEncoding::Utf8, FileEncoding::Utf16Le, FileEncoding::Utf16Be, legacy("windows-1252")] {
                let bytes = encoding.encode_text(&text).expect("it has all of them").into_owned();
                prop_assert_eq!(encoding.decode_lossy(&bytes), (Cow::Borrowed(text.as_str()), 0));
            }
        }
    }

    #[test]
    fn invalid_bytes_are_counted_alike_in_every_piecing() {
        for text in [
            b"caf\xe9 \xe9".as_slice(),
            "grüße – 🦀".as_bytes(),
            b"\xf0\x9f\x90 \xc3(\xff\xf0\x9f",
            b"",
        ] {
            let whole = count_invalid_bytes(text);
            assert_eq!(whole > 0, std::str::from_utf8(text).is_err());
            for size in 1..=text.len() {
                let mut counter = Utf8Tally::default();
                text.chunks(size)
                    .for_each(|piece| counter.count_piece(piece));
                assert_eq!(
                    counter.invalid_bytes(),
                    whole,
                    "{text:?} in pieces of {size}"
                );
            }
        }
    }
}
