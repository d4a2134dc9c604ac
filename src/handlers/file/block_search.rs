//! Finds blocks of whole lines in a text, as strictly as a tier asks. Edit and ApplyPatch share this search.

use std::hash::{BuildHasher as _, RandomState};

use memchr::memchr_iter;

use super::match_tier::{MatchTier, PlainLine, comparison_key, split_indent, strip_line_ending};
use super::reindent::IndentShift;

/// The hash of a blank line where indentation is ignored.
const BLANK: u64 = 0;

/// The lines of a text.
pub(super) struct LineTable<'t> {
    pub text: &'t [u8],
    /// The start of each line. A text held in memory is far below 4 GB.
    starts: Vec<u32>,
}

impl<'t> LineTable<'t> {
    /// Splits a text. The first `skipped` bytes belong to no line.
    pub(super) fn split_lines(text: &'t [u8], skipped: usize) -> Self {
        let newlines = memchr_iter(b'\n', &text[skipped..]).map(|at| skipped + at + 1);
        let starts = std::iter::once(skipped)
            .chain(newlines)
            .filter(|start| *start < text.len());
        Self {
            text,
            starts: starts
                .map(|start| u32::try_from(start).unwrap_or(u32::MAX))
                .collect(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// The start of a line; after the last line, the end of the text.
    pub(super) fn start_of(&self, line: usize) -> usize {
        self.starts
            .get(line)
            .map_or(self.text.len(), |start| *start as usize)
    }

    /// The line that contains a byte.
    pub(super) fn number_at(&self, at: usize) -> usize {
        self.starts
            .partition_point(|start| *start as usize <= at)
            .saturating_sub(1)
    }

    /// Drops all lines after the first `lines`, and their text.
    pub(super) fn truncate(&mut self, lines: usize) {
        self.text = &self.text[..self.start_of(lines)];
        self.starts.truncate(lines);
    }

    pub(super) fn with_ending(&self, line: usize) -> &'t [u8] {
        &self.text[self.start_of(line)..self.start_of(line + 1)]
    }

    /// The line without its ending.
    pub(super) fn body(&self, line: usize) -> &'t [u8] {
        strip_line_ending(self.with_ending(line))
    }

    pub(super) fn ends_in_newline(&self, line: usize) -> bool {
        self.with_ending(line).ends_with(b"\n")
    }

    /// Returns whether these whole lines begin at this line, in any indentation where the tier
    /// ignores it.
    pub(super) fn matches_at(&self, at: usize, lines: &[&[u8]], tier: MatchTier) -> bool {
        let is_same =
            |(at, line)| comparison_key(self.with_ending(at), tier) == comparison_key(line, tier);
        at.checked_add(lines.len())
            .is_some_and(|end| end <= self.len())
            && (at..).zip(lines.iter().copied()).all(is_same)
    }

    /// Hashes every line as a tier compares it.
    pub(super) fn hash(&self, tier: MatchTier) -> LineHashes {
        let random = RandomState::new();
        let hashes = hash_lines(
            &random,
            (0..self.len()).map(|line| self.with_ending(line)),
            tier,
            &[],
        );
        LineHashes {
            tier,
            hashes,
            random,
        }
    }

    /// Returns the first line of each block of these whole lines. Blocks may overlap.
    pub(super) fn find_block(&self, hashes: &LineHashes, block: &[&[u8]]) -> Vec<usize> {
        if hashes.tier == MatchTier::Tabs {
            let fits = |first: &usize| self.tab_shift_at(*first, block).is_some();
            return hashes.find_hashed_block(block).filter(fits).collect();
        }
        if hashes.tier != MatchTier::Indentation {
            return hashes.find_hashed_block(block).collect();
        }
        // After the first nonblank line, each line is compared with the one before.
        let Some(head) = first_nonblank_line(block) else {
            return Vec::new();
        };
        let plain = PlainLine::from_line(block[head], MatchTier::Indentation);
        let rest = block[head + 1..].iter().copied();
        let rest = hash_lines(
            &hashes.random,
            rest,
            MatchTier::Indentation,
            split_indent(&plain.bytes).0,
        );
        let starts = find_runs(&hashes.hashes, rest).filter_map(|line| line.checked_sub(head + 1));
        let fits = |first: &usize| {
            self.matches_at(*first, &block[..=head], MatchTier::Indentation)
                && self
                    .indent_shift_at(*first, block, MatchTier::Indentation)
                    .is_some()
        };
        starts.filter(fits).collect()
    }

    /// The indentation of the lines from this one on relative to a block, where the ones have tabs and the others blanks.
    fn tab_shift_at(&self, first: usize, block: &[&[u8]]) -> Option<IndentShift> {
        let is_blank = |line: &[u8]| line.trim_ascii().is_empty();
        let lines = (first..).zip(block).filter(|(_, line)| !is_blank(line));
        let pairs: Vec<(&[u8], &[u8])> = lines
            .map(|(at, line)| (split_indent(self.with_ending(at)).0, split_indent(line).0))
            .collect();
        IndentShift::between_tabs_and_blanks(&pairs)
    }

    /// The indentation of the lines from this one on relative to a block that matches by this tier.
    pub(super) fn indent_shift_at(
        &self,
        first: usize,
        block: &[&[u8]],
        tier: MatchTier,
    ) -> Option<IndentShift> {
        if tier == MatchTier::Tabs {
            return self.tab_shift_at(first, block);
        }
        let head = first_nonblank_line(block)?;
        let plain = [self.with_ending(first + head), block[head]]
            .map(|line| PlainLine::from_line(line, MatchTier::Indentation));
        let [there, wanted] = plain.each_ref().map(|line| split_indent(&line.bytes).0);
        IndentShift::between(there, wanted)
    }
}

/// The first line that is not blank.
fn first_nonblank_line(block: &[&[u8]]) -> Option<usize> {
    block
        .iter()
        .position(|line| !comparison_key(line, MatchTier::Indentation).is_empty())
}

/// The lines of a text by their randomly seeded hashes. In practice two different lines never
/// collide.
pub(super) struct LineHashes {
    tier: MatchTier,
    hashes: Vec<u64>,
    random: RandomState,
}

impl LineHashes {
    /// Finds the first line of each block of these whole lines. Blocks may overlap.
    pub(super) fn find_hashed_block(&self, block: &[&[u8]]) -> impl Iterator<Item = usize> {
        find_runs(
            &self.hashes,
            hash_lines(&self.random, block.iter().copied(), self.tier, &[]),
        )
    }
}

/// Hashes lines as a tier compares them; the first follows a line with this indentation.
///
/// Where indentation is ignored, a line's hash covers its trimmed text and its indentation relative
/// to the previous nonblank line. Shifting all lines by the same amount leaves these differences
/// equal.
fn hash_lines<'l>(
    random: &RandomState,
    lines: impl Iterator<Item = &'l [u8]>,
    tier: MatchTier,
    indent_before: &[u8],
) -> Vec<u64> {
    if tier != MatchTier::Indentation {
        return lines
            .map(|line| random.hash_one(comparison_key(line, tier)))
            .collect();
    }
    let mut before = indent_before.to_vec();
    let mut hash_step = |line: &[u8]| {
        let plain = PlainLine::from_line(line, tier);
        let (indent, core) = split_indent(&plain.bytes);
        let core = core.trim_ascii_end();
        if core.is_empty() {
            return BLANK;
        }
        let shared = before
            .iter()
            .zip(indent)
            .take_while(|(a, b)| a == b)
            .count();
        let hash = random.hash_one((core, &before[shared..], &indent[shared..]));
        before.clear();
        before.extend_from_slice(indent);
        hash
    };
    lines.map(&mut hash_step).collect()
}

