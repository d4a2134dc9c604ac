//! What an answer says of a patch: a line a file, and for a dry run the change as a unified diff. Not here: the
//! change itself (plan).

use std::fmt::Write as _;

use memchr::{memchr, memchr_iter, memrchr};

use super::plan::{Change, Deed};
use super::rewrite::woven;
use crate::acp::files::Splice;
use crate::handlers::file::sheet::Sheet;

/// Lines of context in a diff.
const CONTEXT: usize = 3;
/// Lines named of a file.
const NAMED: usize = 12;

/// One line a file, with what is to be said of it below.
pub(crate) fn summary(changes: &[Change]) -> String {
    let mut out = String::new();
    for change in changes {
        let shown = change.path.shown();
        let (added, removed) = change.lines();
        let line = match &change.deed {
            Deed::Add { executable: Some(true), .. } => format!("A {shown} (+{added}, executable)"),
            Deed::Add { .. } => format!("A {shown} (+{added})"),
            Deed::Delete => format!("D {shown} (-{removed})"),
            Deed::Update { executable, move_to, edit } => {
                let mode = match executable {
                    Some(true) => ", executable",
                    Some(false) => ", not executable",
                    None => "",
                };
                let places = places(change.text(), &edit.splices);
                match move_to {
                    Some(to) => format!("R {shown} -> {} (+{added} -{removed}{mode}){places}", to.shown()),
                    None => format!("M {shown} (+{added} -{removed}{mode}){places}"),
                }
            }
            Deed::Nothing(why) => format!("= {shown}: no change, {why}"),
        };
        let _ = writeln!(out, "{line}");
        for note in &change.notes {
            let _ = writeln!(out, "    {note}");
        }
    }
    out
}

/// The lines of the new text at which something changed.
fn places(old: &[u8], splices: &[Splice]) -> String {
    let mut lines: Vec<String> = Vec::new();
    let (mut line, mut at) = (1_usize, 0);
    for splice in splices.iter().take(NAMED) {
        line += memchr_iter(b'\n', &old[at..splice.range.start]).count();
        lines.push(line.to_string());
        line += memchr_iter(b'\n', &splice.with).count();
        at = splice.range.end;
    }
    let more =
        if splices.len() > NAMED { format!(" and {} more", splices.len() - NAMED) } else { String::new() };
    match lines.len() {
        0 => String::new(),
        1 => format!(", line {}", lines[0]),
        _ => format!(", lines {}{more}", lines.join(", ")),
    }
}

/// All changes as a unified diff.
pub(crate) fn diff(changes: &[Change]) -> String {
    let mut out = String::new();
    for change in changes {
        let shown = change.path.relative().display().to_string();
        match &change.deed {
            Deed::Nothing(_) => {}
            Deed::Add { content, .. } => {
                let _ = writeln!(out, "--- /dev/null\n+++ b/{shown}");
                let splice = Splice { range: 0..0, with: content.clone().into_bytes() };
                hunks(&mut out, b"".into(), &[splice]);
            }
            Deed::Delete => {
                let _ = writeln!(out, "--- a/{shown}\n+++ /dev/null");
                let text = change.text();
                hunks(&mut out, text.into(), &[Splice { range: 0..text.len(), with: Vec::new() }]);
            }
            Deed::Update { edit, move_to, executable } => {
                let to =
                    move_to.as_ref().map_or_else(|| shown.clone(), |to| to.relative().display().to_string());
                if move_to.is_some() {
                    let _ = writeln!(out, "rename from {shown}\nrename to {to}");
                }
                if let Some(executable) = executable {
                    let _ = writeln!(out, "new mode {}", if *executable { "100755" } else { "100644" });
                }
                if !edit.splices.is_empty() {
                    let _ = writeln!(out, "--- a/{shown}\n+++ b/{to}");
                    hunks(&mut out, change.text().into(), &edit.splices);
                }
            }
        }
    }
    out
}

/// A changed run of whole lines: where in the old text, and what comes.
struct Run {
    from: usize,
    to: usize,
    with: Vec<u8>,
}

/// The change of one text as a unified diff.
pub(crate) fn diff_of(name: &str, old: Sheet<'_>, splices: &[Splice]) -> String {
    let mut out = format!("--- a/{name}\n+++ b/{name}\n");
    hunks(&mut out, old, splices);
    out
}

