//! The answer of Grep. Not here: the search.

use std::fmt::Write as _;
use std::ops::Range;

use super::content_search::{SearchFindings, SearchPlan};
use super::file_hits::{FileHits, HitLine};
use super::grep::{Order, OutputMode};
use super::search_scope::{SearchScope, workspace_path_text};
use crate::output::number_format::{format_count, group_digits};

/// A request with the hints for its answer.
pub(super) struct GrepReport<'a> {
    pub(super) pattern: &'a str,
    pub(super) scope: &'a SearchScope,
    pub(super) plan: &'a SearchPlan,
    /// Advice for an empty result.
    pub(super) hints: Vec<String>,
}

/// Renders the answer.
pub(super) fn render_report(report: &GrepReport<'_>, findings: &SearchFindings) -> String {
    let place = match report.scope.roots.as_slice() {
        [one] => format!("in {}", one.display()),
        many => format!("in {} workspaces", many.len()),
    };
    let mut text = if findings.found == 0 {
        let pattern: String = report.pattern.chars().take(200).collect();
        let searched = format_count(findings.coverage.searched, "file");
        let mut text = format!("No matches for {pattern:?} {place} ({searched} searched).");
        for hint in &report.hints {
            let _ = write!(text, " {hint}");
        }
        text
    } else if let ([root], [file]) = (report.scope.roots.as_slice(), findings.files.as_slice())
        && file.binary
        && *root == file.full_path()
    {
        format!(
            "Binary file {} matches; it holds NUL bytes, so its lines are not shown.",
            report.file_path_text(file)
        )
    } else {
        match report.plan.mode {
            OutputMode::Content => render_lines(report, findings, &place),
            OutputMode::FilesWithMatches | OutputMode::Count => {
                render_files(report, findings, &place)
            }
        }
    };
    if report.plan.is_filesize_lowered {
        let max = report.plan.max_filesize;
        let why = if report.plan.multiline {
            " with multiline=true"
        } else {
            ""
        };
        let _ = write!(
            text,
            "\n[max_filesize is {} bytes, the most there is{why}]",
            group_digits(max)
        );
    }
    text.push_str(&findings.coverage.format_footer());
    text
}

impl GrepReport<'_> {
    fn file_path_text(&self, file: &FileHits) -> String {
        workspace_path_text(self.scope.workspace.first_root(), &file.full_path())
    }
}

fn render_files(report: &GrepReport<'_>, findings: &SearchFindings, place: &str) -> String {
    let plan = &report.plan;
    let skip = usize::try_from(plan.offset).unwrap_or(usize::MAX);
    let take = usize::try_from(plan.max).unwrap_or(usize::MAX);
    let page = findings.files.iter().skip(skip).take(take);
    let mut shown_count = 0;
    let mut body = String::new();
    for file in page {
        shown_count += 1;
        body.push('\n');
        body.push_str(&report.file_path_text(file));
        match plan.mode {
            OutputMode::Count if file.binary => body.push_str(": binary file matches"),
            OutputMode::Count => {
                let _ = write!(body, ": {}", group_digits(file.matched));
            }
            _ if file.binary => body.push_str(" (binary file)"),
            _ => {}
        }
        body.push_str(&encoding_note(file));
    }
    let mut text = match plan.mode {
        OutputMode::Count => count_summary(findings),
        _ => format!(
            "Found {}{}",
            count_prefix(findings),
            format_count(findings.found, "file")
        ),
    };
    append_paging(&mut text, plan, shown_count, findings.found, place);
    text.push_str(&body);
    append_next_page(&mut text, plan, shown_count, findings.found);
    text
}

fn render_lines(report: &GrepReport<'_>, findings: &SearchFindings, place: &str) -> String {
    let plan = &report.plan;
    let mut skip = usize::try_from(plan.offset).unwrap_or(usize::MAX);
    let mut take = usize::try_from(plan.max).unwrap_or(usize::MAX);
    let mut body = String::new();
    let mut shown_count = 0;
    for file in &findings.files {
        let matches = if file.binary {
            1
        } else {
            file.lines.iter().filter(|line| line.matches).count()
        };
        if skip >= matches {
            skip -= matches;
            continue;
        }
        if take == 0 {
            break;
        }
        let here = take.min(matches - skip);
        append_file_lines(
            &mut body,
            report,
            file,
            match_window(&file.lines, skip, here, (plan.before, plan.after)),
        );
        shown_count += here as u64;
        take -= here;
        skip = 0;
    }
    let mut text = count_summary(findings);
    append_paging(&mut text, plan, shown_count, findings.lines, place);
    text.push_str(&body);
    append_next_page(&mut text, plan, shown_count, findings.lines);
    let lossy: u64 = findings.files.iter().map(|file| file.lossy).sum();
    if lossy > 0 {
        let _ = write!(
            text,
            "\n[not UTF-8: {} with bytes shown as \u{FFFD}; encoding=\"windows-1252\" or another may read them]",
            format_count(lossy, "line")
        );
    }
    text
}

