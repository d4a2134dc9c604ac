//! Where each hunk of a file belongs: all of them together, in order, each in the only place that is left for it.
//! Not here: what is put there (weave).

use super::lines::{FileLines, Shift};
use super::spots::{self, Anchors};
use super::{Hunk, Kind};
use crate::handlers::file::leniency::Tier;
use crate::handlers::file::miss;
use crate::output::Uncut;
use crate::tool::ErrorCode;

/// Places named in an answer.
const NAMED: usize = 8;

/// Where a hunk belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Its context and removed lines stand from this line on.
    At { start: usize, tier: Tier, shift: Shift },
    /// It has no such lines and comes before this one.
    Before(usize),
    /// It was applied before; its new lines stand from this line on.
    Applied(usize),
    /// It has neither added nor removed lines.
    Idle,
}

/// The places of a file's hunks, with what is to be said of them.
#[derive(Debug, Default)]
pub(crate) struct Placed {
    pub places: Vec<Place>,
    pub notes: Vec<String>,
}

/// Why a hunk has no place.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub code: ErrorCode,
    /// A sentence that begins with the hunk's number.
    pub text: String,
}

/// What is known of a hunk's place before the others are looked at.
enum Known {
    /// It is decided.
    Decided(Place),
    /// One of these first lines.
    Among { starts: Vec<usize>, tier: Tier },
}

/// The lines between a hunk's outer context, from the file's line at which it starts: no two hunks share any.
fn core(hunk: &Hunk, start: usize) -> (usize, usize) {
    let (before, after) = hunk.margins();
    let old = hunk.lines.iter().filter(|line| line.kind != Kind::Added).count();
    (start + before, start + old - after)
}

