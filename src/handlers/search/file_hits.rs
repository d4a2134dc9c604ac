//! The matching lines of one file, collected while it is searched.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};

use punie_text::output::SecretBoundaries;

/// Longer lines are cut around the match.
const MAX_LINE: usize = 400;
/// The largest number of lines to keep of one multiline match.
const MAX_MATCH_LINES: usize = 200;

/// The detail to keep of matching lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MatchDetail {
    /// Only that a line matches.
    Exists,
    /// The number of matching lines.
    Count,
    /// The lines themselves.
    Lines,
    /// The matching parts of each line.
    Matches,
}

/// A line of an answer.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HitLine {
    /// The line number, from 1.
    pub(super) number: u64,
    /// False for a context line.
    pub(super) matches: bool,
    /// The text, cut around the match if it is long.
    pub(super) text: String,
}

/// The matching lines of one file, as they are found.
#[derive(Debug)]
pub(super) struct LineCollector {
    matcher: RegexMatcher,
    keep: MatchDetail,
    pub(super) hit_lines: Vec<HitLine>,
    pub(super) matched: u64,
    /// The file contains a NUL byte. Its lines are not text, so only the fact of a match is recorded.
    pub(super) binary: bool,
    /// Lines with invalid UTF-8.
    pub(super) lossy: u64,
    /// The detected encoding, if the file had to be decoded.
    pub(super) decoded_from: Option<&'static str>,
    /// Secrets through which no line may be cut.
    uncut: SecretBoundaries,
}

impl LineCollector {
    pub(super) fn new(matcher: RegexMatcher, keep: MatchDetail, uncut: SecretBoundaries) -> Self {
        Self {
            matcher,
            keep,
            hit_lines: Vec::new(),
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
        cut_around_match(
            line,
            found.map_or(0..0, |found| found.start()..found.end()),
            &self.uncut,
        )
    }
}

impl LineCollector {
    /// Returns the matching parts of a line, each on a line of its own. A multiline match gives the whole line.
    fn matching_parts(&mut self, number: u64, line: &[u8]) -> String {
        let mut parts = Vec::new();
        let mut masked = None;
        let uncut = self.uncut.clone();
        // A compiled pattern does not fail here.
        let _ = self.matcher.clone().find_iter(line, |found| {
            if !found.is_empty() && parts.len() < MAX_MATCH_LINES {
                let masked = masked.get_or_insert_with(|| uncut.masked_ranges(line, true));
                let part = masked.extend_to_whole(found.start()..found.end());
                parts.push(self.text(&line[part]));
            }
            true
        });
        if parts.is_empty() {
            self.text(line)
        } else {
            parts.join(&format!("\n  {number}: "))
        }
    }
}

impl Sink for &mut LineCollector {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        match self.keep {
            MatchDetail::Exists => {
                self.matched = 1;
                return Ok(false);
            }
            MatchDetail::Count => self.matched += found.lines().count() as u64,
            MatchDetail::Lines | MatchDetail::Matches => {
                for (number, line) in
                    (found.line_number().unwrap_or(0)..).zip(found.lines().take(MAX_MATCH_LINES))
                {
                    let text = match self.keep {
                        MatchDetail::Matches => self.matching_parts(number, line),
                        _ => self.text(line),
                    };
                    self.hit_lines.push(HitLine {
                        number,
                        matches: true,
                        text,
                    });
                    self.matched += 1;
                }
            }
        }
        Ok(true)
    }

    fn context(&mut self, _searcher: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        if self.keep == MatchDetail::Lines {
            let text = self.text(context.bytes());
            self.hit_lines.push(HitLine {
                number: context.line_number().unwrap_or(0),
                matches: false,
                text,
            });
        }
        Ok(true)
    }

    fn binary_data(&mut self, _searcher: &Searcher, _offset: u64) -> io::Result<bool> {
        self.binary = true;
        self.keep = MatchDetail::Exists;
        self.hit_lines.clear();
        let known = self.matched > 0;
        self.matched = u64::from(known);
        // Search the rest only while there is no match.
        Ok(!known)
    }
}

/// Cuts a line to about [`MAX_LINE`] bytes around the match.
fn cut_around_match(line: &[u8], found: Range<usize>, uncut: &SecretBoundaries) -> String {
    let boundary = |mut at: usize| {
        while at < line.len() && line[at] & 0xC0 == 0x80 {
            at += 1;
        }
        at.min(line.len())
    };
    let before = MAX_LINE.saturating_sub(found.len()) / 2;
    let start = found
        .start
        .saturating_sub(before)
        .min(line.len().saturating_sub(MAX_LINE));
    // A secret at the edge is kept whole, because masking makes it short.
    let Range { start, end } =
        uncut.extend_to_whole(line, boundary(start)..boundary(start + MAX_LINE));
    let left = if start > 0 { "[...] " } else { "" };
    let right = if end < line.len() { " [...]" } else { "" };
    format!(
        "{left}{}{right} (line of {} bytes)",
        String::from_utf8_lossy(&line[start..end]),
        line.len()
    )
}

/// The reason why a file was not searched to its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FileSearchError {
    /// It is over the size limit.
    TooLarge,
    /// It cannot be opened or read.
    Unreadable,
    /// It is in UTF-32, which the runner does not decode.
    Utf32,
    /// The search was stopped.
    Halted,
}

/// The results for one file, ordered as the answer is.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileHits {
    /// The time of the last change, newest first, if that is the order; otherwise the same for all.
    pub(super) newest: std::cmp::Reverse<Option<std::time::SystemTime>>,
    /// The folder that was searched.
    pub(super) root: Arc<Path>,
    /// The file's path relative to it.
    pub(super) rel: PathBuf,
    /// The number of matching lines, or 1 if only the fact of a match was wanted.
    pub(super) matched: u64,
    /// The lines, if they were wanted.
    pub(super) lines: Vec<HitLine>,
    /// The file contains a NUL byte, so no lines are kept.
    pub(super) binary: bool,
    /// Lines with invalid UTF-8.
    pub(super) lossy: u64,
    /// The detected encoding, if the file had to be decoded.
    pub(super) decoded_from: Option<&'static str>,
}

impl FileHits {
    /// Returns the absolute path of the file.
    pub(super) fn full_path(&self) -> PathBuf {
        self.root.join(&self.rel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_cut_around_its_match() {
        let line = format!("{}needle{}", "a".repeat(5_000), "b".repeat(5_000));
        let text = cut_around_match(line.as_bytes(), 5_000..5_006, &SecretBoundaries::default());
        assert!(text.contains("aneedleb") && text.len() < 500, "{text}");
        assert!(text.contains("line of 10006 bytes"), "{text}");
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        let line = "ä€😀".repeat(1_000);
        for at in 0..60 {
            let text = cut_around_match(
                line.as_bytes(),
                at * 9..at * 9 + 2,
                &SecretBoundaries::default(),
            );
            assert!(!text.contains('\u{FFFD}'), "{text}");
        }
    }
}
