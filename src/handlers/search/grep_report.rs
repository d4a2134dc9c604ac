//! The answer of Grep.

use std::fmt::Write as _;
use std::ops::Range;

use super::content_search::SearchFindings;
use super::file_hits::{FileHits, HitLine};
use super::result_text::{at_least, page_range_text, saturating_usize};
use super::search_plan::{Order, OutputMode, SearchPlan};
use super::search_scope::SearchScope;
use punie_text::output::number_format::{format_count, group_digits};

/// A request with its findings and the hints for its answer.
pub(super) struct GrepReport<'a> {
    pub(super) pattern: &'a str,
    pub(super) scope: &'a SearchScope,
    pub(super) plan: &'a SearchPlan,
    pub(super) findings: &'a SearchFindings,
    /// Advice for an empty result.
    pub(super) hints: Vec<String>,
}

impl GrepReport<'_> {
    /// Renders the answer.
    pub(super) fn render(&self) -> String {
        let Self { plan, findings, .. } = self;
        let mut text = if findings.found == 0 {
            self.render_no_match()
        } else if let ([root], [file]) = (self.scope.roots.as_slice(), findings.files.as_slice())
            && file.binary
            && *root == file.full_path()
        {
            format!(
                "Binary file {} matches; it holds NUL bytes, so its lines are not shown.",
                self.file_path_text(file)
            )
        } else {
            match plan.mode {
                OutputMode::Content => self.render_lines(),
                OutputMode::FilesWithMatches | OutputMode::Count => self.render_files(),
            }
        };
        if plan.is_filesize_lowered {
            let why = if plan.multiline {
                " with multiline=true"
            } else {
                ""
            };
            let _ = write!(
                text,
                "\n[max_filesize is {} bytes, the most there is{why}]",
                group_digits(plan.max_filesize)
            );
        }
        text + &findings.coverage.format_footer()
    }

    fn render_no_match(&self) -> String {
        let pattern: String = self.pattern.chars().take(200).collect();
        let searched = format_count(self.findings.coverage.searched, "file");
        let folders = self.scope.describe_roots();
        let mut text = format!("No matches for {pattern:?} {folders} ({searched} searched).");
        for hint in &self.hints {
            text.extend([" ", hint]);
        }
        text
    }

    fn file_path_text(&self, file: &FileHits) -> String {
        self.scope.path_text(&file.full_path())
    }

    fn render_files(&self) -> String {
        let Self { plan, findings, .. } = self;
        let mut shown = 0;
        let mut body = String::new();
        for file in findings
            .files
            .iter()
            .skip(saturating_usize(plan.offset))
            .take(saturating_usize(plan.max))
        {
            shown += 1;
            body.extend(["\n", &self.file_path_text(file)]);
            match (plan.mode, file.binary) {
                (OutputMode::Count, true) => body.push_str(": binary file matches"),
                (OutputMode::Count, false) => body.extend([": ", &group_digits(file.matched)]),
                (_, true) => body.push_str(" (binary file)"),
                (_, false) => {}
            }
            body.push_str(&encoding_note(file));
        }
        let summary = match plan.mode {
            OutputMode::Count => self.count_summary(),
            _ => format!(
                "Found {}{}",
                self.count_prefix(),
                format_count(findings.found, "file")
            ),
        };
        self.frame_page(&summary, &body, shown, findings.found)
    }

    fn render_lines(&self) -> String {
        let Self { plan, findings, .. } = self;
        let mut skip = saturating_usize(plan.offset);
        let mut take = saturating_usize(plan.max);
        let mut body = String::new();
        let mut shown = 0;
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
            let window = match_window(&file.lines, skip, here, (plan.before, plan.after));
            self.append_file_lines(&mut body, file, window);
            shown += here as u64;
            take -= here;
            skip = 0;
        }
        let mut text = self.frame_page(&self.count_summary(), &body, shown, findings.lines);
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

    fn append_file_lines(&self, body: &mut String, file: &FileHits, window: Range<usize>) {
        body.extend(["\n", &self.file_path_text(file)]);
        if file.binary {
            body.push_str(": binary file matches");
            return;
        }
        body.push_str(&encoding_note(file));
        let context = self.plan.before + self.plan.after > 0;
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

    fn count_prefix(&self) -> &'static str {
        at_least(self.findings.stopped || self.findings.coverage.timed_out)
    }

    fn count_summary(&self) -> String {
        let lines = format_count(self.findings.lines, "matching line");
        let files = format_count(self.findings.found, "file");
        let at_least = self.count_prefix();
        // The last file that was searched may have further matches.
        format!("Found {at_least}{lines} in {at_least}{files}")
    }

    /// Puts a summary before the shown results, and the way to the next page after them.
    fn frame_page(&self, summary: &str, body: &str, shown: u64, total: u64) -> String {
        let plan = self.plan;
        let folders = self.scope.describe_roots();
        let range = page_range_text(plan.offset, shown, total, &folders);
        let next = plan.offset + shown;
        let hint = if shown == 0 || next >= total {
            String::new()
        } else if plan.order == Order::Any {
            format!(
                "\n[more matches exist: these are the first {} found, in no set order. Narrow the search, or page with \
                 sort=\"path\" from offset=0 on]",
                group_digits(shown),
            )
        } else {
            format!("\n[more matches exist: offset={next} for the next page]")
        };
        format!("{summary}{range}{body}{hint}")
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
    let mut start = *first;
    let mut end = *last + 1;
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
