//! Finds the lines at which one hunk may match a file, and detects a hunk that was applied before.

use std::collections::BTreeMap;

use memchr::memmem;

use super::{Hunk, LineKind};
use crate::file::block_search::{LineHashes, LineTable};
use crate::file::match_tier::{MatchTier, comparison_key};

/// The tiers, strictest first.
const TIERS: [MatchTier; 6] = [
    MatchTier::Exact,
    MatchTier::LineEndings,
    MatchTier::TrailingSpace,
    MatchTier::Typography,
    MatchTier::Indentation,
    MatchTier::Tabs,
];

/// The UTF-8 byte order mark.
const BYTE_ORDER_MARK: &str = "\u{FEFF}";

/// A shorter text may occur in a file by chance.
const MIN_DISTINCTIVE_BYTES: usize = 8;

/// The lines of a patched file, hashed for each tier that was needed.
pub(super) struct PatchedLines<'t> {
    pub table: LineTable<'t>,
    hashes: BTreeMap<MatchTier, LineHashes>,
}

/// The places of a hunk, all of one tier.
#[derive(Debug)]
pub(super) struct HunkCandidates {
    /// The first lines of the places, in order.
    pub starts: Vec<usize>,
    pub tier: MatchTier,
    /// The part of the hunk's head that was ignored.
    pub note: Option<String>,
}

/// The lines that a hunk's anchors lead to.
pub(super) enum AnchorLines {
    /// The hunk has no anchors.
    None,
    /// The last anchor is at these lines.
    At(Vec<usize>),
    /// This anchor is not in the file.
    Missing(String),
}

impl AnchorLines {
    fn unfollowed_note(&self) -> Option<String> {
        match self {
            Self::None => None,
            Self::At(_) => Some(
                "its lines stand before its `@@` line, not behind; they are the only such lines"
                    .to_owned(),
            ),
            Self::Missing(anchor) => Some(format!(
                "its `@@ {anchor}` is not in the file; its lines are the only such lines"
            )),
        }
    }
}

impl<'t> PatchedLines<'t> {
    /// Splits a file's text for these hunks. Its byte order mark is not part of the first line,
    /// unless a hunk contains it: such a patch may remove it.
    pub(super) fn split_for_hunks(text: &'t [u8], hunks: &[Hunk]) -> Self {
        let mut lines = hunks.iter().flat_map(|hunk| &hunk.lines);
        let is_marked = text.starts_with(BYTE_ORDER_MARK.as_bytes());
        let names_mark = lines.any(|line| line.text.starts_with(BYTE_ORDER_MARK));
        let skipped = if is_marked && !names_mark {
            BYTE_ORDER_MARK.len()
        } else {
            0
        };
        Self {
            table: LineTable::split_lines(text, skipped),
            hashes: BTreeMap::new(),
        }
    }

    fn find(&mut self, block: &[&[u8]], tier: MatchTier) -> Vec<usize> {
        if block.is_empty() || block.len() > self.table.len() {
            return Vec::new();
        }
        let hashes = self
            .hashes
            .entry(tier)
            .or_insert_with(|| self.table.hash(tier));
        self.table.find_block(hashes, block)
    }

    /// Finds every line at which the hunk's old lines match, by the strictest tier with a match. If
    /// its anchors lead to some of them, returns only those.
    pub(super) fn find_candidates(&mut self, hunk: &Hunk) -> Option<HunkCandidates> {
        let old = hunk.old_lines();
        let is_at_end = |table: &LineTable<'_>, at: usize| at + old.len() == table.len();
        let anchors = self.find_anchors(&hunk.anchors);
        let mut anywhere = None;
        for tier in TIERS {
            let mut starts = self.find(&old, tier);
            if tier == MatchTier::Exact && hunk.adds_open_line() {
                starts.retain(|at| is_at_end(&self.table, *at));
            }
            if hunk.at_end && starts.last().is_some_and(|at| is_at_end(&self.table, *at)) {
                starts.drain(..starts.len() - 1);
            }
            // Tabs and blanks are forgiven at the only such lines.
            if starts.is_empty() || (tier == MatchTier::Tabs && starts.len() > 1) {
                continue;
            }
            let led = match &anchors {
                AnchorLines::None => starts.clone(),
                AnchorLines::Missing(_) => Vec::new(),
                AnchorLines::At(lines) => first_starts_after(lines, &starts),
            };
            if !led.is_empty() {
                return Some(HunkCandidates {
                    starts: led,
                    tier,
                    note: None,
                });
            }
            anywhere.get_or_insert_with(|| HunkCandidates {
                starts,
                tier,
                note: anchors.unfollowed_note(),
            });
        }
        anywhere
    }

    /// Finds the lines that these anchors lead to, each after the one before.
    pub(super) fn find_anchors(&mut self, anchors: &[String]) -> AnchorLines {
        let mut reached = AnchorLines::None;
        for anchor in anchors {
            let mut found = Vec::new();
            for tier in &TIERS[1..] {
                if found.is_empty() {
                    found = self.find(&[anchor.as_bytes()], *tier);
                }
            }
            if found.is_empty() {
                found = self.find_lines_containing(anchor);
            }
            let next = match &reached {
                AnchorLines::At(outer) => {
                    let behind: Vec<usize> = outer.iter().map(|line| line + 1).collect();
                    first_starts_after(&behind, &found)
                }
                _ => found,
            };
            if next.is_empty() {
                return AnchorLines::Missing(anchor.clone());
            }
            reached = AnchorLines::At(next);
        }
        reached
    }