fn hunks(out: &mut String, sheet: Sheet<'_>, splices: &[Splice]) {
    let old = sheet.text;
    let runs = whole_lines(old, splices);
    let (mut at, mut line, mut shifted) = (0, 1_usize, 0_isize);
    let mut rest = runs.as_slice();
    while let Some(first) = rest.first() {
        // Runs that share context are one hunk.
        let near = rest
            .windows(2)
            .take_while(|pair| sheet.newlines(pair[0].to..pair[1].from) <= 2 * CONTEXT)
            .count();
        let (group, behind) = rest.split_at(near + 1);
        let start = back(old, first.from, CONTEXT);
        let end = ahead(old, group.last().map_or(start, |run| run.to), CONTEXT);
        line += sheet.newlines(at..start);
        at = start;
        let mut body = String::new();
        let (mut from, mut before, mut after) = (start, 0, 0);
        for run in group {
            let kept = put(&mut body, ' ', &old[from..run.from]);
            before += kept + put(&mut body, '-', &old[run.from..run.to]);
            after += kept + put(&mut body, '+', &run.with);
            from = run.to;
        }
        let kept = put(&mut body, ' ', &old[from..end]);
        (before, after) = (before + kept, after + kept);
        let range =
            |line: usize, count: usize| format!("{},{count}", if count == 0 { line - 1 } else { line });
        let new_line = line.saturating_add_signed(shifted).max(1);
        let _ = writeln!(out, "@@ -{} +{} @@", range(line, before), range(new_line, after));
        out.push_str(&body);
        let count = |lines: usize| isize::try_from(lines).unwrap_or_default();
        shifted += count(after) - count(before);
        rest = behind;
    }
}

/// The splices widened to whole lines, joined where they touch.
fn whole_lines(old: &[u8], splices: &[Splice]) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut rest = splices;
    while let Some(first) = rest.first() {
        let from = line_start(old, first.range.start);
        let (mut to, mut taken) = (from, 0);
        let with = loop {
            // Those that begin before the run's end belong to it, and push it on.
            while let Some(splice) = rest.get(taken).filter(|splice| taken == 0 || splice.range.start <= to) {
                to = to.max(line_end(old, splice.range.end));
                taken += 1;
            }
            let with = woven(&old[from..to], &shifted(&rest[..taken], from));
            // Text that ends in the middle of a line goes on with the next one.
            if to == old.len() || with.is_empty() || with.ends_with(b"\n") {
                break with;
            }
            to = ahead(old, to, 1);
        };
        runs.push(Run { from, to, with });
        rest = &rest[taken..];
    }
    runs
}

/// The splices as those of the text that begins there.
fn shifted(splices: &[Splice], from: usize) -> Vec<Splice> {
    let shift = |splice: &Splice| Splice {
        range: splice.range.start - from..splice.range.end - from,
        with: splice.with.clone(),
    };
    splices.iter().map(shift).collect()
}

/// The lines with their mark; how many they are.
fn put(out: &mut String, mark: char, lines: &[u8]) -> usize {
    let mut count = 0;
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        count += 1;
        out.push(mark);
        out.push_str(&String::from_utf8_lossy(line));
        if !line.ends_with(b"\n") {
            out.push_str("\n\\ No newline at end of file\n");
        }
    }
    count
}

/// Where the line of `at` begins.
fn line_start(text: &[u8], at: usize) -> usize {
    memrchr(b'\n', &text[..at]).map_or(0, |newline| newline + 1)
}

/// `at` where a line begins there, else the end of its line.
fn line_end(text: &[u8], at: usize) -> usize {
    if line_start(text, at) == at { at } else { ahead(text, at, 1) }
}

/// Where the line begins that is so many before the one of `at`.
fn back(text: &[u8], at: usize, lines: usize) -> usize {
    let mut start = line_start(text, at);
    for _ in 0..lines {
        start = line_start(text, start.saturating_sub(1));
    }
    start
}

/// Where the line ends that is so many behind `at`, which a line begins at; the one of `at` for none.
fn ahead(text: &[u8], at: usize, lines: usize) -> usize {
    let mut end = at;
    for _ in 0..lines.max(1) {
        end = memchr(b'\n', &text[end..]).map_or(text.len(), |newline| end + newline + 1);
    }
    end
}

impl Change {
    /// The file's text before, as UTF-8.
    fn text(&self) -> &[u8] {
        match &self.deed {
            Deed::Update { edit, .. } if edit.decoded.is_some() => {
                edit.decoded.as_deref().unwrap_or_default()
            }
            _ => self.before().map_or(&[], |bytes| bytes.as_slice()),
        }
    }
}
