//! What is kept of one file's matching lines while it is searched. Not here: which files, and how it is shown.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};

use crate::output::Uncut;

/// A line longer than this is cut around its match.
const MAX_LINE: usize = 400;
/// How many lines of one match over several lines are kept.
const MAX_BLOCK: usize = 200;

/// What is kept of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// Whether there is one.
    Whether,
    /// How many there are.
    Count,
    /// The lines themselves.
    Lines,
    /// Of each line the parts that match.
    Matches,
}

/// A line of an answer.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Line {
    /// Its number, from 1.
    pub(super) number: u64,
    /// Whether it matches, or only stands beside one that does.
    pub(super) matches: bool,
    /// Its text, cut around the match where it is long.
    pub(super) text: String,
}

/// One file's matching lines, as they are found.
#[derive(Debug)]
pub(super) struct Lines {
    matcher: RegexMatcher,
    keep: Keep,
    pub(super) kept: Vec<Line>,
    pub(super) matched: u64,
    /// There is a NUL byte: its lines are no text, so it is only known whether one matches.
    pub(super) binary: bool,
    /// Lines with bytes that are no text.
    pub(super) lossy: u64,
    /// The encoding that was told from the bytes, where they had to be decoded.
    pub(super) decoded_from: Option<&'static str>,
    /// No cut goes through one of these.
    uncut: Uncut,
}

impl Lines {
    pub(super) fn new(matcher: RegexMatcher, keep: Keep, uncut: Uncut) -> Self {
        Self {
            matcher,
            keep,
            kept: Vec::new(),
            matched: 0,
            binary: false,
            lossy: 0,
            decoded_from: None,
            uncut,
        }
    }

    fn text(&mut self, line: &[u8]) -> String {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        self.lossy += u64::from(std::str::from_utf8(line).is_err());
        if line.len() <= MAX_LINE {
            return String::from_utf8_lossy(line).into_owned();
        }
        let found = self.matcher.find(line).ok().flatten();
        cut(line, found.map_or(0..0, |found| found.start()..found.end()), &self.uncut)
    }
}

impl Lines {
    /// The parts of a line that match, each as a line of its own. Of a match over several lines it is the whole line.
    fn matching_parts(&mut self, number: u64, line: &[u8]) -> String {
        let mut parts = Vec::new();
        // A pattern that has compiled finds without fail.
        let _ = self.matcher.clone().find_iter(line, |found| {
            if !found.is_empty() && parts.len() < MAX_BLOCK {
                parts.push(self.text(&line[found.start()..found.end()]));
            }
            true
        });
        if parts.is_empty() { self.text(line) } else { parts.join(&format!("\n  {number}: ")) }
    }
}

impl Sink for &mut Lines {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        match self.keep {
            Keep::Whether => {
                self.matched = 1;
                return Ok(false);
            }
            Keep::Count => self.matched += found.lines().count() as u64,
            Keep::Lines | Keep::Matches => {
                for (number, line) in (found.line_number().unwrap_or(0)..).zip(found.lines().take(MAX_BLOCK))
                {
                    let text = match self.keep {
                        Keep::Matches => self.matching_parts(number, line),
                        _ => self.text(line),
                    };
                    self.kept.push(Line { number, matches: true, text });
                    self.matched += 1;
                }
            }
        }
        Ok(true)
    }

    fn context(&mut self, _searcher: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        if self.keep == Keep::Lines {
            let text = self.text(context.bytes());
            self.kept.push(Line { number: context.line_number().unwrap_or(0), matches: false, text });
        }
        Ok(true)
    }

    fn binary_data(&mut self, _searcher: &Searcher, _offset: u64) -> io::Result<bool> {
        self.binary = true;
        self.keep = Keep::Whether;
        self.kept.clear();
        let known = self.matched > 0;
        self.matched = u64::from(known);
        // The rest is searched as long as there is no hit.
        Ok(!known)
    }
}

/// About [`MAX_LINE`] bytes of a line around what matches in it.
fn cut(line: &[u8], found: Range<usize>, uncut: &Uncut) -> String {
    let boundary = |mut at: usize| {
        while at < line.len() && line[at] & 0xC0 == 0x80 {
            at += 1;
        }
        at.min(line.len())
    };
    let before = MAX_LINE.saturating_sub(found.len()) / 2;
    let start = found.start.saturating_sub(before).min(line.len().saturating_sub(MAX_LINE));
    // What is masked as a whole is short then, however long it is here.
    let Range { start, end } = uncut.whole(line, boundary(start)..boundary(start + MAX_LINE));
    let left = if start > 0 { "[...] " } else { "" };
    let right = if end < line.len() { " [...]" } else { "" };
    format!("{left}{}{right} (line of {} bytes)", String::from_utf8_lossy(&line[start..end]), line.len())
}

/// Why a file was not searched to its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unsearched {
    /// It is over the size limit.
    TooLarge,
    /// It cannot be opened or read.
    Unreadable,
    /// It is UTF-32, which nothing here decodes.
    Utf32,
    /// The search is over.
    Halted,
}

/// One file's part of an answer; ordered by what the answer is ordered by.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileHits {
    /// Newest first, where that is the order; else the same for all.
    pub(super) newest: std::cmp::Reverse<Option<std::time::SystemTime>>,
    /// The folder that was searched.
    pub(super) root: Arc<Path>,
    /// The file's path from there.
    pub(super) rel: PathBuf,
    /// Matching lines that were counted; 1 where only whether there is one was asked.
    pub(super) matched: u64,
    /// The lines, where they were asked for.
    pub(super) lines: Vec<Line>,
    /// There is a NUL byte in it, and no lines are kept.
    pub(super) binary: bool,
    /// Lines with bytes that are no text.
    pub(super) lossy: u64,
    /// The encoding that was told from the bytes, where they had to be decoded.
    pub(super) decoded_from: Option<&'static str>,
}

impl FileHits {
    /// The file.
    pub(super) fn path(&self) -> PathBuf {
        self.root.join(&self.rel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_cut_around_its_match() {
        let line = format!("{}needle{}", "a".repeat(5_000), "b".repeat(5_000));
        let text = cut(line.as_bytes(), 5_000..5_006, &Uncut::default());
        assert!(text.contains("aneedleb") && text.len() < 500, "{text}");
        assert!(text.contains("line of 10006 bytes"), "{text}");
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        let line = "ä€😀".repeat(1_000);
        for at in 0..60 {
            let text = cut(line.as_bytes(), at * 9..at * 9 + 2, &Uncut::default());
            assert!(!text.contains('\u{FFFD}'), "{text}");
        }
    }
}
