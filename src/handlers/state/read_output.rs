//! ReadOutput: a page of an output that was cut in its answer. Not here: storing outputs.

use std::borrow::Cow;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::output::figures::{counted, grouped, size};
use crate::output::hygiene;
use crate::output::{
    Budget, FindError, Found, Halt, KeptLine, KeptOutput, OutputStore, Page, Query, SearchError, Totals,
    Window,
};
use crate::tool::{Access, Effect, Lane, Reply, Tool, ToolCx, ToolError};

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
    #[serde(default)]
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
    #[serde(default)]
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
const FRAME: usize = 400;

impl Tool for ReadOutput {
    const NAME: &'static str = "ReadOutput";
    const EFFECT: Effect = Effect::Reads;
    const KNOWN_AS: &'static [&'static str] = &["read_tool_output"];
    const LANE: Lane = Lane::Control;
    const ALIASES: &'static [(&'static str, &'static str)] = &[("output_id", "handle"), ("regex", "pattern")];
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
    type Output = Reply;

    fn access(&self) -> Access {
        Access::nothing()
    }

    async fn run(self, cx: &ToolCx, outputs: &OutputStore) -> Result<Reply, ToolError> {
        if self.tail.is_some() && self.pattern.is_some() {
            return Err(ToolError::invalid_args("ReadOutput: give tail or pattern, not both."));
        }
        if cx.is_cancelled() {
            return Err(cancelled());
        }
        let outputs = outputs.clone();
        // Dropped at the end of the call, so that the reading stops with it.
        let halting = Halting::default();
        let halt = halting.0.clone();
        let reading = tokio::task::spawn_blocking(move || self.read(&outputs, halt));
        tokio::select! {
            biased;
            () = cx.cancelled() => Err(cancelled()),
            answer = reading => answer.map_err(|error| ToolError::internal(format!("ReadOutput: {error}")))?,
        }
    }
}

impl ReadOutput {
    fn read(&self, outputs: &OutputStore, halt: Halt) -> Result<Reply, ToolError> {
        let kept = outputs.find(&self.handle).map_err(|error| self.not_found(outputs, &error))?;
        let mut kept = kept.halted_by(halt);
        let budget = Budget::chars(self.max_chars);
        let room = budget.max_chars() - FRAME;
        let mut cleaning = Cleaning { raw: self.raw, removed: false };
        let text = match (&self.pattern, self.tail) {
            (Some(pattern), _) => self.matches(&mut kept, pattern, room, &mut cleaning)?,
            (None, Some(lines)) => {
                let page = kept.tail(self.window(lines, room)).map_err(|error| self.failed(&error))?;
                let from = page.lines.first().map_or(1, |line| line.number);
                let hint = if from > 1 {
                    format!(" Earlier lines: offset={}.", from.saturating_sub(200).max(1))
                } else {
                    String::new()
                };
                self.page(&page, &hint, &mut cleaning)
            }
            (None, None) => {
                let page = kept
                    .window(self.offset, self.window(self.limit, room))
                    .map_err(|error| self.failed(&error))?;
                let next = page.lines.last().map_or(u64::MAX, |line| line.number + 1);
                let hint = if next <= page.totals.lines {
                    format!(" Continue with offset={next}.")
                } else {
                    String::new()
                };
                self.page(&page, &hint, &mut cleaning)
            }
        };
        let text = if cleaning.removed { text + "\n" + Cleaning::NOTE } else { text };
        let cut = outputs.cut_short(kept.handle()).map(|why| format!("\n[the output went on, but {why}]"));
        Ok(Reply::fitted(text + &cut.unwrap_or_default()).with_budget(budget))
    }

    fn window(&self, lines: u64, room: usize) -> Window {
        Window { limit: lines.clamp(1, MAX_LINES), column: self.column, room }
    }

    fn page(&self, page: &Page, hint: &str, cleaning: &mut Cleaning) -> String {
        let header = self.header(page.totals);
        let (Some(first), Some(last)) = (page.lines.first(), page.lines.last()) else {
            return match page.totals.lines {
                0 => header + "Nothing was printed (so far).",
                lines => {
                    let (asked, has) = (grouped(self.offset), counted(lines, "line"));
                    format!("{header}There is no line {asked}: the output has {has}.")
                }
            };
        };
        let mut text = header;
        for line in &page.lines {
            let _ = writeln!(text, "{:>6}\t{}", line.number, cleaning.of(&line.text));
        }
        let total = grouped(page.totals.lines);
        let _ = write!(text, "Showing {}-{} of {total}.{hint}", first.number, last.number);
        text
    }

