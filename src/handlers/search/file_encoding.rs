//! Detection of the files to decode before a search, so that Grep finds the text that Read shows.

use punie_host::encoding::FileEncoding;
use punie_host::file_content::{self, SNIFFED_BYTES};

/// Returns the encoding to decode a file from, given its first bytes or (`whole`) all of them. Returns `None` for
/// UTF-8 and binary data, which are searched as they are.
pub(super) fn encoding_to_decode(text: &[u8], whole: bool) -> Option<FileEncoding> {
    if !has_nul_at_start(text) && std::str::from_utf8(text).is_ok() {
        return None;
    }
    file_content::classify_content(text, whole)
        .ok()
        .filter(|encoding| !encoding.is_utf8())
}

/// Returns true for UTF-16, and for most binary data.
pub(super) fn has_nul_at_start(text: &[u8]) -> bool {
    memchr::memchr(0, &text[..text.len().min(SNIFFED_BYTES)]).is_some()
}

/// Returns whether the text begins with a byte order mark, by which the searcher itself decodes.
pub(super) fn has_byte_order_mark(text: &[u8]) -> bool {
    FileEncoding::from_bom(text).is_some()
}
