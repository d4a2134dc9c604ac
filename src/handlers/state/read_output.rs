//! ReadOutput: a page of an output that was cut in its answer.

use std::borrow::Cow;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Deserialize;

use punie_text::output::number_format::{format_count, format_size, group_digits};
use punie_text::output::terminal_text;
use punie_text::output::{
    FindOutputError, OutputLine, OutputPage, OutputReadStop, OutputSearchError, OutputSearchQuery,
    OutputSearchResult, OutputStore, OutputTotals, OutputWindow, StoredOutput, TextBudget,
};
use punie_tool::{CallLane, DeclaredAccess, Tool, ToolContext, ToolEffect, ToolError, ToolReply};

/// Read the full output of a call whose answer was cut, by the handle in its marker.
///
/// Gives numbered lines from `offset`, the last ones with `tail`, or those that match `pattern`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadOutput {
    /// Such as out_7f3a09c2d1e4.
    handle: String,
    /// First line, from 1.
    #[serde(default = "first_line")]
    #[schemars(range(min = 1))]
    offset: u64,
    /// Lines or matches.
    #[serde(default = "some_lines")]
    #[schemars(range(min = 1, max = 10_000))]
    limit: u64,
    /// The last so many lines instead.
    #[serde(default)]
    #[schemars(range(min = 1, max = 10_000))]
    tail: Option<u64>,
    /// Regular expression.
    pattern: Option<String>,
    /// Lines around each match.
    #[serde(default = "some_context")]
    #[schemars(range(max = 20))]
    context: u64,
    /// Show lines from this character.
    #[serde(default)]
    #[schemars(range(min = 1))]
    column: Option<u64>,
    /// Keep escape sequences.
    #[serde(default)]
    raw: bool,
    /// Characters; 30000 if absent.
    max_chars: Option<u64>,
}

fn first_line() -> u64 {
    1
}

fn some_lines() -> u64 {
    200
}

fn some_context() -> u64 {
    2
}

/// The largest number of lines in an answer.
const MAX_LINES: u64 = 10_000;
/// The largest number of context lines on each side.
const MAX_CONTEXT: u64 = 20;
/// Characters of the budget reserved for header and footer.
const FRAME_CHARS: usize = 400;

impl Tool for ReadOutput {
    const NAME: &'static str = "ReadOutput";
    const EFFECT: ToolEffect = ToolEffect::Reads;
    const KNOWN_AS: &'static [&'static str] = &["read_tool_output"];
    const LANE: CallLane = CallLane::Control;
    const ALIASES: &'static [(&'static str, &'static str)] = &[("output_id", "handle")];
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"handle":"out_7f3a09c2d1e4","offset":301}"#,
        r#"{"handle":"out_7f3a09c2d1e4","pattern":"(?i)error","context":3}"#,
    ];
    const LIMITS: &'static [&'static str] = &[
        "200 lines a call, 10,000 at most",
        "20 lines of context on either side of a match",
        "256 MB are kept of one output, 2 GB of all, for 7 days; the oldest go first",
    ];
    type Deps = OutputStore;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::none()
    }

    async fn run(self, cx: &ToolContext, outputs: &OutputStore) -> Result<ToolReply, ToolError> {
        if self.tail.is_some() && self.pattern.is_some() {
            return Err(ToolError::invalid_args(
                "ReadOutput: give tail or pattern, not both.",
            ));
        }
        if cx.is_cancelled() {
            return Err(cancelled_error());
        }
        let outputs = outputs.clone();
        // Dropped at the end of the call, so that the reading stops with it.
        let halting = StopOnDrop::default();
        let halt = halting.0.clone();
        let reading = tokio::task::spawn_blocking(move || self.read_stored(&outputs, halt));
        tokio::select! {
            biased;
            () = cx.wait_for_cancel() => Err(cancelled_error()),
            answer = reading => answer.map_err(|error| ToolError::internal(format!("ReadOutput: {error}")))?,
        }
    }
}

