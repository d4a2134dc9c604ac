//! Decodes a file's bytes to UTF-8 in pieces, and finds the line ends in them. UTF-8 bytes pass unchanged.

use encoding_rs::DecoderResult;

use crate::encoding::FileEncoding;
use punie_text::output::line_feed::LineFeed;

/// Decodes pieces that may split a character. Malformed input becomes U+FFFD.
pub(super) struct StreamDecoder {
    decoder: Option<encoding_rs::Decoder>,
    out: Vec<u8>,
}

impl StreamDecoder {
    /// Creates a decoder that starts after any byte order mark, or at the beginning of a line.
    pub(super) fn new(encoding: FileEncoding) -> Self {
        let decoder = (!encoding.is_utf8())
            .then(|| encoding.standard_codec().new_decoder_without_bom_handling());
        Self {
            decoder,
            out: Vec::new(),
        }
    }

    /// Decodes the next piece.
    pub(super) fn decode_piece<'a>(&'a mut self, bytes: &'a [u8]) -> &'a [u8] {
        if self.decoder.is_none() {
            return bytes;
        }
        self.decode_bytes(bytes, false)
    }

    /// Decodes the rest of a split character after the last piece.
    pub(super) fn finish_decoding(&mut self) -> &[u8] {
        self.decode_bytes(b"", true)
    }

    fn decode_bytes(&mut self, bytes: &[u8], last: bool) -> &[u8] {
        self.out.clear();
        let Some(decoder) = &mut self.decoder else {
            return &self.out;
        };
        let mut at = 0;
        loop {
            let used = self.out.len();
            self.out.resize(used + 3 * (bytes.len() - at) + 64, 0);
            let (result, read, written) = decoder.decode_to_utf8_without_replacement(
                &bytes[at..],
                &mut self.out[used..],
                last,
            );
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
pub(super) fn line_feed_of(encoding: FileEncoding) -> LineFeed {
    match encoding {
        FileEncoding::Utf16Le | FileEncoding::Utf16LeUnmarked => LineFeed::Utf16Le,
        FileEncoding::Utf16Be | FileEncoding::Utf16BeUnmarked => LineFeed::Utf16Be,
        FileEncoding::Utf8 | FileEncoding::Utf8Bom | FileEncoding::Legacy(_) => LineFeed::Byte,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encodings() -> impl Strategy<Value = FileEncoding> {
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
            .map(|label| FileEncoding::from_label(label).unwrap())
            .to_vec(),
        )
    }

    proptest! {
        #[test]
        fn every_piecing_gives_the_same_text(bytes: Vec<u8>, size in 1_usize..9, encoding in encodings()) {
            prop_assume!(!encoding.is_utf8());
            let mut decoding = StreamDecoder::new(encoding);
            let mut text: Vec<u8> = Vec::new();
            for piece in bytes.chunks(size) {
                text.extend_from_slice(decoding.decode_piece(piece));
            }
            text.extend_from_slice(decoding.finish_decoding());
            prop_assert_eq!(String::from_utf8(text).unwrap(), encoding.decode_lossy(&bytes).0);
        }

        #[test]
        fn lines_of_the_bytes_are_lines_of_the_text(bytes: Vec<u8>, breaks in 0_usize..5, encoding in encodings()) {
            let mut bytes = bytes;
            for n in 0..breaks {
                let at = bytes.len() * n / breaks / 2 * 2;
                let feed = encoding.encode_text("\n").unwrap().into_owned();
                bytes.splice(at..at, feed);
            }
            let feeds = encoding.decode_lossy(&bytes).0.matches('\n').count() as u64;
            prop_assert_eq!(line_feed_of(encoding).count_feeds(&bytes), feeds);
            prop_assert_eq!(line_feed_of(encoding).feed_ends(&bytes).count() as u64, feeds);
        }
    }
}
