//! The search for a pattern in a kept output, in linear time and flat memory.

use std::cell::RefCell;
use std::io::{self, Read};
use std::rc::Rc;

use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};
use memchr::{memchr_iter, memrchr};

use super::long_line::{char_offset, last_chars_offset};
use super::stored_output::{StoredOutputFile, truncate_with_note};
use super::{OutputLine, StoredOutput, TextBudget};

/// A longer line is searched in parts of this size, so that no line has to fit in memory.
const MAX_PART_BYTES: usize = 64 << 10;
/// Characters shown on either side of a match in a long line.
const CONTEXT_CHARS: usize = 400;

/// A search for a pattern in an output.
#[derive(Debug, Clone, Copy)]
pub struct OutputSearchQuery<'a> {
    /// A regular expression that matches within a line.
    pub pattern: &'a str,
    /// Lines of context on either side.
    pub context: usize,
    /// Matches in lines before this one (1-based) are passed over.
    pub from: u64,
    /// At most so many matching lines.
    pub limit: u64,
    /// Characters in all, each line counted with [`OutputLine::OVERHEAD_CHARS`] more.
    pub max_chars: usize,
}

/// The lines found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutputSearchResult {
    /// Matches and their context, in order; where numbers jump, something lies between.
    pub lines: Vec<OutputLine>,
    /// The number of matching lines among them.
    pub shown: u64,
    /// The number of matching lines in the whole output.
    pub matches: u64,
    /// The first matching line that is not shown for want of room.
    pub next_line: Option<u64>,
}

/// The reason why a search failed.
#[derive(Debug, thiserror::Error)]
pub enum OutputSearchError {
    /// The pattern cannot be used.
    #[error("{0}")]
    Pattern(#[from] grep_regex::Error),
    /// The system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl StoredOutput {
    /// Searches the whole output.
    pub fn search_lines(
        &mut self,
        query: &OutputSearchQuery<'_>,
    ) -> Result<OutputSearchResult, OutputSearchError> {
        let matcher = RegexMatcherBuilder::new()
            .line_terminator(Some(b'\n'))
            .build(query.pattern)?;
        let breaks = InsertedBreaks::default();
        let reader = LineSplitter {
            file: self.rewind_file()?,
            breaks: breaks.clone(),
            part_bytes: 0,
            chars: 0,
            line: 1,
            is_break_due: false,
        };
        let mut hits = OutputMatchCollector {
            query,
            matcher: &matcher,
            breaks,
            found: OutputSearchResult::default(),
            chars_left: query.max_chars,
            last_match: 0,
        };
        SearcherBuilder::new()
            .line_number(true)
            .bom_sniffing(false)
            .binary_detection(BinaryDetection::none())
            .before_context(query.context)
            .after_context(query.context)
            .build()
            .search_reader(&matcher, reader, &mut hits)?;
        Ok(hits.found)
    }
}

/// The inserted line breaks: the searcher's number of each line that a break ended, and the characters of the true line
/// up to there.
#[derive(Debug, Clone, Default)]
struct InsertedBreaks(Rc<RefCell<Vec<(u64, u64)>>>);

impl InsertedBreaks {
    /// The true number of a line, and how many of its characters lie in parts before this one.
    fn locate_line(&self, counted: u64) -> (u64, u64) {
        let breaks = self.0.borrow();
        let before = breaks.partition_point(|(line, _)| *line < counted);
        let chars = match before.checked_sub(1).map(|at| breaks[at]) {
            Some((line, chars)) if line + 1 == counted => chars,
            _ => 0,
        };
        (counted - before as u64, chars)
    }
}

/// A reader that ends a line after every [`MAX_PART_BYTES`] bytes without one.
struct LineSplitter<'a> {
    file: &'a mut StoredOutputFile,
    breaks: InsertedBreaks,
    /// Bytes of the part under way, and characters of its line.
    part_bytes: usize,
    chars: u64,
    /// The number of the line under way, as the searcher counts.
    line: u64,
    /// A line end comes next.
    is_break_due: bool,
}

impl Read for LineSplitter<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        if self.is_break_due {
            self.is_break_due = false;
            self.breaks.0.borrow_mut().push((self.line, self.chars));
            self.line += 1;
            self.part_bytes = 0;
            out[0] = b'\n';
            return Ok(1);
        }
        let want = out.len().min(MAX_PART_BYTES - self.part_bytes);
        let read = self.file.read(&mut out[..want])?;
        let bytes = &out[..read];
        let open = match memrchr(b'\n', bytes) {
            Some(last) => {
                self.line += memchr_iter(b'\n', bytes).count() as u64;
                self.chars = 0;
                self.part_bytes = 0;
                &bytes[last + 1..]
            }
            None => bytes,
        };
        self.part_bytes += open.len();
        self.chars += open.iter().filter(|byte| (**byte & 0xc0) != 0x80).count() as u64;
        self.is_break_due = self.part_bytes == MAX_PART_BYTES;
        Ok(read)
    }
}