impl ReadOutput {
    fn read_stored(
        &self,
        outputs: &OutputStore,
        halt: OutputReadStop,
    ) -> Result<ToolReply, ToolError> {
        let stored = outputs
            .find(&self.handle)
            .map_err(|error| self.not_found_error(outputs, &error))?;
        let mut stored = stored.with_stop(halt);
        let budget = TextBudget::from_requested(self.max_chars);
        let room = budget.max_chars() - FRAME_CHARS;
        let mut cleaning = LineCleaner {
            raw: self.raw,
            removed: false,
        };
        let mut text = match (&self.pattern, self.tail) {
            (Some(pattern), _) => self.format_matches(&mut stored, pattern, room, &mut cleaning)?,
            (None, Some(lines)) => {
                let page = stored
                    .read_tail(self.line_window(lines, room))
                    .map_err(|error| self.read_error(&error))?;
                let from = page.lines.first().map_or(1, |line| line.number);
                let earlier = from.saturating_sub(200).max(1);
                let hint = (from > 1).then(|| format!(" Earlier lines: offset={earlier}."));
                self.format_page(&page, hint, &mut cleaning)
            }
            (None, None) => {
                let page = stored
                    .read_window(self.offset, self.line_window(self.limit, room))
                    .map_err(|error| self.read_error(&error))?;
                let next = page.lines.last().map_or(u64::MAX, |line| line.number + 1);
                let has_more = next <= page.totals.lines;
                let hint = has_more.then(|| format!(" Continue with offset={next}."));
                self.format_page(&page, hint, &mut cleaning)
            }
        };
        if cleaning.removed {
            text.extend(["\n", LineCleaner::NOTE]);
        }
        if let Some(why) = outputs.recorded_cut(stored.stored_under()) {
            let _ = write!(text, "\n[the output went on, but {why}]");
        }
        Ok(ToolReply::from_fitted_text(text).with_budget(budget))
    }

    fn line_window(&self, lines: u64, room: usize) -> OutputWindow {
        OutputWindow {
            limit: lines.clamp(1, MAX_LINES),
            column: self.column,
            max_chars: room,
        }
    }

    fn format_page(
        &self,
        page: &OutputPage,
        hint: Option<String>,
        cleaning: &mut LineCleaner,
    ) -> String {
        let header = self.format_header(page.totals);
        let (Some(first), Some(last)) = (page.lines.first(), page.lines.last()) else {
            return match page.totals.lines {
                0 => header + "Nothing was printed (so far).",
                lines => {
                    let asked = group_digits(self.offset);
                    let has = format_count(lines, "line");
                    format!("{header}There is no line {asked}: the output has {has}.")
                }
            };
        };
        let mut text = header;
        for line in &page.lines {
            let _ = writeln!(text, "{:>6}\t{}", line.number, cleaning.clean(&line.text));
        }
        let total = group_digits(page.totals.lines);
        let _ = write!(
            text,
            "Showing {}-{} of {total}.{}",
            first.number,
            last.number,
            hint.unwrap_or_default()
        );
        text
    }

    fn format_matches(
        &self,
        stored: &mut StoredOutput,
        pattern: &str,
        room: usize,
        cleaning: &mut LineCleaner,
    ) -> Result<String, ToolError> {
        let query = OutputSearchQuery {
            pattern,
            context: usize::try_from(self.context.min(MAX_CONTEXT)).expect("at most 20"),
            from: self.offset.max(1),
            limit: self.limit.clamp(1, MAX_LINES),
            max_chars: room,
        };
        let found = stored.search_lines(&query).map_err(|error| match error {
            OutputSearchError::Pattern(cause) => ToolError::invalid_args(format!(
                "ReadOutput: the pattern is not a usable regular expression: {cause}. Escape special characters with \\."
            )),
            OutputSearchError::Io(error) => self.read_error(&error),
        })?;
        let totals = stored
            .read_totals()
            .map_err(|error| self.read_error(&error))?;
        let mut text = self.format_header(totals);
        text.push_str(&format_match_lines(&found.lines, cleaning));
        text.push_str(&self.format_match_footer(&found));
        Ok(text)
    }