    /// Finds the lines that contain this text.
    fn find_lines_containing(&self, text: &str) -> Vec<usize> {
        let wanted = comparison_key(text.as_bytes(), MatchTier::Indentation);
        let finder = memmem::Finder::new(&wanted);
        let key = |line| comparison_key(self.table.with_ending(line), MatchTier::Indentation);
        let has_it = |line: &usize| !wanted.is_empty() && finder.find(&key(*line)).is_some();
        (0..self.table.len()).filter(has_it).collect()
    }

    /// Returns whether a hunk of a diff fits here: with less context on one side it is at that end
    /// of the file.
    pub(super) fn fits_margins(&self, hunk: &Hunk, at: usize) -> bool {
        let (before, after) = hunk.context_margins();
        (before >= after || at == 0)
            && (after >= before || at + hunk.old_lines().len() == self.table.len())
    }

    /// Finds the place of a hunk that was applied before: its new lines match there, its old ones
    /// nowhere.
    pub(super) fn find_applied_hunk(&mut self, hunk: &Hunk) -> Option<usize> {
        let new = hunk.new_lines();
        let (before, after) = hunk.context_margins();
        let chars: usize = new.iter().map(|line| line.trim_ascii().len()).sum();
        // For a hunk that only removes lines, both neighbours must be there, now adjacent.
        if chars < MIN_DISTINCTIVE_BYTES
            || (!hunk.has_kind(LineKind::Added) && (before == 0 || after == 0))
        {
            return None;
        }
        let mut found = TIERS[..2].iter().map(|tier| self.find(&new, *tier));
        match found.find(|starts| !starts.is_empty())?.as_slice() {
            [only] => Some(*only),
            several => hunk
                .stated
                .map(|stated| stated.start.saturating_sub(1))
                .filter(|at| several.contains(at)),
        }
    }

    /// Returns whether the lines that a hunk would add beside its context are in that place
    /// already.
    pub(super) fn has_added_lines(&self, hunk: &Hunk, at: usize) -> bool {
        let new = hunk.new_lines();
        let from = match hunk.context_margins() {
            (0, _) => at.checked_sub(new.len().saturating_sub(hunk.old_lines().len())),
            (_, 0) => Some(at),
            _ => None,
        };
        let is_there = |from| {
            TIERS[..2]
                .iter()
                .any(|tier| self.table.matches_at(from, &new, *tier))
        };
        !hunk.has_kind(LineKind::Removed) && from.is_some_and(is_there)
    }
}

/// Finds for each of the lines the first start at or after it.
fn first_starts_after(lines: &[usize], starts: &[usize]) -> Vec<usize> {
    let behind = |line: &usize| {
        starts
            .get(starts.partition_point(|start| start < line))
            .copied()
    };
    let mut found: Vec<usize> = lines.iter().filter_map(behind).collect();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tier_finds_what_the_stricter_ones_do_not() {
        let text = "a\r\nsay “hi” \n    if x {\n      y\n    }\na\n".as_bytes();
        let mut file = PatchedLines::split_for_hunks(text, &[]);
        for (wanted, tier, expect) in [
            ("a\n", MatchTier::Exact, vec![5]),
            ("a\n", MatchTier::LineEndings, vec![0, 5]),
            ("say “hi”\n", MatchTier::TrailingSpace, vec![1]),
            ("say \"hi\"\n", MatchTier::Typography, vec![1]),
            ("if x {\n  y\n}\n", MatchTier::Indentation, vec![2]),
            ("if x {\n y\n}\n", MatchTier::Indentation, vec![]),
            ("}\na\nb\n", MatchTier::Exact, vec![]),
        ] {
            let wanted: Vec<&[u8]> = wanted.split_inclusive('\n').map(str::as_bytes).collect();
            assert_eq!(file.find(&wanted, tier), expect, "{wanted:?}");
            if let Some(at) = expect.first() {
                let mut stricter = TIERS.iter().filter(|other| **other < tier);
                assert!(
                    tier == MatchTier::LineEndings
                        || stricter.all(|tier| !file.table.matches_at(*at, &wanted, *tier))
                );
            }
        }
        assert_eq!(file.find_lines_containing("say \"hi"), [1]);
    }

    #[test]
    fn a_mark_belongs_to_the_first_line_only_when_asked_for() {
        let text = "\u{FEFF}a\nb".as_bytes();
        let line = |text: &str| super::super::HunkLine {
            kind: LineKind::Context,
            text: text.to_owned(),
        };
        let named = Hunk {
            lines: vec![line("\u{FEFF}a\n")],
            ..Hunk::default()
        };
        let table = PatchedLines::split_for_hunks(text, &[]).table;
        assert_eq!(
            (table.with_ending(0), table.with_ending(1), table.len()),
            (b"a\n".as_slice(), b"b".as_slice(), 2)
        );
        assert_eq!(
            PatchedLines::split_for_hunks(text, &[named])
                .table
                .with_ending(0),
            "\u{FEFF}a\n".as_bytes()
        );
        let len = |text: &str| {
            PatchedLines::split_for_hunks(text.as_bytes(), &[])
                .table
                .len()
        };
        assert_eq!((len(""), len("\n"), len(BYTE_ORDER_MARK)), (0, 1, 0));
    }
}
