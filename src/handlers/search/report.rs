//! The answer of Grep. Not here: the search.

use std::fmt::Write as _;
use std::ops::Range;

use super::grep::{Order, OutputMode};
use super::hits::{FileHits, Line};
use super::scope::{Scope, shown};
use super::sweep::{Findings, Plan};
use crate::output::figures::{counted, grouped};

/// A request with the hints for its answer.
pub(super) struct Report<'a> {
    pub(super) pattern: &'a str,
    pub(super) scope: &'a Scope,
    pub(super) plan: &'a Plan,
    /// Advice for an empty result.
    pub(super) hints: Vec<String>,
}

/// Renders the answer.
pub(super) fn text(report: &Report<'_>, findings: &Findings) -> String {
    let place = match report.scope.roots.as_slice() {
        [one] => format!("in {}", one.display()),
        many => format!("in {} workspaces", many.len()),
    };
    let mut text = if findings.found == 0 {
        let pattern: String = report.pattern.chars().take(200).collect();
        let searched = counted(findings.coverage.searched, "file");
        let mut text = format!("No matches for {pattern:?} {place} ({searched} searched).");
        for hint in &report.hints {
            let _ = write!(text, " {hint}");
        }
        text
    } else if let ([root], [file]) = (report.scope.roots.as_slice(), findings.files.as_slice())
        && file.binary
        && *root == file.path()
    {
        format!("Binary file {} matches; it holds NUL bytes, so its lines are not shown.", report.shown(file))
    } else {
        match report.plan.mode {
            OutputMode::Content => content(report, findings, &place),
            OutputMode::FilesWithMatches | OutputMode::Count => list(report, findings, &place),
        }
    };
    if report.plan.is_filesize_lowered {
        let max = report.plan.max_filesize;
        let why = if report.plan.multiline { " with multiline=true" } else { "" };
        let _ = write!(text, "\n[max_filesize is {} bytes, the most there is{why}]", grouped(max));
    }
    text.push_str(&findings.coverage.footer());
    text
}

impl Report<'_> {
    fn shown(&self, file: &FileHits) -> String {
        shown(self.scope.workspace.first(), &file.path())
    }
}

fn list(report: &Report<'_>, findings: &Findings, place: &str) -> String {
    let plan = &report.plan;
    let skip = usize::try_from(plan.offset).unwrap_or(usize::MAX);
    let take = usize::try_from(plan.max).unwrap_or(usize::MAX);
    let page = findings.files.iter().skip(skip).take(take);
    let mut shown_count = 0;
    let mut body = String::new();
    for file in page {
        shown_count += 1;
        body.push('\n');
        body.push_str(&report.shown(file));
        match plan.mode {
            OutputMode::Count if file.binary => body.push_str(": binary file matches"),
            OutputMode::Count => {
                let _ = write!(body, ": {}", grouped(file.matched));
            }
            _ if file.binary => body.push_str(" (binary file)"),
            _ => {}
        }
        body.push_str(&decoded_from(file));
    }
    let mut text = match plan.mode {
        OutputMode::Count => lines_and_files(findings),
        _ => format!("Found {}{}", at_least(findings), counted(findings.found, "file")),
    };
    paging(&mut text, plan, shown_count, findings.found, place);
    text.push_str(&body);
    more(&mut text, plan, shown_count, findings.found);
    text
}

fn content(report: &Report<'_>, findings: &Findings, place: &str) -> String {
    let plan = &report.plan;
    let mut skip = usize::try_from(plan.offset).unwrap_or(usize::MAX);
    let mut take = usize::try_from(plan.max).unwrap_or(usize::MAX);
    let mut body = String::new();
    let mut shown_count = 0;
    for file in &findings.files {
        let matches = if file.binary { 1 } else { file.lines.iter().filter(|line| line.matches).count() };
        if skip >= matches {
            skip -= matches;
            continue;
        }
        if take == 0 {
            break;
        }
        let here = take.min(matches - skip);
        section(&mut body, report, file, window(&file.lines, skip, here, (plan.before, plan.after)));
        shown_count += here as u64;
        take -= here;
        skip = 0;
    }
    let mut text = lines_and_files(findings);
    paging(&mut text, plan, shown_count, findings.lines, place);
    text.push_str(&body);
    more(&mut text, plan, shown_count, findings.lines);
    let lossy: u64 = findings.files.iter().map(|file| file.lossy).sum();
    if lossy > 0 {
        let _ = write!(
            text,
            "\n[not UTF-8: {} with bytes shown as \u{FFFD}; encoding=\"windows-1252\" or another may read them]",
            counted(lossy, "line")
        );
    }
    text
}

