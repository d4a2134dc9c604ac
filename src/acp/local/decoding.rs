//! Decodes a file's bytes to UTF-8 in pieces, and finds the line ends in them. Not here: detecting the encoding.
//! UTF-8 bytes pass unchanged.

use encoding_rs::DecoderResult;

use crate::acp::encoding::Encoding;
use crate::output::line_feed::LineFeed;

/// Decodes pieces that may split a character. Malformed input becomes U+FFFD.
pub(super) struct Decoding {
    decoder: Option<encoding_rs::Decoder>,
    out: Vec<u8>,
}

impl Decoding {
    /// Creates a decoder that starts after any byte order mark, or at the beginning of a line.
    pub(super) fn new(encoding: Encoding) -> Self {
        let decoder = (!encoding.is_utf8()).then(|| encoding.codec().new_decoder_without_bom_handling());
        Self { decoder, out: Vec::new() }
    }

    /// Decodes the next piece.
    pub(super) fn push<'a>(&'a mut self, bytes: &'a [u8]) -> &'a [u8] {
        if self.decoder.is_none() {
            return bytes;
        }
        self.decode(bytes, false)
    }

    /// Decodes the rest of a split character after the last piece.
    pub(super) fn finish(&mut self) -> &[u8] {
        self.decode(b"", true)
    }

    fn decode(&mut self, bytes: &[u8], last: bool) -> &[u8] {
        self.out.clear();
        let Some(decoder) = &mut self.decoder else { return &self.out };
        let mut at = 0;
        loop {
            let used = self.out.len();
            self.out.resize(used + 3 * (bytes.len() - at) + 64, 0);
            let (result, read, written) =
                decoder.decode_to_utf8_without_replacement(&bytes[at..], &mut self.out[used..], last);
            at += read;
            self.out.truncate(used + written);
            match result {
                DecoderResult::InputEmpty => return &self.out,
                DecoderResult::OutputFull => {}
                DecoderResult::Malformed(..) => self.out.extend_from_slice("\u{FFFD}".as_bytes()),
            }
        }
    }
}

/// The line feed of an encoding.
pub(super) fn line_feed_of(encoding: Encoding) -> LineFeed {
    match encoding {
        Encoding::Utf16Le | Encoding::Utf16LeUnmarked => LineFeed::Utf16Le,
        Encoding::Utf16Be | Encoding::Utf16BeUnmarked => LineFeed::Utf16Be,
        Encoding::Utf8 | Encoding::Utf8Bom | Encoding::Legacy(_) => LineFeed::Byte,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encodings() -> impl Strategy<Value = Encoding> {
        prop::sample::select(
            [
                "utf-8",
                "utf-16le",
                "utf-16be",
                "windows-1252",
                "shift_jis",
                "gb18030",
                "euc-kr",
                "big5",
                "koi8-r",
            ]
            .map(|label| Encoding::by_label(label).unwrap())
            .to_vec(),
        )
    }

    proptest! {
        #[test]
        fn every_piecing_gives_the_same_text(bytes: Vec<u8>, size in 1_usize..9, encoding in encodings()) {
            prop_assume!(!encoding.is_utf8());
            let mut decoding = Decoding::new(encoding);
            let mut text: Vec<u8> = Vec::new();
            for piece in bytes.chunks(size) {
                text.extend_from_slice(decoding.push(piece));
            }
            text.extend_from_slice(decoding.finish());
            prop_assert_eq!(String::from_utf8(text).unwrap(), encoding.decode(&bytes).0);
        }

        #[test]
        fn lines_of_the_bytes_are_lines_of_the_text(bytes: Vec<u8>, breaks in 0_usize..5, encoding in encodings()) {
            let mut bytes = bytes;
            for n in 0..breaks {
                let at = bytes.len() * n / breaks / 2 * 2;
                let feed = encoding.encode("\n").unwrap().into_owned();
                bytes.splice(at..at, feed);
            }
            let feeds = encoding.decode(&bytes).0.matches('\n').count() as u64;
            prop_assert_eq!(line_feed_of(encoding).count(&bytes), feeds);
            prop_assert_eq!(line_feed_of(encoding).ends(&bytes).count() as u64, feeds);
        }
    }
}