/// Finds a run of numbers with the Knuth-Morris-Pratt algorithm, so the work never grows with the
/// product of the lengths.
fn find_runs(numbers: &[u64], run: Vec<u64>) -> impl Iterator<Item = usize> {
    // For each matched length: the next shorter one that also matches there.
    let mut shorter = vec![0; run.len() + 1];
    for at in 1..run.len() {
        shorter[at + 1] = extend_run(&run, &shorter, shorter[at], run[at]);
    }
    let mut fits = 0;
    (0..=numbers.len()).filter_map(move |end| {
        if run.is_empty() {
            return Some(end);
        }
        fits = extend_run(&run, &shorter, fits, *numbers.get(end.checked_sub(1)?)?);
        if fits < run.len() {
            return None;
        }
        fits = shorter[fits];
        Some(end - run.len())
    })
}

/// The length of the match after one more number.
fn extend_run(run: &[u64], shorter: &[usize], mut fits: usize, number: u64) -> usize {
    while fits > 0 && run[fits] != number {
        fits = shorter[fits];
    }
    fits + usize::from(run[fits] == number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::file::match_tier::trim_blanks;
    use crate::file::quote_search::find_quote;

    /// Reference implementation: compares every line with every part.
    fn slowly(text: &[u8], parts: &[&[u8]], tier: MatchTier) -> Option<usize> {
        let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        let plain = |line: &[u8]| PlainLine::from_line(line, tier).bytes.into_owned();
        let last = parts.len() - 1;
        let inner = parts.len() - 2;
        (0..lines.len())
            .find(|from| {
                let Some(of) = lines.get(*from..from + last) else {
                    return false;
                };
                let rest = lines
                    .get(from + last)
                    .map(|line| plain(strip_line_ending(line)));
                let first = plain(strip_line_ending(of[0]));
                let end = plain(parts[last]);
                of.iter().all(|line| {
                    line.ends_with(
                        b"
",
                    )
                }) && trim_blanks(&first, tier).ends_with(trim_blanks(&plain(parts[0]), tier))
                    && (1..=inner).all(|at| {
                        trim_blanks(&plain(strip_line_ending(of[at])), tier)
                            == trim_blanks(&plain(parts[at]), tier)
                    })
                    && (end.is_empty()
                        || rest.is_some_and(|rest| {
                            rest.starts_with(&end)
                                || tier >= MatchTier::TrailingSpace
                                    && trim_blanks(&rest, tier) == trim_blanks(&end, tier)
                        }))
            })
            .map(|from| from + 1)
    }

    /// Reference implementation: compares the indentation of every line with that of every part.
    fn slowly_indented(text: &[u8], parts: &[&[u8]]) -> Option<usize> {
        let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        let ends_whole = parts.len() > 1 && parts.last().is_some_and(|part| part.is_empty());
        let whole = if ends_whole {
            &parts[..parts.len() - 1]
        } else {
            parts
        };
        (0..lines.len())
            .find(|from| {
                let Some(of) = lines.get(*from..from + whole.len()) else {
                    return false;
                };
                if ends_whole
                    && !of[of.len() - 1].ends_with(
                        b"
",
                    )
                {
                    return false;
                }
                let mut shift = None;
                of.iter().zip(whole).all(|(line, part)| {
                    let (ours, body) = split_indent(strip_line_ending(line));
                    let (theirs, part) = split_indent(part);
                    if body.trim_ascii_end() != part.trim_ascii_end() {
                        return false;
                    }
                    if body.trim_ascii_end().is_empty() {
                        return true;
                    }
                    let this = match (ours.strip_suffix(theirs), theirs.strip_suffix(ours)) {
                        (Some(more), _) => (true, more.to_vec()),
                        (_, Some(less)) => (false, less.to_vec()),
                        _ => return false,
                    };
                    *shift.get_or_insert_with(|| this.clone()) == this
                }) && shift.is_some()
            })
            .map(|from| from + 1)
    }

    fn first_line(text: &str, old: &str, tier: MatchTier) -> Option<usize> {
        let found = find_quote(text.as_bytes(), old, MatchTier::Indentation)?;
        assert!(found.tier <= tier, "{found:?}");
        let start = found.places[0].range.start;
        (found.tier == tier).then(|| text[..start].matches('\n').count() + 1)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn blocks_are_found_where_comparing_all_with_all_finds_them(
            text in "([ab]{0,2}[ ]{0,1}\r?\n){0,8}[ab]{0,2}",
            old in "([ab]{0,2}[ ]{0,1}\n){1,4}[ab]{0,2}",
        ) {
            prop_assume!(!old.trim().is_empty());
            let parts: Vec<&[u8]> = old.split('\n').map(str::as_bytes).collect();
            if !text.contains(&old) {
                for tier in [MatchTier::LineEndings, MatchTier::TrailingSpace] {
                    if let Some(line) = slowly(text.as_bytes(), &parts, tier) {
                        prop_assert_eq!(first_line(&text, &old, tier), Some(line));
                        break;
                    }
                    prop_assert_ne!(find_quote(text.as_bytes(), &old, MatchTier::Indentation).map(|found| found.tier), Some(tier));
                }
            }
        }

        #[test]
        fn indented_blocks_are_found_where_comparing_all_with_all_finds_them(
            text in "([ \t]{0,2}[ab]{0,1}\n){0,9}",
            old in "([ \t]{0,2}[ab]{0,1}\n){1,4}",
        ) {
            let parts: Vec<&[u8]> = old.split('\n').map(str::as_bytes).collect();
            let found = find_quote(text.as_bytes(), &old, MatchTier::Indentation);
            if found.as_ref().is_none_or(|found| found.tier == MatchTier::Indentation) {
                let line = found.map(|found| text[..found.places[0].range.start].matches('\n').count() + 1);
                prop_assert_eq!(line, slowly_indented(text.as_bytes(), &parts));
            }
        }
    }

    #[test]
    fn many_equal_lines_are_no_trouble() {
        let text = "  a\n".repeat(200_000);
        let old = format!("{}b\n", "a\n".repeat(2_000));
        assert_eq!(
            find_quote(text.as_bytes(), &old, MatchTier::Indentation),
            None
        );
        let mut text = text;
        text.push_str("  b\n");
        let found = find_quote(text.as_bytes(), &old, MatchTier::Indentation).expect("at the end");
        assert_eq!((found.tier, found.count), (MatchTier::Indentation, 1));
    }
}