/// Finds a place for each hunk.
pub(super) fn place(
    file: &mut FileLines<'_>,
    hunks: &[Hunk],
    uncut: &Uncut,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Placed, Trouble> {
    let mut placed = Placed::default();
    let mut known = Vec::with_capacity(hunks.len());
    let mut drift = 0;
    for (number, hunk) in (1..).zip(hunks) {
        if is_cancelled() {
            let text = "The call was cancelled before anything was changed.".to_owned();
            return Err(Trouble { code: ErrorCode::Cancelled, text });
        }
        let this = look(file, hunk, number, drift, &mut placed.notes, uncut)?;
        match &this {
            Known::Among { starts, .. } if starts.len() == 1 => drift = drift_at(hunk, starts[0], drift),
            Known::Decided(Place::Applied(at)) => drift = drift_behind(hunk, *at, drift),
            _ => {}
        }
        known.push(this);
    }
    let narrowed = in_order(hunks, &known);
    if narrowed.is_none() {
        placed.notes.push("The hunks stand in another order in the file than in the patch.".to_owned());
    }
    let is_ordered = narrowed.is_some();
    let mut drift = 0;
    let mut lowest = 0;
    let mut taken: Vec<(usize, usize)> = Vec::new();
    for (at, (hunk, known)) in hunks.iter().zip(known).enumerate() {
        let number = at + 1;
        let place = match known {
            Known::Decided(place) => place,
            Known::Among { starts, tier } => {
                let mut starts = narrowed.as_ref().map_or(starts, |narrowed| narrowed[at].clone());
                if is_ordered {
                    starts.retain(|start| core(hunk, *start).0 >= lowest);
                }
                let start = choose(hunk, number, &starts, tier, drift)?;
                drift = drift_at(hunk, start, drift);
                let is_stated = hunk.stated.is_some_and(|stated| stated.start == start + 1);
                if !(is_stated && tier == Tier::Exact && spots::leans_right(file, hunk, start))
                    && spots::would_repeat(file, hunk, start)
                {
                    drift = drift_behind(hunk, start, drift);
                    Place::Applied(start)
                } else {
                    let shift = file.matches(start, &hunk.before(), tier).unwrap_or(Shift::None);
                    Place::At { start, tier, shift }
                }
            }
        };
        let span = match &place {
            Place::At { start, .. } => {
                lowest = core(hunk, *start).1;
                Some(core(hunk, *start))
            }
            Place::Before(line) => Some((*line, *line)),
            Place::Applied(_) | Place::Idle => None,
        };
        if let Some(span) = span {
            if taken.iter().any(|other| span.0 < other.1 && other.0 < span.1) {
                let text = format!(
                    "{} would change lines that another hunk of the patch changes, at line {}. Join them into one hunk.",
                    named(hunk, number),
                    span.0 + 1
                );
                return Err(Trouble { code: ErrorCode::Ambiguous, text });
            }
            taken.push(span);
        }
        placed.places.push(place);
    }
    Ok(placed)
}

/// How an answer calls a hunk.
fn named(hunk: &Hunk, number: usize) -> String {
    format!("Hunk {number} (line {} of the patch)", hunk.line)
}

/// The line that a diff states, as far as the hunks before it have moved.
fn expected(hunk: &Hunk, drift: isize) -> Option<usize> {
    hunk.stated?.start.checked_sub(1)?.checked_add_signed(drift)
}

fn drift_at(hunk: &Hunk, start: usize, drift: isize) -> isize {
    hunk.stated.filter(|stated| stated.start > 0).map_or(drift, |stated| {
        isize::try_from(start + 1).unwrap_or_default() - isize::try_from(stated.start).unwrap_or_default()
    })
}

/// The same behind a hunk that was applied before: what it adds or takes is in the file already.
fn drift_behind(hunk: &Hunk, start: usize, drift: isize) -> isize {
    let count = |lines: usize| isize::try_from(lines).unwrap_or_default();
    drift_at(hunk, start, drift) + count(hunk.after().len()) - count(hunk.before().len())
}

/// What one hunk's own lines and head say.
fn look(
    file: &mut FileLines<'_>,
    hunk: &Hunk,
    number: usize,
    drift: isize,
    notes: &mut Vec<String>,
    uncut: &Uncut,
) -> Result<Known, Trouble> {
    if !hunk.changes() {
        notes.push(format!("{} has neither + nor - lines; it changes nothing.", named(hunk, number)));
        return Ok(Known::Decided(Place::Idle));
    }
    let old = hunk.before();
    if old.is_empty() {
        return without_context(file, hunk, number, notes).map(Known::Decided);
    }
    if let Some(at) = expected(hunk, drift)
        && file.matches(at, &old, Tier::Exact).is_some()
        && spots::leans_right(file, hunk, at)
        && !(spots::ends_open(hunk) && at + old.len() != file.len())
    {
        return Ok(Known::Among { starts: vec![at], tier: Tier::Exact });
    }
    let found = spots::find(file, hunk);
    if let Some(tier) = found.tier {
        if let Some(note) = found.note {
            if found.starts.len() > 1 {
                return Err(ambiguous(hunk, number, &found.starts, Some(&note)));
            }
            notes.push(format!("{}: {note}.", named(hunk, number)));
        }
        return Ok(Known::Among { starts: found.starts, tier });
    }
    if let Some(at) = spots::applied(file, hunk) {
        return Ok(Known::Decided(Place::Applied(at)));
    }
    Err(miss(file, hunk, number, uncut))
}

/// A hunk of added lines only: behind its anchor, by its number, or at the end.
fn without_context(
    file: &mut FileLines<'_>,
    hunk: &Hunk,
    number: usize,
    notes: &mut Vec<String>,
) -> Result<Place, Trouble> {
    let name = named(hunk, number);
    match spots::positions(file, &hunk.anchors) {
        Anchors::At(lines) => {
            let [line] = lines.as_slice() else {
                return Err(ambiguous(hunk, number, &lines, Some("its `@@` line is not the only such line")));
            };
            let new = hunk.after();
            if file.matches(line + 1, &new, Tier::LineEndings).is_some() {
                return Ok(Place::Applied(line + 1));
            }
            notes.push(format!(
                "{name} has no context; its lines were put behind its `@@` line, line {}.",
                line + 1
            ));
            return Ok(Place::Before(line + 1));
        }
        Anchors::Missing(anchor) => {
            let text = format!(
                "{name} has only + lines, and its `@@ {anchor}` is not in the file. Put the lines before and behind \
                 it into the hunk, with a blank before each."
            );
            return Err(Trouble { code: ErrorCode::NoMatch, text });
        }
        Anchors::None => {}
    }
    if let Some(stated) = hunk.stated.filter(|_| !hunk.at_end) {
        // A diff without context names the line before.
        let at = if stated.count == 0 { stated.start } else { stated.start.saturating_sub(1) };
        if at > file.len() {
            let text = format!(
                "{name} has only + lines and states line {}, but the file has {} lines. Put the lines before and \
                 behind it into the hunk.",
                stated.start,
                file.len()
            );
            return Err(Trouble { code: ErrorCode::NoMatch, text });
        }
        if file.len() > 0 {
            notes.push(format!(
                "{name} has no context; it was placed by its line number alone, behind line {at}."
            ));
        }
        return Ok(Place::Before(at));
    }
    let new = hunk.after();
    let from = file.len().saturating_sub(new.len());
    if file.len() >= new.len() && file.matches(from, &new, Tier::TrailingSpace).is_some() {
        return Ok(Place::Applied(from));
    }
    if file.len() > 0 {
        notes.push(format!("{name} has no context; its lines were put at the end of the file."));
    }
    Ok(Place::Before(file.len()))
}

/// The starts that are left for each hunk when they keep their order; none where they cannot.
fn in_order(hunks: &[Hunk], known: &[Known]) -> Option<Vec<Vec<usize>>> {
    let mut left: Vec<Vec<usize>> = known
        .iter()
        .map(|known| match known {
            Known::Decided(_) => Vec::new(),
            Known::Among { starts, .. } => starts.clone(),
        })
        .collect();
    let is_open = |at: usize| matches!(known[at], Known::Among { .. });
    let mut lowest = 0;
    for at in (0..left.len()).filter(|at| is_open(*at)) {
        left[at].retain(|start| core(&hunks[at], *start).0 >= lowest);
        lowest = core(&hunks[at], *left[at].first()?).1;
    }
    let mut highest = usize::MAX;
    for at in (0..left.len()).rev().filter(|at| is_open(*at)) {
        left[at].retain(|start| core(&hunks[at], *start).1 <= highest);
        highest = core(&hunks[at], *left[at].last()?).0;
    }
    Some(left)
}

/// The only start, or the nearest to the stated line among exact ones.
fn choose(hunk: &Hunk, number: usize, starts: &[usize], tier: Tier, drift: isize) -> Result<usize, Trouble> {
    match starts {
        [only] => return Ok(*only),
        [] => {
            let text = format!(
                "{} has no place left beside the other hunks of the patch. Join hunks that are near each other.",
                named(hunk, number)
            );
            return Err(Trouble { code: ErrorCode::NoMatch, text });
        }
        _ => {}
    }
    if tier == Tier::Exact
        && let Some(expected) = expected(hunk, drift)
    {
        let mut by_distance: Vec<(usize, usize)> =
            starts.iter().map(|start| (start.abs_diff(expected), *start)).collect();
        by_distance.sort_unstable();
        if by_distance[0].0 < by_distance[1].0 {
            return Ok(by_distance[0].1);
        }
    }
    Err(ambiguous(hunk, number, starts, None))
}

fn ambiguous(hunk: &Hunk, number: usize, starts: &[usize], note: Option<&str>) -> Trouble {
    let mut lines: Vec<String> = starts.iter().take(NAMED).map(|start| (start + 1).to_string()).collect();
    if starts.len() > NAMED {
        lines.push(format!("and {} more", starts.len() - NAMED));
    }
    let note = note.map_or_else(String::new, |note| format!(" ({note})"));
    let text = format!(
        "{} fits at {} places: lines {}{note}. Add lines of context to it, or a line `@@ TEXT` with the text of a line \
         that stands above the right place.",
        named(hunk, number),
        starts.len(),
        lines.join(", ")
    );
    Trouble { code: ErrorCode::Ambiguous, text }
}

fn miss(file: &FileLines<'_>, hunk: &Hunk, number: usize, uncut: &Uncut) -> Trouble {
    let old: String = hunk.before().iter().flat_map(|line| [line.text.as_str(), "\n"]).collect();
    let start = file.start(0).min(file.text.len());
    let why = miss::explain(&file.text[start..], &old, uncut).map_or_else(
        || "Nothing in the file is like it. Read the file and write the hunk anew.".to_owned(),
        |why| {
            format!(
                "Below, old_string is what the hunk says stands in the file: its context and - lines.\n{why}"
            )
        },
    );
    let text = format!("{}: its context and - lines are not in the file. {why}", named(hunk, number));
    Trouble { code: ErrorCode::NoMatch, text }
}
