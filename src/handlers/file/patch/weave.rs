//! What hunks in their places make of a file: splices, so that every byte that no hunk names stays as it is. Not
//! here: the places (placing).

use super::lines::{FileLines, Shift};
use super::placing::{Place, Placed};
use super::{Hunk, Kind, Line, spots};
use crate::acp::files::Splice;
use crate::handlers::file::leniency::Tier;

/// How the lines of a hunk become bytes.
struct Spelling<'a> {
    /// As the patch has them; else with the file's own line endings.
    literal: bool,
    shift: &'a Shift,
    /// Whether the text shall end in a line feed, where the hunk reaches its end.
    ends_closed: bool,
}

/// The splices of the placed hunks, in order and without overlap.
pub(super) fn splices(file: &FileLines<'_>, hunks: &[Hunk], placed: &Placed) -> Vec<Splice> {
    let speaks_cr = hunks.iter().flat_map(|hunk| &hunk.lines).any(|line| line.text.ends_with('\r'));
    let mut all: Vec<Splice> = Vec::new();
    for (hunk, place) in hunks.iter().zip(&placed.places) {
        let (start, literal, shift) = match place {
            Place::At { start, tier, shift } => {
                let at_end = start + hunk.before().len() == file.len();
                (*start, *tier == Tier::Exact && (at_end || !spots::ends_open(hunk)), shift)
            }
            Place::Before(line) => (*line, speaks_cr, &Shift::None),
            Place::Applied(_) | Place::Idle => continue,
        };
        let spelling = Spelling { literal, shift, ends_closed: ends_closed(file, hunk) };
        all.extend(runs(file, hunk, start, &spelling));
    }
    // What comes before a line comes before that which takes the line's place; else in the patch's order.
    all.sort_by_key(|splice| (splice.range.start, splice.range.end));
    let mut splices: Vec<Splice> = Vec::new();
    for splice in all {
        match splices.last_mut() {
            Some(last) if last.range.end == splice.range.start && splice.range.is_empty() => {
                // Whoever came first has closed the last line already.
                let at_end = splice.range.start == file.text.len() && !file.text.ends_with(b"\n");
                let is_closed = at_end && last.with.ends_with(b"\n");
                let doubled =
                    [b"\r\n".as_slice(), b"\n"].into_iter().find(|ending| splice.with.starts_with(ending));
                let skipped = doubled.filter(|_| is_closed).map_or(0, <[u8]>::len);
                last.with.extend_from_slice(&splice.with[skipped..]);
            }
            _ => splices.push(splice),
        }
    }
    splices.retain(|splice| file.text[splice.range.clone()] != *splice.with);
    splices
}

/// Whether the file shall end in a line feed: as it did, unless the patch changes just that.
fn ends_closed(file: &FileLines<'_>, hunk: &Hunk) -> bool {
    let closed = |lines: &[&Line]| lines.last().is_none_or(|line| line.newline);
    let (old, new) = (closed(&hunk.before()), closed(&hunk.after()));
    let is = file.len() == 0 || file.has_newline(file.len() - 1);
    if old == new { is } else { new }
}

/// One splice for each run of changed lines.
fn runs(file: &FileLines<'_>, hunk: &Hunk, start: usize, spelling: &Spelling<'_>) -> Vec<Splice> {
    let mut splices = Vec::new();
    let mut line = start;
    let mut rest = hunk.lines.as_slice();
    while !rest.is_empty() {
        let kept = rest.iter().take_while(|line| line.kind == Kind::Context).count();
        line += kept;
        rest = &rest[kept..];
        let (run, behind) = rest.split_at(rest.iter().take_while(|line| line.kind != Kind::Context).count());
        let removed = run.iter().filter(|line| line.kind == Kind::Removed).count();
        if !run.is_empty() {
            let added: Vec<&Line> = run.iter().filter(|line| line.kind == Kind::Added).collect();
            splices.push(splice(file, line, removed, &added, spelling));
        }
        line += removed;
        rest = behind;
    }
    splices
}

fn splice(
    file: &FileLines<'_>,
    line: usize,
    removed: usize,
    added: &[&Line],
    spelling: &Spelling<'_>,
) -> Splice {
    let range = file.start(line)..file.start(line + removed);
    let mut with = Vec::new();
    let at_end = line + removed == file.len();
    if at_end && range.is_empty() && !added.is_empty() && line > 0 && !file.has_newline(line - 1) {
        with.extend_from_slice(ending(file, line - 1));
    }
    for (at, new) in added.iter().enumerate() {
        let is_last = at_end && at + 1 == added.len();
        if spelling.literal {
            with.extend_from_slice(new.text.as_bytes());
            if new.newline {
                with.push(b'\n');
            }
            continue;
        }
        with.extend(spelling.shift.fit(new.text.strip_suffix('\r').unwrap_or(&new.text)));
        if !is_last || spelling.ends_closed {
            // A line that takes another's place ends as that did.
            let model = if at < removed { line + at } else { line.saturating_sub(1) };
            with.extend_from_slice(ending(file, model));
        }
    }
    Splice { range, with }
}

/// How this line ends, or the nearest one that has an ending.
fn ending(file: &FileLines<'_>, line: usize) -> &'static [u8] {
    let near = (0..=line.min(file.len().saturating_sub(1))).rev().chain(line..file.len());
    match near.take(file.len() * 2).find(|line| *line < file.len() && file.has_newline(*line)) {
        Some(line) if file.body(line).ends_with(b"\r") => b"\r\n",
        _ => b"\n",
    }
}