    fn format_match_footer(&self, found: &OutputSearchResult) -> String {
        if found.matches == 0 {
            return "No line matches. Patterns are case-sensitive; (?i) at the start ignores case."
                .to_owned();
        }
        let matching = format_count(found.matches, "matching line");
        match found.next_line {
            Some(next) => format!(
                "{matching}, {} shown. Continue with offset={next}.",
                group_digits(found.shown)
            ),
            None if found.shown == 0 => format!(
                "{matching}, none from line {} on.",
                group_digits(self.offset)
            ),
            None if found.shown < found.matches => {
                format!("{matching}, the last {} shown.", group_digits(found.shown))
            }
            None => format!("{matching}."),
        }
    }

    fn format_header(&self, totals: OutputTotals) -> String {
        format!(
            "{} ({}, {})\n",
            self.handle.trim(),
            format_count(totals.lines, "line"),
            format_size(totals.bytes)
        )
    }

    fn not_found_error(&self, outputs: &OutputStore, error: &FindOutputError) -> ToolError {
        let shown: String = self.handle.chars().take(60).collect();
        match error {
            FindOutputError::Malformed => {
                ToolError::invalid_args(format!("ReadOutput: {shown:?} is not a handle: {error}."))
            }
            FindOutputError::Unknown => {
                let days = outputs.retention_period().as_secs() / (24 * 60 * 60);
                ToolError::not_found(format!(
                    "No output is kept as {shown}. Outputs are kept for {days} days, fewer when room is short; run the call again if its output is still needed."
                ))
            }
            FindOutputError::NotKept(reason) => ToolError::not_found(format!(
                "Nothing of the output {shown} is kept: {reason}. What its call showed is all there is; run it again, \
                 with less output or once there is room."
            )),
            FindOutputError::Io(cause) => self.read_error(cause),
        }
    }

    fn read_error(&self, cause: &std::io::Error) -> ToolError {
        ToolError::from_io(format!("The kept output {}", self.handle.trim()), cause)
    }
}

/// Removes control sequences from lines, and records whether there were any.
struct LineCleaner {
    raw: bool,
    removed: bool,
}

impl LineCleaner {
    const NOTE: &str =
        "[escape sequences and overwritten progress are left out; raw=true shows them]";

    fn clean<'a>(&mut self, line: &'a str) -> Cow<'a, str> {
        if self.raw || !line.contains(|c: char| c.is_control() && c != '\t') {
            return Cow::Borrowed(line);
        }
        let clean = terminal_text::clean_terminal_text(line);
        // A carriage return before the line end is part of that end.
        self.removed |= clean != line.trim_end_matches('\r');
        Cow::Owned(clean)
    }
}

/// Stops the reading when it is dropped.
#[derive(Default)]
struct StopOnDrop(OutputReadStop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop_reading();
    }
}

fn cancelled_error() -> ToolError {
    ToolError::call_cancelled("ReadOutput was cancelled; nothing was changed.")
}

/// Formats matches as `number<tab>text` and context with a dash after the number. `--` stands for omitted lines.
fn format_match_lines(lines: &[OutputLine], cleaning: &mut LineCleaner) -> String {
    let mut text = String::new();
    let mut last = None;
    for line in lines {
        if last.is_some_and(|last| last + 1 != line.number) {
            text.push_str("--\n");
        }
        let mark = if line.is_match { "" } else { "-" };
        let _ = writeln!(
            text,
            "{:>6}{mark}\t{}",
            line.number,
            cleaning.clean(&line.text)
        );
        last = Some(line.number);
    }
    text
}
