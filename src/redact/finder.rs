//! Finds many texts at once in bytes. Not here: which texts (forms), and what is done where one is found (known).
//!
//! Wu and Manber's search, "A fast algorithm for multi-pattern searching" (1994): a window as long as the shortest text
//! is moved by as much as its last three bytes allow, which is mostly nearly its own length. How many texts there are
//! hardly matters, which it does to an automaton: with a hundred of them one is a fifth as fast.

use std::ops::Range;

/// How many bytes decide how far the window moves.
const BLOCK: usize = 3;
/// The window needs no more: what is further on is compared where the window fits.
const WIDEST: usize = 16;
/// How large the table of moves is, as a power of two: in the least, and at the most, which the processor's cache holds.
const FEWEST_SLOTS: u32 = 16;
const MOST_SLOTS: u32 = 20;
/// So many slots for each block that a text has: most of what is looked up is in none then.
const ROOM: usize = 8;

/// Finds each of its texts wherever it stands.
pub(super) struct Finder {
    window: usize,
    /// By how many bits a block's product is shifted for its slot.
    shift: u32,
    /// By the window's last block: how far to move on; nothing where a text may be there.
    moves: Vec<u8>,
    /// By the last block of their first `window` bytes, which texts that is; sorted.
    heads: Vec<(u32, u32)>,
}

impl Finder {
    /// For these texts, none of them shorter than a block. None where there are none.
    pub fn new(texts: &[String]) -> Option<Self> {
        let window = texts.iter().map(String::len).min()?.min(WIDEST);
        if window < BLOCK {
            return None;
        }
        let furthest = window - BLOCK + 1;
        let wanted = (texts.len() * furthest * ROOM).next_power_of_two().ilog2();
        let bits = wanted.clamp(FEWEST_SLOTS, MOST_SLOTS);
        let shift = u32::BITS - bits;
        let mut moves = vec![u8::try_from(furthest).unwrap_or(u8::MAX); 1 << bits];
        let mut heads = Vec::with_capacity(texts.len());
        for (number, text) in texts.iter().enumerate() {
            let bytes = text.as_bytes();
            for end in BLOCK..=window {
                let slot = slot(&bytes[end - BLOCK..end], shift) as usize;
                moves[slot] = moves[slot].min(u8::try_from(window - end).unwrap_or(u8::MAX));
            }
            heads.push((slot(&bytes[window - BLOCK..window], shift), u32::try_from(number).ok()?));
        }
        heads.sort_unstable();
        Some(Self { window, shift, moves, heads })
    }

    /// Every place where one of the texts stands, those within others too, in the order in which they begin. Of those
    /// that begin together the longest. `texts` are those it was made of.
    pub fn all<'f>(
        &'f self,
        texts: &'f [String],
        bytes: &'f [u8],
    ) -> impl Iterator<Item = Range<usize>> + 'f {
        self.beginning_in(0..bytes.len(), texts, bytes)
    }

    /// The same of those that begin in a part of the bytes.
    pub fn beginning_in<'f>(
        &'f self,
        part: Range<usize>,
        texts: &'f [String],
        bytes: &'f [u8],
    ) -> impl Iterator<Item = Range<usize>> + 'f {
        let mut end = part.start + self.window;
        let until = &bytes[..bytes.len().min(part.end + self.window - 1)];
        std::iter::from_fn(move || {
            while let Some(block) = until.get(..end).and_then(|until| until.last_chunk::<BLOCK>()) {
                let slot = slot(block, self.shift);
                let step = usize::from(self.moves[slot as usize]);
                if step > 0 {
                    end += step;
                    continue;
                }
                let start = end - self.window;
                end += 1;
                if let Some(length) = self.longest(texts, slot, &bytes[start..]) {
                    return Some(start..start + length);
                }
            }
            None
        })
    }

    /// How long the longest text is that these bytes begin with.
    #[cold]
    fn longest(&self, texts: &[String], slot: u32, bytes: &[u8]) -> Option<usize> {
        let from = self.heads.partition_point(|(other, _)| *other < slot);
        let alike = self.heads[from..].iter().take_while(|(other, _)| *other == slot);
        let fitting = alike.map(|(_, number)| texts[*number as usize].as_bytes());
        fitting.filter(|text| bytes.starts_with(text)).map(<[u8]>::len).max()
    }
}

/// Where three bytes are looked up.
#[inline]
fn slot(block: &[u8], shift: u32) -> u32 {
    let number = u32::from(block[0]) | u32::from(block[1]) << 8 | u32::from(block[2]) << 16;
    // Fibonacci hashing: the product's upper half is well mixed.
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
            let finder = Finder::new(&texts).expect("texts");
            prop_assert_eq!(finder.all(&texts, bytes.as_bytes()).collect::<Vec<_>>(), expected.clone());
            let (from, to) = (part.0.index(bytes.len() + 1), part.1.index(bytes.len() + 1));
            let of_part: Vec<_> = expected.into_iter().filter(|place| (from..to).contains(&place.start)).collect();
            prop_assert_eq!(finder.beginning_in(from..to, &texts, bytes.as_bytes()).collect::<Vec<_>>(), of_part);
        }
    }

    #[test]
    fn none_is_made_of_nothing() {
        assert!(Finder::new(&[]).is_none());
    }
}
