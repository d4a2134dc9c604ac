//! The bytes that a write puts in a file: given as a whole or as changes of the old ones, and plain text in the shape
//! of what it replaces. Not here: the file (atomic_write).

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::sniff;
use super::text_window::sha256_hex;
use crate::acp::files::{Encoding, Endings, Splice};
use crate::ids::hex;
use crate::output::figures;

/// From this size on the old bytes are hashed beside the new ones.
const HASHED_BESIDE: usize = 1 << 20;

/// The bytes to write.
pub(super) enum Bytes {
    /// These.
    Whole(Vec<u8>),
    /// The old ones with some places replaced.
    Spliced(Arc<Vec<u8>>, Vec<Splice>),
}

impl Bytes {
    /// Hashes and size of what is replaced and of what comes: `before` is computed where it is not known and the old
    /// bytes are here.
    pub(super) fn hashes(&self, known: Option<String>) -> (Option<String>, String, u64) {
        match self {
            Self::Whole(bytes) => (known, sha256_hex(bytes), bytes.len() as u64),
            Self::Spliced(old, splices) => std::thread::scope(|threads| {
                let beside = (known.is_none() && old.len() >= HASHED_BESIDE)
                    .then(|| threads.spawn(|| sha256_hex(old)));
                let (mut hasher, mut size) = (Sha256::new(), 0);
                for piece in pieces(old, splices) {
                    hasher.update(piece);
                    size += piece.len() as u64;
                }
                let by_thread = beside.and_then(|thread| thread.join().ok());
                let before = known.or(by_thread).unwrap_or_else(|| sha256_hex(old));
                (Some(before), hex(&hasher.finalize()), size)
            }),
        }
    }

    /// Writes them.
    pub(super) fn write_to(&self, file: &mut File) -> io::Result<()> {
        match self {
            Self::Whole(bytes) => file.write_all(bytes),
            Self::Spliced(old, splices) => pieces(old, splices).try_for_each(|piece| file.write_all(piece)),
        }
    }
}

/// Plain text in the shape of the file that it replaces, with what was done to it.
pub(super) fn kept_as_it_was(text: &str, old: &[u8], invalid_bytes: u64) -> (Bytes, Vec<String>) {
    let mut warnings = Vec::new();
    let invalid = figures::counted(invalid_bytes, "invalid byte");
    let encoding = match sniff::classify(old) {
        Ok(encoding) => encoding,
        Err(binary) => {
            warnings.push(format!(
                "The file was {}, not UTF-8 text: {invalid}; replaced as a whole.",
                binary.kind
            ));
            return (Bytes::Whole(text.as_bytes().to_vec()), warnings);
        }
    };
    if invalid_bytes > 0 && matches!(encoding, Encoding::Utf8 | Encoding::Utf8Bom) {
        warnings.push(format!("The file was not UTF-8 text: {invalid}; replaced as a whole."));
    }
    let body = old.get(encoding.mark().len()..).unwrap_or_default();
    let is_crlf = match encoding {
        Encoding::Utf8 | Encoding::Utf8Bom | Encoding::Legacy(_) => Endings::of(body) == Endings::Crlf,
        Encoding::Utf16Le | Encoding::Utf16LeUnmarked => all_crlf(body, *b"\r\0\n\0"),
        Encoding::Utf16Be | Encoding::Utf16BeUnmarked => all_crlf(body, *b"\0\r\0\n"),
    };
    let mut text = Cow::Borrowed(text);
    if is_crlf && text.contains('\n') && !text.contains('\r') {
        text = text.replace('\n', "\r\n").into();
        warnings.push("The file's CRLF line endings were kept.".to_owned());
    }
    if encoding == Encoding::Utf8 || text.starts_with('\u{FEFF}') {
        return (Bytes::Whole(text.into_owned().into_bytes()), warnings);
    }
    let mut bytes = encoding.mark().to_vec();
    match encoding.encode(&text) {
        Ok(encoded) => bytes.extend_from_slice(&encoded),
        Err(lacking) => {
            warnings.push(format!(
                "The file was {}, not UTF-8 text: {lacking}; replaced as a whole, in UTF-8.",
                encoding.as_str()
            ));
            return (Bytes::Whole(text.into_owned().into_bytes()), warnings);
        }
    }
    warnings.push(format!("The file's encoding was kept: {}.", encoding.as_str()));
    (Bytes::Whole(bytes), warnings)
}

/// Whether every UTF-16 line feed comes behind a carriage return, and there is one.
fn all_crlf(body: &[u8], crlf: [u8; 4]) -> bool {
    let (units, _) = body.as_chunks::<2>();
    let feeds = units.iter().filter(|unit| **unit == crlf[2..]).count();
    let pairs = units.windows(2).filter(|pair| pair[0] == crlf[..2] && pair[1] == crlf[2..]).count();
    feeds > 0 && feeds == pairs
}

/// The old bytes between the splices and what comes in their place, in order.
fn pieces<'a>(old: &'a [u8], splices: &'a [Splice]) -> impl Iterator<Item = &'a [u8]> {
    let mut at = 0;
    let replaced = splices.iter().flat_map(move |splice| {
        let kept = &old[at..splice.range.start];
        at = splice.range.end;
        [kept, splice.with.as_slice()]
    });
    let rest = splices.last().map_or(0, |splice| splice.range.end);
    replaced.chain([&old[rest..]])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn splices_change_exactly_their_places(
            old in prop::collection::vec(any::<u8>(), 0..200),
            cuts in prop::collection::vec((0_usize..200, 0_usize..200, prop::collection::vec(any::<u8>(), 0..5)), 0..5),
        ) {
            let mut at = 0;
            let (mut expect, mut splices) = (Vec::new(), Vec::new());
            for (skip, len, with) in cuts {
                let start = (at + skip).min(old.len());
                let end = (start + len).min(old.len());
                expect.extend_from_slice(&old[at..start]);
                expect.extend_from_slice(&with);
                splices.push(Splice { range: start..end, with });
                at = end;
            }
            expect.extend_from_slice(&old[at..]);
            let got: Vec<u8> = pieces(&old, &splices).flatten().copied().collect();
            prop_assert_eq!(got, expect);
        }
    }
}
