//! Finds exact occurrences of a text in a file that is too large to load. Reads chunks in constant memory and finds the
//! same places as quote_search in memory.

use std::io::{self, Read};
use std::ops::Range;

use memchr::{memchr, memchr_iter, memmem};
use sha2::{Digest, Sha256};

use super::quote_search::{MAX_PLACES, include_carriage_return};
use super::reindent::{LineEnding, MAX_ENDING_DISTANCE};
use punie_core::ids::to_hex;
use punie_host::encoding::Utf8Tally;
use punie_host::files::read_full;

/// Bytes read at a time.
pub(super) const SEARCH_CHUNK_BYTES: usize = 256 << 10;

/// A place in a file. It is small, because there may be many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StreamMatch {
    /// The offset of its start.
    pub at: u64,
    /// The number of line endings before it. A searched file has less than four billion.
    pub newlines: u32,
    /// True if it begins with the carriage return before the quote's leading line feed.
    pub includes_carriage_return: bool,
    /// The line ending near the place; `None` if no line ends nearby.
    pub ending: Option<LineEnding>,
}

impl StreamMatch {
    /// The byte range of the place.
    pub(super) fn range(self, old: &str) -> Range<u64> {
        self.at..self.at + old.len() as u64 + u64::from(self.includes_carriage_return)
    }
}

/// The result of a search.
#[derive(Debug)]
pub(super) struct StreamMatches {
    /// The first [`MAX_PLACES`] matches, in order and without overlap.
    pub matches: Vec<StreamMatch>,
    pub count: u64,
    /// The file's line ending, for places without a nearer one.
    pub ending: LineEnding,
    /// The size of the file in bytes.
    pub size: u64,
    /// True if the bytes after a byte order mark are UTF-8.
    pub is_utf8: bool,
    /// The SHA-256 of the bytes in hex, if requested.
    pub sha256: Option<String>,
}

/// The search parameters.
pub(super) struct StreamSearch<'a> {
    /// The text, not empty.
    pub old: &'a str,
    /// Hash the bytes as well.
    pub hash: bool,
    /// Bytes read at a time.
    pub chunk: usize,
    pub is_cancelled: &'a dyn Fn() -> bool,
}

/// Properties of the bytes that do not depend on the search.
#[derive(Default)]
struct FileTraits {
    size: u64,
    tally: Utf8Tally,
    hasher: Option<Sha256>,
    last: Option<u8>,
    first: Option<LineEnding>,
    /// The number of carriage returns before it; two are enough.
    returns: usize,
}

impl FileTraits {
    fn update(&mut self, piece: &[u8]) {
        self.tally.count_piece(piece);
        if let Some(hasher) = &mut self.hasher {
            hasher.update(piece);
        }
        if self.first.is_none() {
            self.first = memchr(b'\n', piece).map(|at| {
                let before = if at == 0 {
                    self.last
                } else {
                    Some(piece[at - 1])
                };
                if before == Some(b'\r') {
                    LineEnding::Crlf
                } else {
                    LineEnding::Lf
                }
            });
            if self.returns < 2 {
                self.returns += memchr_iter(b'\r', piece).take(2).count();
            }
        }
        self.last = piece.last().copied().or(self.last);
        self.size += piece.len() as u64;
    }

    fn guess_line_ending(&self) -> LineEnding {
        match self.first {
            Some(first) => first,
            // A single one may be there by accident.
            None if self.returns >= 2 => LineEnding::Cr,
            None => LineEnding::Lf,
        }
    }
}

