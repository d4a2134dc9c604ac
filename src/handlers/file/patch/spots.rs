//! Where one hunk may stand in a file, and whether it was applied before. Not here: which of several spots is meant
//! (placing).

use super::lines::{FileLines, TIERS};
use super::{Hunk, Kind, Line};
use crate::handlers::file::leniency::Tier;

/// A text shorter than this may stand in a file by chance.
const TELLING: usize = 8;

/// The spots of a hunk, all of one tier.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Spots {
    /// The first lines, in order.
    pub starts: Vec<usize>,
    pub tier: Option<Tier>,
    /// What of the hunk's head was not followed.
    pub note: Option<String>,
}

/// Every line at which the hunk's context and removed lines stand, by the strictest tier that finds any; only those
/// that its anchors lead to, where they lead anywhere.
pub(super) fn find(file: &mut FileLines<'_>, hunk: &Hunk) -> Spots {
    let old = hunk.before();
    let anchors = positions(file, &hunk.anchors);
    let mut anywhere = Spots::default();
    for tier in TIERS {
        let mut starts = file.places(&old, tier);
        if tier == Tier::Exact && ends_open(hunk) {
            starts.retain(|at| at + old.len() == file.len());
        }
        if hunk.at_end && starts.last().is_some_and(|at| at + old.len() == file.len()) {
            starts.drain(..starts.len() - 1);
        }
        let led = match &anchors {
            Anchors::None => starts.clone(),
            Anchors::Missing(_) => Vec::new(),
            Anchors::At(lines) => behind(lines, &starts),
        };
        if !led.is_empty() {
            return Spots { starts: led, tier: Some(tier), note: None };
        }
        if anywhere.tier.is_none() && !starts.is_empty() {
            anywhere = Spots { starts, tier: Some(tier), note: anchors.not_followed() };
        }
    }
    anywhere
}

/// Whether one of the lines that come has no line feed behind it, which only a file's last line may.
pub(super) fn ends_open(hunk: &Hunk) -> bool {
    hunk.lines.iter().any(|line| line.kind == Kind::Added && !line.newline)
}

/// Where the lines stand that a hunk's head names.
pub(super) enum Anchors {
    /// It names none.
    None,
    /// The last of them stands at these lines.
    At(Vec<usize>),
    /// This one is not in the file.
    Missing(String),
}

impl Anchors {
    fn not_followed(&self) -> Option<String> {
        match self {
            Self::None => None,
            Self::At(_) => Some(
                "its lines stand before its `@@` line, not behind; they are the only such lines".to_owned(),
            ),
            Self::Missing(anchor) => {
                Some(format!("its `@@ {anchor}` is not in the file; its lines are the only such lines"))
            }
        }
    }
}

/// The lines that these anchors lead to, each behind the one before.
pub(super) fn positions(file: &mut FileLines<'_>, anchors: &[String]) -> Anchors {
    let mut reached: Option<Vec<usize>> = None;
    for anchor in anchors {
        let line = Line { kind: Kind::Context, text: anchor.clone(), newline: true };
        let mut found =
            TIERS[1..].iter().map(|tier| file.places(&[&line], *tier)).find(|found| !found.is_empty());
        if found.is_none() {
            found = Some(file.containing(anchor)).filter(|found| !found.is_empty());
        }
        let next = match (found, &reached) {
            (None, _) => return Anchors::Missing(anchor.clone()),
            (Some(found), None) => found,
            (Some(found), Some(reached)) => {
                let outer: Vec<usize> = reached.iter().map(|line| line + 1).collect();
                behind(&outer, &found)
            }
        };
        if next.is_empty() {
            return Anchors::Missing(anchor.clone());
        }
        reached = Some(next);
    }
    reached.map_or(Anchors::None, Anchors::At)
}

/// For each of the lines the first start at or behind it.
fn behind(lines: &[usize], starts: &[usize]) -> Vec<usize> {
    let mut found: Vec<usize> = lines
        .iter()
        .filter_map(|line| starts.get(starts.partition_point(|start| start < line)).copied())
        .collect();
    found.dedup();
    found
}

/// Whether a hunk that is a diff's has its stated place here: what leans on the beginning or end of the file does.
pub(super) fn leans_right(file: &FileLines<'_>, hunk: &Hunk, at: usize) -> bool {
    let (before, after) = hunk.margins();
    (before >= after || at == 0) && (after >= before || at + hunk.before().len() == file.len())
}

/// Where the hunk's context and added lines stand, if its old ones do not: it was applied before.
pub(super) fn applied(file: &mut FileLines<'_>, hunk: &Hunk) -> Option<usize> {
    let new = hunk.after();
    let (before, after) = hunk.margins();
    let adds = hunk.lines.iter().any(|line| line.kind == Kind::Added);
    let chars: usize = new.iter().map(|line| line.text.trim().len()).sum();
    // Where lines only go, both neighbours must be there, now side by side.
    if chars < TELLING || (!adds && (before == 0 || after == 0)) {
        return None;
    }
    let places = TIERS[..2].iter().map(|tier| file.places(&new, *tier)).find(|places| !places.is_empty())?;
    match places.as_slice() {
        [only] => Some(*only),
        several => {
            let stated = hunk.stated?.start.saturating_sub(1);
            several.contains(&stated).then_some(stated)
        }
    }
}

/// Whether the lines that a hunk would put beside its context are there already, in that place.
pub(super) fn would_repeat(file: &FileLines<'_>, hunk: &Hunk, at: usize) -> bool {
    let (before, after) = hunk.margins();
    let new = hunk.after();
    let added = new.len() - hunk.before().len().min(new.len());
    let from = match (before, after) {
        (0, _) => at.checked_sub(added),
        (_, 0) => Some(at),
        _ => None,
    };
    !hunk.lines.iter().any(|line| line.kind == Kind::Removed)
        && from.is_some_and(|from| TIERS[..2].iter().any(|tier| file.matches(from, &new, *tier).is_some()))
}