fn section(body: &mut String, report: &Report<'_>, file: &FileHits, window: Range<usize>) {
    body.push('\n');
    body.push_str(&report.shown(file));
    if file.binary {
        body.push_str(": binary file matches");
        return;
    }
    body.push_str(&decoded_from(file));
    let context = report.plan.before + report.plan.after > 0;
    let mut last = None;
    for line in &file.lines[window] {
        if context && last.is_some_and(|last| line.number > last + 1) {
            body.push_str("\n  --");
        }
        let mark = if line.matches { ':' } else { '-' };
        let _ = write!(body, "\n  {}{mark} {}", line.number, line.text);
        last = Some(line.number);
    }
}

fn decoded_from(file: &FileHits) -> String {
    file.decoded_from.map(|name| format!(" (decoded from {name})")).unwrap_or_default()
}

/// Returns the range of lines for `take` matches from number `skip` on, with their context.
fn window(lines: &[Line], skip: usize, take: usize, (before, after): (usize, usize)) -> Range<usize> {
    let matches: Vec<usize> = (0..lines.len()).filter(|i| lines[*i].matches).skip(skip).take(take).collect();
    let (Some(first), Some(last)) = (matches.first(), matches.last()) else { return 0..0 };
    let (mut start, mut end) = (*first, *last + 1);
    while start > 0
        && !lines[start - 1].matches
        && lines[start - 1].number + before as u64 >= lines[*first].number
    {
        start -= 1;
    }
    while end < lines.len() && !lines[end].matches && lines[end].number <= lines[*last].number + after as u64
    {
        end += 1;
    }
    start..end
}

fn at_least(findings: &Findings) -> &'static str {
    if findings.stopped || findings.coverage.timed_out { "at least " } else { "" }
}

fn lines_and_files(findings: &Findings) -> String {
    let (lines, files) = (counted(findings.lines, "matching line"), counted(findings.found, "file"));
    let at_least = at_least(findings);
    // The last file that was searched may have further matches.
    format!("Found {at_least}{lines} in {at_least}{files}")
}

fn paging(text: &mut String, plan: &Plan, shown_count: u64, found: u64, place: &str) {
    if shown_count == 0 {
        let _ = write!(text, " {place}; offset={} is past the end", plan.offset);
    } else if plan.offset > 0 || shown_count < found {
        let last = plan.offset + shown_count;
        let _ = write!(text, " (showing {}-{}) {place}", grouped(plan.offset + 1), grouped(last));
    } else {
        let _ = write!(text, " {place}");
    }
}

fn more(text: &mut String, plan: &Plan, shown_count: u64, found: u64) {
    let next = plan.offset + shown_count;
    if shown_count == 0 || next >= found {
        return;
    }
    if plan.order == Order::Any {
        let _ = write!(
            text,
            "\n[more matches exist: these are the first {} found, in no set order. Narrow the search, or page with \
             sort=\"path\" from offset=0 on]",
            grouped(shown_count),
        );
    } else {
        let _ = write!(text, "\n[more matches exist: offset={next} for the next page]");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u64, matches: bool) -> Line {
        Line { number, matches, text: String::new() }
    }

    #[test]
    fn a_window_takes_its_matches_with_their_context() {
        // Matches at 3 and 6, with one line of context each.
        let lines =
            [line(2, false), line(3, true), line(4, false), line(5, false), line(6, true), line(7, false)];
        assert_eq!(window(&lines, 0, 1, (1, 1)), 0..3);
        assert_eq!(window(&lines, 1, 1, (1, 1)), 3..6);
        assert_eq!(window(&lines, 0, 2, (1, 1)), 0..6);
        assert_eq!(window(&lines, 2, 1, (1, 1)), 0..0);
    }
}
