//! Places all hunks of a file together, in order, each in its only possible place.

use super::hunk_candidates::{AnchorLines, PatchedLines};
use super::placement_error::{HunkPlacementError, ambiguous_hunk, hunk_name, unmatched_hunk};
use super::{Hunk, LineKind};
use crate::file::match_tier::MatchTier;
use punie_text::output::SecretBoundaries;
use punie_tool::ErrorCode;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HunkPlace {
    /// Its context and removed lines match from this line on.
    At { start: usize, tier: MatchTier },
    /// It has no such lines and is inserted before this one.
    Before(usize),
    /// It was applied before; its new lines match from this line on.
    Applied(usize),
    /// It has neither added nor removed lines.
    NoChange,
}

/// The places of a file's hunks, with notes for the answer.
#[derive(Debug, Default)]
pub(crate) struct PlacedHunks {
    pub places: Vec<HunkPlace>,
    pub notes: Vec<String>,
}

/// The place of a hunk before the others are considered.
enum HunkLocation {
    Decided(HunkPlace),
    /// The candidates for its first line.
    Candidates {
        starts: Vec<usize>,
        tier: MatchTier,
    },
}

/// The distance of the hunks so far from the lines that they state.
#[derive(Clone, Copy, Default)]
struct LineDrift(isize);

impl LineDrift {
    /// The line that a diff states, corrected by the shift of the hunks before it.
    fn expected_start(self, hunk: &Hunk) -> Option<usize> {
        hunk.stated?
            .start
            .checked_sub(1)?
            .checked_add_signed(self.0)
    }

    fn update_placed(&mut self, hunk: &Hunk, start: usize) {
        if let Some(stated) = hunk.stated.filter(|stated| stated.start > 0) {
            let stated = isize::try_from(stated.start).unwrap_or_default();
            self.0 = (start + 1).cast_signed() - stated;
        }
    }

    /// Counts a hunk that was applied before: the lines that it adds or removes are in the file
    /// already.
    fn update_applied(&mut self, hunk: &Hunk, start: usize) {
        self.update_placed(hunk, start);
        self.0 += hunk.new_lines().len().cast_signed() - hunk.old_lines().len().cast_signed();
    }
}