impl StreamSearch<'_> {
    /// Searches the file from its current position to its end.
    ///
    /// # Errors
    /// Read errors; `Interrupted` when it is cancelled.
    pub(super) fn run(&self, file: &mut dyn Read) -> io::Result<StreamMatches> {
        /// The overlap around the searched part: the range in which a place's line ending is
        /// searched.
        const MARGIN: usize = MAX_ENDING_DISTANCE + 2;
        let finder = memmem::Finder::new(self.old);
        let mut traits = FileTraits {
            hasher: self.hash.then(Sha256::new),
            ..FileTraits::default()
        };
        let (mut spots, mut count) = (Vec::new(), 0_u64);
        let mut window = vec![0; self.chunk + 2 * MARGIN + self.old.len()];
        // Offsets in the window: its filled end, the next search start, and the end of the counted
        // lines.
        let (mut filled, mut next, mut counted) = (0_usize, 0_usize, 0_usize);
        let (mut base, mut newlines) = (0_u64, 0_usize);
        loop {
            if (self.is_cancelled)() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let kept_from = next.saturating_sub(MARGIN);
            if kept_from > counted {
                newlines += memchr_iter(b'\n', &window[counted..kept_from]).count();
                counted = kept_from;
            }
            window.copy_within(kept_from..filled, 0);
            (filled, next, counted) = (filled - kept_from, next - kept_from, counted - kept_from);
            base += kept_from as u64;
            let room = window.len().min(filled + self.chunk);
            let read = read_full(file, &mut window[filled..room])?;
            traits.update(&window[filled..filled + read]);
            filled += read;
            let text = &window[..filled];
            let end = if read == 0 {
                filled
            } else {
                filled.saturating_sub(MARGIN).max(next)
            };
            let from = next;
            for at in finder.find_iter(&text[from..end]).map(|at| from + at) {
                next = at + self.old.len();
                count += 1;
                if spots.len() == MAX_PLACES {
                    continue;
                }
                newlines += memchr_iter(b'\n', &text[counted..at]).count();
                counted = at;
                let start = include_carriage_return(text, at, self.old);
                spots.push(StreamMatch {
                    at: base + start as u64,
                    newlines: u32::try_from(newlines).unwrap_or(u32::MAX),
                    includes_carriage_return: start < at,
                    ending: LineEnding::nearest_to_range(text, &(start..next)),
                });
            }
            // A place that begins from here on may have been incomplete.
            next = next.max((end + 1).saturating_sub(self.old.len()));
            if read == 0 {
                break;
            }
        }
        Ok(StreamMatches {
            matches: spots,
            count,
            ending: traits.guess_line_ending(),
            size: traits.size,
            is_utf8: traits.tally.is_mostly_utf8(),
            sha256: traits.hasher.map(|hasher| to_hex(&hasher.finalize())),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::file::large_edit::ReplacementTexts;
    use crate::file::match_tier::MatchTier;
    use crate::file::quote_search::find_quote;
    use crate::file::reindent::fit_replacement;

    fn scanned(text: &[u8], old: &str, chunk: usize) -> StreamMatches {
        let scan = StreamSearch {
            old,
            hash: true,
            chunk,
            is_cancelled: &|| false,
        };
        scan.run(&mut &*text).unwrap()
    }

    /// Checks that the search in chunks finds the same as the search of the whole text.
    fn compare(text: &[u8], old: &str, new: &str, chunk: usize) -> Result<(), TestCaseError> {
        let found = scanned(text, old, chunk);
        prop_assert_eq!(found.size, text.len() as u64);
        prop_assert_eq!(&found.sha256, &Some(to_hex(&Sha256::digest(text))));
        let Some(whole) =
            find_quote(text, old, MatchTier::Exact).filter(|whole| whole.tier == MatchTier::Exact)
        else {
            prop_assert_eq!(found.count, 0);
            return Ok(());
        };
        prop_assert_eq!(found.count, whole.count);
        prop_assert_eq!(found.matches.len(), whole.places.len());
        let texts = ReplacementTexts::new(old, new, found.ending);
        for (spot, place) in found.matches.iter().zip(&whole.places) {
            let range = spot.range(old);
            prop_assert_eq!(
                range.start..range.end,
                place.range.start as u64..place.range.end as u64
            );
            let newlines = memchr_iter(b'\n', &text[..place.range.start]).count();
            prop_assert_eq!(spot.newlines as usize, newlines);
            let with = fit_replacement(text, old, new, whole.tier, place);
            prop_assert_eq!(&**texts.for_match(*spot), with.as_slice());
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(600))]
        #[test]
        fn pieces_of_any_size_give_the_same_places(
            (text, old) in prop_oneof![
                ("[ab]{0,60}", "[ab]{1,6}"),
                ("[a\n]{0,60}", "[a\n]{1,5}"),
                ("[a\r\n]{0,60}", "[a\r\n]{1,5}"),
                ("\u{FEFF}?[a\r\n]{0,60}", "\u{FEFF}?[a\n]{1,4}"),
                ("[aä\r\n]{0,40}", "[aä]{1,3}"),
            ],
            new in "[x\r\n]{0,4}",
            chunk in 1_usize..17,
        ) {
            compare(text.as_bytes(), &old, &new, chunk)?;
        }

        #[test]
        fn far_line_endings_are_looked_for_as_far(
            (before, after) in (0_usize..3 * MAX_ENDING_DISTANCE, 0_usize..3 * MAX_ENDING_DISTANCE),
            ends in prop::collection::vec(prop::sample::select(vec!["\n", "\r\n", "\r"]), 3),
            chunk in prop_oneof![1_usize..17, 4000_usize..4200],
        ) {
            let text = format!("{}{}{}ab{}{}ab{}", "-".repeat(before / 2), ends[0], "-".repeat(before), "-".repeat(after), ends[1], ends[2]);
            compare(text.as_bytes(), "ab", "x\ny", chunk)?;
        }
    }

    #[test]
    fn more_places_than_can_be_replaced_are_counted() {
        let text = "ab".repeat(MAX_PLACES + 5);
        let found = scanned(text.as_bytes(), "ab", SEARCH_CHUNK_BYTES);
        assert_eq!(
            (found.matches.len(), found.count),
            (MAX_PLACES, MAX_PLACES as u64 + 5)
        );
    }

    #[test]
    fn a_cancel_ends_a_scan() {
        let scan = StreamSearch {
            old: "a",
            hash: false,
            chunk: 4,
            is_cancelled: &|| true,
        };
        assert_eq!(
            scan.run(&mut b"a".as_slice()).unwrap_err().kind(),
            io::ErrorKind::Interrupted
        );
    }
}
