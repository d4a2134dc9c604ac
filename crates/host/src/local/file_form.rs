//! Converts plain text to the form of the file that it replaces: encoding, byte order mark and line endings.

use super::text_detection;
use crate::files::{FileEncoding, LineEndings};
use punie_text::output::number_format;

/// Converts plain text to the form of the old file, and returns the bytes with warnings about the changes.
pub(super) fn preserve_form(text: &str, old: &[u8], invalid_bytes: u64) -> (Vec<u8>, Vec<String>) {
    let mut warnings = Vec::new();
    let invalid = number_format::format_count(invalid_bytes, "invalid byte");
    let encoding = match text_detection::classify_head(old) {
        Ok(encoding) => encoding,
        Err(binary) => {
            warnings.push(format!(
                "The file was {}, not UTF-8 text: {invalid}; replaced as a whole.",
                binary.kind
            ));
            return (text.as_bytes().to_vec(), warnings);
        }
    };
    if invalid_bytes > 0 && matches!(encoding, FileEncoding::Utf8 | FileEncoding::Utf8Bom) {
        warnings.push(format!(
            "The file was not UTF-8 text: {invalid}; replaced as a whole."
        ));
    }
    let body = old.get(encoding.bom_bytes().len()..).unwrap_or_default();
    let is_crlf = match encoding {
        FileEncoding::Utf8 | FileEncoding::Utf8Bom | FileEncoding::Legacy(_) => {
            LineEndings::detect(body) == LineEndings::Crlf
        }
        FileEncoding::Utf16Le | FileEncoding::Utf16LeUnmarked => has_only_crlf(body, *b"\r\0\n\0"),
        FileEncoding::Utf16Be | FileEncoding::Utf16BeUnmarked => has_only_crlf(body, *b"\0\r\0\n"),
    };
    let mut text = std::borrow::Cow::Borrowed(text);
    if is_crlf && text.contains('\n') && !text.contains('\r') {
        text = text.replace('\n', "\r\n").into();
        warnings.push("The file's CRLF line endings were kept.".to_owned());
    }
    if encoding == FileEncoding::Utf8 || text.starts_with('\u{FEFF}') {
        return (text.into_owned().into_bytes(), warnings);
    }
    let mut bytes = encoding.bom_bytes().to_vec();
    match encoding.encode_text(&text) {
        Ok(encoded) => bytes.extend_from_slice(&encoded),
        Err(lacking) => {
            warnings.push(format!(
                "The file was {}, not UTF-8 text: {lacking}; replaced as a whole, in UTF-8.",
                encoding.as_str()
            ));
            return (text.into_owned().into_bytes(), warnings);
        }
    }
    warnings.push(format!(
        "The file's encoding was kept: {}.",
        encoding.as_str()
    ));
    (bytes, warnings)
}

/// Returns whether there are UTF-16 line feeds, and each follows a carriage return.
fn has_only_crlf(body: &[u8], crlf: [u8; 4]) -> bool {
    let (units, _) = body.as_chunks::<2>();
    let feeds = units.iter().filter(|unit| **unit == crlf[2..]).count();
    let pairs = units
        .windows(2)
        .filter(|pair| pair[0] == crlf[..2] && pair[1] == crlf[2..])
        .count();
    feeds > 0 && feeds == pairs
}