/// Finds a place for each hunk.
pub(super) fn place_hunks(
    file: &mut PatchedLines<'_>,
    hunks: &[Hunk],
    uncut: &SecretBoundaries,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<PlacedHunks, HunkPlacementError> {
    let mut placed = PlacedHunks::default();
    let mut located = locate_hunks(file, hunks, &mut placed.notes, uncut, is_cancelled)?;
    let is_ordered = narrow_by_order(hunks, &mut located);
    if !is_ordered {
        placed
            .notes
            .push("The hunks stand in another order in the file than in the patch.".to_owned());
    }
    let mut drift = LineDrift::default();
    let mut lowest = 0;
    let mut taken: Vec<(usize, usize)> = Vec::new();
    for ((number, hunk), location) in (1..).zip(hunks).zip(located) {
        let name = hunk_name(hunk, number);
        let place = match location {
            HunkLocation::Decided(place) => place,
            HunkLocation::Candidates { mut starts, tier } => {
                starts.retain(|start| !is_ordered || hunk.core_at(*start).0 >= lowest);
                let start = choose_start(hunk, &name, &starts, tier, drift)?;
                let is_stated = tier == MatchTier::Exact
                    && hunk.stated.is_some_and(|stated| stated.start == start + 1)
                    && file.fits_margins(hunk, start);
                if !is_stated && file.has_added_lines(hunk, start) {
                    drift.update_applied(hunk, start);
                    HunkPlace::Applied(start)
                } else {
                    drift.update_placed(hunk, start);
                    HunkPlace::At { start, tier }
                }
            }
        };
        let core = match &place {
            HunkPlace::At { start, .. } => {
                lowest = hunk.core_at(*start).1;
                Some(hunk.core_at(*start))
            }
            HunkPlace::Before(line) => Some((*line, *line)),
            HunkPlace::Applied(_) | HunkPlace::NoChange => None,
        };
        if let Some(core) = core {
            if taken
                .iter()
                .any(|other| core.0 < other.1 && other.0 < core.1)
            {
                return Err(HunkPlacementError::ambiguous(format!(
                    "{name} would change lines that another hunk of the patch changes, at line {}. Join them into one \
                     hunk.",
                    core.0 + 1
                )));
            }
            taken.push(core);
        }
        placed.places.push(place);
    }
    Ok(placed)
}

/// Finds the places that each hunk's own lines and head allow.
fn locate_hunks(
    file: &mut PatchedLines<'_>,
    hunks: &[Hunk],
    notes: &mut Vec<String>,
    uncut: &SecretBoundaries,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Vec<HunkLocation>, HunkPlacementError> {
    let mut located = Vec::with_capacity(hunks.len());
    let mut drift = LineDrift::default();
    for (number, hunk) in (1..).zip(hunks) {
        if is_cancelled() {
            let text = "The call was cancelled before anything was changed.".to_owned();
            return Err(HunkPlacementError {
                code: ErrorCode::Cancelled,
                text,
            });
        }
        let location = locate_hunk(file, hunk, &hunk_name(hunk, number), drift, notes, uncut)?;
        match &location {
            HunkLocation::Candidates { starts, .. } if starts.len() == 1 => {
                drift.update_placed(hunk, starts[0]);
            }
            HunkLocation::Decided(HunkPlace::Applied(at)) => drift.update_applied(hunk, *at),
            _ => {}
        }
        located.push(location);
    }
    Ok(located)
}

/// Finds the places that one hunk's own lines and head allow.
fn locate_hunk(
    file: &mut PatchedLines<'_>,
    hunk: &Hunk,
    name: &str,
    drift: LineDrift,
    notes: &mut Vec<String>,
    uncut: &SecretBoundaries,
) -> Result<HunkLocation, HunkPlacementError> {
    if !hunk.has_kind(LineKind::Added) && !hunk.has_kind(LineKind::Removed) {
        notes.push(format!(
            "{name} has neither + nor - lines; it changes nothing."
        ));
        return Ok(HunkLocation::Decided(HunkPlace::NoChange));
    }
    let old = hunk.old_lines();
    if old.is_empty() {
        return locate_without_context(file, hunk, name, notes).map(HunkLocation::Decided);
    }
    let expected = drift.expected_start(hunk).filter(|at| {
        file.table.matches_at(*at, &old, MatchTier::Exact)
            && file.fits_margins(hunk, *at)
            && (!hunk.adds_open_line() || at + old.len() == file.table.len())
    });
    if let Some(at) = expected {
        return Ok(HunkLocation::Candidates {
            starts: vec![at],
            tier: MatchTier::Exact,
        });
    }
    if let Some(found) = file.find_candidates(hunk) {
        if let Some(note) = found.note {
            if found.starts.len() > 1 {
                return Err(ambiguous_hunk(name, &found.starts, Some(&note)));
            }
            notes.push(format!("{name}: {note}."));
        }
        return Ok(HunkLocation::Candidates {
            starts: found.starts,
            tier: found.tier,
        });
    }
    match file.find_applied_hunk(hunk) {
        Some(at) => Ok(HunkLocation::Decided(HunkPlace::Applied(at))),
        None => Err(unmatched_hunk(file, hunk, name, uncut)),
    }
}

/// Places a hunk of added lines only: after its anchor, by its number, or at the end.
fn locate_without_context(
    file: &mut PatchedLines<'_>,
    hunk: &Hunk,
    name: &str,
    notes: &mut Vec<String>,
) -> Result<HunkPlace, HunkPlacementError> {
    let new = hunk.new_lines();
    let len = file.table.len();
    match file.find_anchors(&hunk.anchors) {
        AnchorLines::At(lines) => {
            let [line] = lines.as_slice() else {
                return Err(ambiguous_hunk(
                    name,
                    &lines,
                    Some("its `@@` line is not the only such line"),
                ));
            };
            if file
                .table
                .matches_at(line + 1, &new, MatchTier::LineEndings)
            {
                return Ok(HunkPlace::Applied(line + 1));
            }
            notes.push(format!(
                "{name} has no context; its lines were put behind its `@@` line, line {}.",
                line + 1
            ));
            return Ok(HunkPlace::Before(line + 1));
        }
        AnchorLines::Missing(anchor) => {
            return Err(HunkPlacementError::no_match(format!(
                "{name} has only + lines, and its `@@ {anchor}` is not in the file. Put the lines before and behind \
                 it into the hunk, with a blank before each."
            )));
        }
        AnchorLines::None => {}
    }
    if let Some(stated) = hunk.stated.filter(|_| !hunk.at_end) {
        // A diff without context names the line before.
        let at = if stated.count == 0 {
            stated.start
        } else {
            stated.start.saturating_sub(1)
        };
        if at > len {
            return Err(HunkPlacementError::no_match(format!(
                "{name} has only + lines and states line {}, but the file has {len} lines. Put the lines before and \
                 behind it into the hunk.",
                stated.start
            )));
        }
        if len > 0 {
            notes.push(format!(
                "{name} has no context; it was placed by its line number alone, behind line {at}."
            ));
        }
        return Ok(HunkPlace::Before(at));
    }
    if let Some(from) = len.checked_sub(new.len())
        && file.table.matches_at(from, &new, MatchTier::TrailingSpace)
    {
        return Ok(HunkPlace::Applied(from));
    }
    if len > 0 {
        notes.push(format!(
            "{name} has no context; its lines were put at the end of the file."
        ));
    }
    Ok(HunkPlace::Before(len))
}

/// Narrows each hunk's starts to those that preserve the order of the hunks. Returns false without
/// a change if there are none.
fn narrow_by_order(hunks: &[Hunk], located: &mut [HunkLocation]) -> bool {
    let mut open: Vec<(&Hunk, &mut Vec<usize>, Vec<usize>)> = Vec::new();
    for (hunk, location) in hunks.iter().zip(located) {
        if let HunkLocation::Candidates { starts, .. } = location {
            let narrowed = starts.clone();
            open.push((hunk, starts, narrowed));
        }
    }
    let mut lowest = 0;
    for (hunk, _, left) in &mut open {
        left.retain(|start| hunk.core_at(*start).0 >= lowest);
        let Some(first) = left.first() else {
            return false;
        };
        lowest = hunk.core_at(*first).1;
    }
    let mut highest = usize::MAX;
    for (hunk, _, left) in open.iter_mut().rev() {
        left.retain(|start| hunk.core_at(*start).1 <= highest);
        let Some(last) = left.last() else {
            return false;
        };
        highest = hunk.core_at(*last).0;
    }
    for (_, starts, left) in open {
        *starts = left;
    }
    true
}

/// Chooses the only start, or among exact ones the one nearest to the stated line.
fn choose_start(
    hunk: &Hunk,
    name: &str,
    starts: &[usize],
    tier: MatchTier,
    drift: LineDrift,
) -> Result<usize, HunkPlacementError> {
    match starts {
        [only] => return Ok(*only),
        [] => {
            return Err(HunkPlacementError::no_match(format!(
                "{name} has no place left beside the other hunks of the patch. Join hunks that are near each other."
            )));
        }
        _ => {}
    }
    if let Some(expected) = drift
        .expected_start(hunk)
        .filter(|_| tier == MatchTier::Exact)
    {
        let mut by_distance: Vec<(usize, usize)> = starts
            .iter()
            .map(|start| (start.abs_diff(expected), *start))
            .collect();
        by_distance.sort_unstable();
        if by_distance[0].0 < by_distance[1].0 {
            return Ok(by_distance[0].1);
        }
    }
    Err(ambiguous_hunk(name, starts, None))
}
