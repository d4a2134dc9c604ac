//! Searches bytes for many strings at once.
//!
//! Wu and Manber's search, "A fast algorithm for multi-pattern searching" (1994). A window as long as the shortest
//! string is moved by as much as its last three bytes allow, mostly nearly its own length. The number of strings
//! hardly matters, unlike for an automaton: with a hundred strings, an automaton is five times slower.

use std::ops::Range;

/// The number of bytes that determine the shift.
const BLOCK_BYTES: usize = 3;
/// The longest window. A longer string is compared in full where its window matches.
const MAX_WINDOW: usize = 16;
/// The size of the shift table as a power of two: the minimum, and the maximum that fits the processor's cache.
const MIN_SLOT_BITS: u32 = 14;
const MAX_SLOT_BITS: u32 = 20;
/// The number of slots per block of a string, so that most lookups hit an empty slot.
const SLOTS_PER_BLOCK: usize = 8;

pub(super) struct MultiPatternSearch {
    window: usize,
    /// The shift that turns a block's product into its slot.
    shift: u32,
    /// The shift of the window by its last block; 0 where a string may match.
    shifts: Vec<u8>,
    /// The strings by the slot of the last block of their first `window` bytes; sorted.
    heads: Vec<(u32, u32)>,
}

impl MultiPatternSearch {
    /// Builds the search. `None` if there are no strings, or one is shorter than a block.
    pub fn new(texts: &[String]) -> Option<Self> {
        let window = texts.iter().map(String::len).min()?.min(MAX_WINDOW);
        if window < BLOCK_BYTES {
            return None;
        }
        let furthest = window - BLOCK_BYTES + 1;
        let wanted = (texts.len() * furthest * SLOTS_PER_BLOCK)
            .next_power_of_two()
            .ilog2();
        let bits = wanted.clamp(MIN_SLOT_BITS, MAX_SLOT_BITS);
        let shift = u32::BITS - bits;
        let mut moves = vec![u8::try_from(furthest).unwrap_or(u8::MAX); 1 << bits];
        let mut heads = Vec::with_capacity(texts.len());
        for (number, text) in texts.iter().enumerate() {
            let bytes = text.as_bytes();
            for end in BLOCK_BYTES..=window {
                let slot = block_slot(&bytes[end - BLOCK_BYTES..end], shift) as usize;
                moves[slot] = moves[slot].min(u8::try_from(window - end).unwrap_or(u8::MAX));
            }
            heads.push((
                block_slot(&bytes[window - BLOCK_BYTES..window], shift),
                u32::try_from(number).ok()?,
            ));
        }
        heads.sort_unstable();
        Some(Self {
            window,
            shift,
            shifts: moves,
            heads,
        })
    }

    /// Finds all matches, overlapping ones too, by their start; of those with the same start, the longest. `texts` are
    /// those given to `new`.
    pub fn find_matches<'f>(
        &'f self,
        texts: &'f [String],
        bytes: &'f [u8],
    ) -> impl Iterator<Item = Range<usize>> + 'f {
        self.find_matches_in(0..bytes.len(), texts, bytes)
    }

    /// Finds the matches that begin in a part of the bytes.
    pub fn find_matches_in<'f>(
        &'f self,
        part: Range<usize>,
        texts: &'f [String],
        bytes: &'f [u8],
    ) -> impl Iterator<Item = Range<usize>> + 'f {
        let mut end = part.start + self.window;
        let until = &bytes[..bytes.len().min(part.end + self.window - 1)];
        std::iter::from_fn(move || {
            while let Some(block) = until
                .get(..end)
                .and_then(|until| until.last_chunk::<BLOCK_BYTES>())
            {
                let slot = block_slot(block, self.shift);
                let step = usize::from(self.shifts[slot as usize]);
                if step > 0 {
                    end += step;
                    continue;
                }
                let start = end - self.window;
                end += 1;
                if let Some(length) = self.longest_match(texts, slot, &bytes[start..]) {
                    return Some(start..start + length);
                }
            }
            None
        })
    }

    /// Returns the length of the longest string that these bytes begin with.
    #[cold]
    fn longest_match(&self, texts: &[String], slot: u32, bytes: &[u8]) -> Option<usize> {
        let from = self.heads.partition_point(|(other, _)| *other < slot);
        let alike = self.heads[from..]
            .iter()
            .take_while(|(other, _)| *other == slot);
        let fitting = alike.map(|(_, number)| texts[*number as usize].as_bytes());
        fitting
            .filter(|text| bytes.starts_with(text))
            .map(<[u8]>::len)
            .max()
    }
}

/// Returns the slot of a block of three bytes.
#[inline]
fn block_slot(block: &[u8], shift: u32) -> u32 {
    let number = u32::from(block[0]) | u32::from(block[1]) << 8 | u32::from(block[2]) << 16;
    // Fibonacci hashing: the upper bits of the product are well mixed.
    number.wrapping_mul(0x9e37_79b1) >> shift
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_finds_what_looking_everywhere_finds(
            texts in prop::collection::btree_set("[ab/é+]{3,20}", 1..60), bytes in "[abc/é+\n]{0,300}",
            part in any::<(prop::sample::Index, prop::sample::Index)>(),
        ) {
            let texts: Vec<String> = texts.into_iter().collect();
            let expected: Vec<Range<usize>> = (0..bytes.len())
                .filter_map(|at| {
                    let rest = &bytes.as_bytes()[at..];
                    let longest = texts.iter().filter(|text| rest.starts_with(text.as_bytes())).map(String::len).max();
                    longest.map(|length| at..at + length)
                })
                .collect();
            let finder = MultiPatternSearch::new(&texts).expect("texts");
            prop_assert_eq!(finder.find_matches(&texts, bytes.as_bytes()).collect::<Vec<_>>(), expected.clone());
            let (from, to) = (part.0.index(bytes.len() + 1), part.1.index(bytes.len() + 1));
            let of_part: Vec<_> = expected.into_iter().filter(|place| (from..to).contains(&place.start)).collect();
            prop_assert_eq!(finder.find_matches_in(from..to, &texts, bytes.as_bytes()).collect::<Vec<_>>(), of_part);
        }
    }

    #[test]
    fn none_is_made_of_nothing() {
        assert!(MultiPatternSearch::new(&[]).is_none());
    }
}