/// Collects the searcher's matches.
struct OutputMatchCollector<'a> {
    query: &'a OutputSearchQuery<'a>,
    matcher: &'a RegexMatcher,
    breaks: InsertedBreaks,
    found: OutputSearchResult,
    chars_left: usize,
    last_match: u64,
}

impl Sink for OutputMatchCollector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, hit: &SinkMatch<'_>) -> io::Result<bool> {
        let (number, before) = self.breaks.locate_line(hit.line_number().unwrap_or(1));
        if number == self.last_match {
            // Another part of the same line.
            return Ok(true);
        }
        self.last_match = number;
        self.found.matches += 1;
        if number < self.query.from || self.found.next_line.is_some() {
            return Ok(true);
        }
        let mut text = self.excerpt_around_match(hit.bytes(), before);
        if self.found.shown == 0 {
            // At least one match is shown, and the match counts more than the context before it.
            if text.chars().count() + OutputLine::OVERHEAD_CHARS > self.chars_left {
                self.found.lines.clear();
                self.chars_left = self.query.max_chars;
            }
            truncate_with_note(
                &mut text,
                self.chars_left.saturating_sub(OutputLine::OVERHEAD_CHARS),
            );
        }
        let line = OutputLine {
            number,
            text,
            is_match: true,
        };
        if self.found.shown == self.query.limit || !self.add_line(line) {
            self.found.next_line = Some(number);
        } else {
            self.found.shown += 1;
        }
        Ok(true)
    }

    fn context(&mut self, _searcher: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        let (number, _) = self.breaks.locate_line(context.line_number().unwrap_or(1));
        let full = self.found.next_line.is_some() || self.found.shown == self.query.limit;
        let wanted = match context.kind() {
            SinkContextKind::Before => {
                !full && number + self.query.context as u64 >= self.query.from
            }
            _ => self.found.next_line.is_none() && self.found.shown > 0,
        };
        if wanted
            && self
                .found
                .lines
                .last()
                .is_none_or(|last| last.number < number)
        {
            let text = String::from_utf8_lossy(without_line_end(context.bytes()));
            let text = match text.char_indices().nth(2 * CONTEXT_CHARS) {
                Some((at, _)) => format!("{} [...]", &text[..at]),
                None => text.into_owned(),
            };
            self.add_line(OutputLine {
                number,
                text,
                is_match: false,
            });
        }
        Ok(true)
    }
}

impl OutputMatchCollector<'_> {
    fn add_line(&mut self, line: OutputLine) -> bool {
        let cost = line.text.chars().count() + OutputLine::OVERHEAD_CHARS;
        let fits = cost <= self.chars_left;
        if fits {
            self.chars_left -= cost;
            self.found.lines.push(line);
        }
        fits
    }

    /// Returns the line, or the part of a long line around the match, with its column.
    fn excerpt_around_match(&self, bytes: &[u8], before: u64) -> String {
        let bytes = without_line_end(bytes);
        let text = String::from_utf8_lossy(bytes);
        if before == 0
            && bytes.len() < MAX_PART_BYTES
            && text.chars().count() <= TextBudget::MAX_LINE_CHARS
        {
            return text.into_owned();
        }
        let hit = self.matcher.find(bytes).ok().flatten();
        let (start, end) = hit.map_or((0, 0), |hit| (hit.start(), hit.end()));
        let head = String::from_utf8_lossy(&bytes[..start]);
        let rest = String::from_utf8_lossy(&bytes[start..]);
        let from = last_chars_offset(&head, CONTEXT_CHARS);
        let matched = String::from_utf8_lossy(&bytes[start..end])
            .chars()
            .count()
            .min(CONTEXT_CHARS);
        let shown = &rest[..char_offset(&rest, matched + CONTEXT_CHARS)];
        let column = before + head.chars().count() as u64 + 1;
        format!(
            "[long line, match at column={column}] {}{shown}",
            &head[from..]
        )
    }
}

fn without_line_end(bytes: &[u8]) -> &[u8] {
    bytes.strip_suffix(b"\n").unwrap_or(bytes)
}
