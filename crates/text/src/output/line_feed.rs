//! Finds line feeds in the bytes of a text, whatever its encoding.

use memchr::memchr_iter;

/// The bytes of a line feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineFeed {
    /// One byte: in UTF-8, and in every older encoding.
    Byte,
    /// Two, at an even place, little end first.
    Utf16Le,
    /// Two, at an even place, big end first.
    Utf16Be,
}

impl LineFeed {
    /// Pieces of a file begin and end at a multiple of this.
    pub fn code_unit_bytes(self) -> u64 {
        if self == Self::Byte { 1 } else { 2 }
    }

    /// Finds the place behind each line feed.
    pub fn feed_ends(self, bytes: &[u8]) -> impl DoubleEndedIterator<Item = usize> {
        memchr_iter(b'\n', bytes).filter_map(move |at| match self {
            Self::Byte => Some(at + 1),
            Self::Utf16Le => (at % 2 == 0 && bytes.get(at + 1) == Some(&0)).then_some(at + 2),
            Self::Utf16Be => (at % 2 == 1 && bytes[at - 1] == 0).then_some(at + 1),
        })
    }

    /// Counts the line feeds.
    pub fn count_feeds(self, bytes: &[u8]) -> u64 {
        let count = match self {
            Self::Byte => memchr_iter(b'\n', bytes).count(),
            Self::Utf16Le | Self::Utf16Be => self.feed_ends(bytes).count(),
        };
        count as u64
    }

    /// Returns whether these bytes end with a line feed.
    pub fn ends_with_feed(self, bytes: &[u8]) -> bool {
        match self {
            Self::Byte => bytes.ends_with(b"\n"),
            Self::Utf16Le => bytes.len().is_multiple_of(2) && bytes.ends_with(b"\n\0"),
            Self::Utf16Be => bytes.len().is_multiple_of(2) && bytes.ends_with(b"\0\n"),
        }
    }
}
