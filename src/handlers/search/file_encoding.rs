//! Which files are decoded before they are searched, so that Grep finds in them what Read shows. Not here: how an
//! encoding is told from bytes (`acp::content`).

use crate::acp::content::{self, HEAD};
use crate::acp::encoding::Encoding;

/// The encoding to decode a file from, by its first bytes or (`whole`) all of them. None for UTF-8 and for data that is
/// not text: they are searched as they are.
pub(super) fn encoding_to_decode(text: &[u8], whole: bool) -> Option<Encoding> {
    if !has_nul_at_start(text) && std::str::from_utf8(text).is_ok() {
        return None;
    }
    content::classify(text, whole).ok().filter(|encoding| !encoding.is_utf8())
}

/// True for UTF-16, and for most data that is not text.
pub(super) fn has_nul_at_start(text: &[u8]) -> bool {
    memchr::memchr(0, &text[..text.len().min(HEAD)]).is_some()
}

/// A byte order mark, by which the searcher itself decodes.
pub(super) fn has_mark(text: &[u8]) -> bool {
    Encoding::by_mark(text).is_some()
}