    fn matches(
        &self,
        kept: &mut KeptOutput,
        pattern: &str,
        room: usize,
        cleaning: &mut Cleaning,
    ) -> Result<String, ToolError> {
        let query = Query {
            pattern,
            context: usize::try_from(self.context.min(MAX_CONTEXT)).expect("at most 20"),
            from: self.offset.max(1),
            limit: self.limit.clamp(1, MAX_LINES),
            room,
        };
        let found = kept.search(&query).map_err(|error| match error {
            SearchError::Pattern(cause) => ToolError::invalid_args(format!(
                "ReadOutput: the pattern is not a usable regular expression: {cause}. Escape special characters with \\."
            )),
            SearchError::Io(error) => self.failed(&error),
        })?;
        let totals = kept.totals().map_err(|error| self.failed(&error))?;
        let mut text = self.header(totals);
        text.push_str(&match_lines(&found.lines, cleaning));
        text.push_str(&self.match_footer(&found));
        Ok(text)
    }

    fn match_footer(&self, found: &Found) -> String {
        if found.matches == 0 {
            return "No line matches. Patterns are case-sensitive; (?i) at the start ignores case."
                .to_owned();
        }
        let matching = counted(found.matches, "matching line");
        match found.next {
            Some(next) => format!("{matching}, {} shown. Continue with offset={next}.", grouped(found.shown)),
            None if found.shown == 0 => format!("{matching}, none from line {} on.", grouped(self.offset)),
            None if found.shown < found.matches => {
                format!("{matching}, the last {} shown.", grouped(found.shown))
            }
            None => format!("{matching}."),
        }
    }

    fn header(&self, totals: Totals) -> String {
        format!("{} ({}, {})\n", self.handle.trim(), counted(totals.lines, "line"), size(totals.bytes))
    }

    fn not_found(&self, outputs: &OutputStore, error: &FindError) -> ToolError {
        let shown: String = self.handle.chars().take(60).collect();
        match error {
            FindError::Malformed => {
                ToolError::invalid_args(format!("ReadOutput: {shown:?} is not a handle: {error}."))
            }
            FindError::Unknown => {
                let days = outputs.kept_for().as_secs() / (24 * 60 * 60);
                ToolError::not_found(format!(
                    "No output is kept as {shown}. Outputs are kept for {days} days, fewer when room is short; run the call again if its output is still needed."
                ))
            }
            FindError::NotKept(reason) => ToolError::not_found(format!(
                "Nothing of the output {shown} is kept: {reason}. What its call showed is all there is; run it again, \
                 with less output or once there is room."
            )),
            FindError::Io(cause) => self.failed(cause),
        }
    }

    fn failed(&self, cause: &std::io::Error) -> ToolError {
        ToolError::io(format!("The kept output {}", self.handle.trim()), cause)
    }
}

/// Removes control sequences from lines, and records whether there were any.
struct Cleaning {
    raw: bool,
    removed: bool,
}

impl Cleaning {
    const NOTE: &str = "[escape sequences and overwritten progress are left out; raw=true shows them]";

    fn of<'a>(&mut self, line: &'a str) -> Cow<'a, str> {
        if self.raw || !line.contains(|c: char| c.is_control() && c != '\t') {
            return Cow::Borrowed(line);
        }
        let clean = hygiene::clean(line);
        // A carriage return before the line end is part of that end.
        self.removed |= clean != line.trim_end_matches('\r');
        Cow::Owned(clean)
    }
}

/// Stops the reading when it is dropped.
#[derive(Default)]
struct Halting(Halt);

impl Drop for Halting {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn cancelled() -> ToolError {
    ToolError::cancelled("ReadOutput was cancelled; nothing was changed.")
}

/// Formats matches as `number<tab>text` and context with a dash after the number. `--` stands for omitted lines.
fn match_lines(lines: &[KeptLine], cleaning: &mut Cleaning) -> String {
    let mut text = String::new();
    let mut last = None;
    for line in lines {
        if last.is_some_and(|last| last + 1 != line.number) {
            text.push_str("--\n");
        }
        let mark = if line.matched { "" } else { "-" };
        let _ = writeln!(text, "{:>6}{mark}\t{}", line.number, cleaning.of(&line.text));
        last = Some(line.number);
    }
    text
}
