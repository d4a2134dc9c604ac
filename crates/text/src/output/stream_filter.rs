//! The interface of stream filters, such as the one that masks secrets.

use std::sync::Arc;

/// Rewrites a stream of bytes, holding back the possible beginning of a match.
pub trait StreamFilter: Send {
    /// Takes a chunk and appends the bytes that are safe to pass on to `out`.
    fn push(&mut self, chunk: &[u8], out: &mut Vec<u8>);
    /// Appends the bytes held back; the stream has ended.
    fn finish(&mut self, out: &mut Vec<u8>);
    /// Returns the bytes that are held back now.
    fn held_back(&self) -> &[u8] {
        &[]
    }
    /// Returns the number of replacements so far.
    fn rewritten_count(&self) -> u64;
}

/// Makes a filter for one stream.
pub type FilterFactory = Arc<dyn Fn() -> Box<dyn StreamFilter> + Send + Sync>;

/// A filter that passes everything on.
#[derive(Debug, Default)]
pub struct UnfilteredStream;

impl StreamFilter for UnfilteredStream {
    fn push(&mut self, chunk: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(chunk);
    }
    fn finish(&mut self, _out: &mut Vec<u8>) {}
    fn rewritten_count(&self) -> u64 {
        0
    }
}