fn append_file_lines(
    body: &mut String,
    report: &GrepReport<'_>,
    file: &FileHits,
    window: Range<usize>,
) {
    body.push('\n');
    body.push_str(&report.file_path_text(file));
    if file.binary {
        body.push_str(": binary file matches");
        return;
    }
    body.push_str(&encoding_note(file));
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

fn encoding_note(file: &FileHits) -> String {
    file.decoded_from
        .map(|name| format!(" (decoded from {name})"))
        .unwrap_or_default()
}

/// Returns the range of lines for `take` matches from number `skip` on, with their context.
fn match_window(
    lines: &[HitLine],
    skip: usize,
    take: usize,
    (before, after): (usize, usize),
) -> Range<usize> {
    let matches: Vec<usize> = (0..lines.len())
        .filter(|i| lines[*i].matches)
        .skip(skip)
        .take(take)
        .collect();
    let (Some(first), Some(last)) = (matches.first(), matches.last()) else {
        return 0..0;
    };
    let (mut start, mut end) = (*first, *last + 1);
    while start > 0
        && !lines[start - 1].matches
        && lines[start - 1].number + before as u64 >= lines[*first].number
    {
        start -= 1;
    }
    while end < lines.len()
        && !lines[end].matches
        && lines[end].number <= lines[*last].number + after as u64
    {
        end += 1;
    }
    start..end
}

fn count_prefix(findings: &SearchFindings) -> &'static str {
    if findings.stopped || findings.coverage.timed_out {
        "at least "
    } else {
        ""
    }
}

fn count_summary(findings: &SearchFindings) -> String {
    let (lines, files) = (
        format_count(findings.lines, "matching line"),
        format_count(findings.found, "file"),
    );
    let at_least = count_prefix(findings);
    // The last file that was searched may have further matches.
    format!("Found {at_least}{lines} in {at_least}{files}")
}

fn append_paging(text: &mut String, plan: &SearchPlan, shown_count: u64, found: u64, place: &str) {
    if shown_count == 0 {
        let _ = write!(text, " {place}; offset={} is past the end", plan.offset);
    } else if plan.offset > 0 || shown_count < found {
        let last = plan.offset + shown_count;
        let _ = write!(
            text,
            " (showing {}-{}) {place}",
            group_digits(plan.offset + 1),
            group_digits(last)
        );
    } else {
        let _ = write!(text, " {place}");
    }
}

fn append_next_page(text: &mut String, plan: &SearchPlan, shown_count: u64, found: u64) {
    let next = plan.offset + shown_count;
    if shown_count == 0 || next >= found {
        return;
    }
    if plan.order == Order::Any {
        let _ = write!(
            text,
            "\n[more matches exist: these are the first {} found, in no set order. Narrow the search, or page with \
             sort=\"path\" from offset=0 on]",
            group_digits(shown_count),
        );
    } else {
        let _ = write!(
            text,
            "\n[more matches exist: offset={next} for the next page]"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u64, matches: bool) -> HitLine {
        HitLine {
            number,
            matches,
            text: String::new(),
        }
    }

    #[test]
    fn a_window_takes_its_matches_with_their_context() {
        // Matches at 3 and 6, with one line of context each.
        let lines = [
            line(2, false),
            line(3, true),
            line(4, false),
            line(5, false),
            line(6, true),
            line(7, false),
        ];
        assert_eq!(match_window(&lines, 0, 1, (1, 1)), 0..3);
        assert_eq!(match_window(&lines, 1, 1, (1, 1)), 3..6);
        assert_eq!(match_window(&lines, 0, 2, (1, 1)), 0..6);
        assert_eq!(match_window(&lines, 2, 1, (1, 1)), 0..0);
    }
}
