//! A sink for a diff: keeps whole files within a budget and the paths of the omitted ones.

use super::captured_output::{CapturedOutput, OutputCapture};
use super::display_text::{count_control_chars, escape_block, unquote_path};
use super::git_command::GitOutputSink;
use punie_text::output::text_budget::{TextBudget, clip_to_budget};
use punie_text::output::{ClippedText, HeadTail};

/// A longer line is processed in parts.
const MAX_LINE_BYTES: usize = 64 << 10;
/// The largest number of omitted files to remember by path.
const MAX_OMITTED_PATHS: usize = 2_000;

/// The header lines of a file's part that hold its path. One of the first three begins the part.
const HEADER_KEYS: [&str; 7] = [
    "diff --git ",
    "diff --cc ",
    "diff --combined ",
    "rename to ",
    "copy to ",
    "+++ ",
    "--- ",
];

/// A sink for git's diff output.
pub(super) struct PatchCapture {
    capture: OutputCapture,
    /// A line that has not ended yet.
    pending: String,
    /// The pending text continues a line.
    inside: bool,
    section: PatchSection,
    room: usize,
    /// The initial budget, used for a file that is alone in the diff.
    budget: usize,
    head_tail: HeadTail,
    content: PatchContent,
}

/// The content collected from a diff.
#[derive(Debug, Default)]
pub(super) struct PatchContent {
    /// The files that fit the budget.
    pub(super) text: String,
    pub(super) shown: usize,
    /// The paths of omitted files, up to a limit.
    pub(super) omitted_paths: Vec<Vec<u8>>,
    pub(super) omitted_count: usize,
    pub(super) controls: u64,
}

/// The part of the diff for one file.
#[derive(Debug, Default)]
struct PatchSection {
    text: String,
    path: Option<Vec<u8>>,
    /// It exceeds the budget.
    over: bool,
    /// Its header lines, which name the file, have not ended.
    in_header: bool,
    begun: bool,
}

impl PatchCapture {
    /// Creates the sink with `room` characters for whole files and `ends` characters for beginning and end. The whole
    /// diff is stored as well.
    pub(super) fn new(whole: OutputCapture, room: usize, ends: usize) -> Self {
        Self {
            capture: whole,
            pending: String::new(),
            inside: false,
            section: PatchSection::default(),
            room,
            budget: room,
            head_tail: HeadTail::new(TextBudget::from_requested(Some(ends as u64))),
            content: PatchContent::default(),
        }
    }

    /// Ends the input. Returns the files that fit, the stored output, and the beginning and end for a file that is
    /// alone.
    pub(super) fn finish(mut self) -> (PatchContent, CapturedOutput, ClippedText) {
        let (rest, whole) = self.capture.finish();
        self.push_lines(&rest);
        let pending = std::mem::take(&mut self.pending);
        if !pending.is_empty() {
            self.push_line(&pending);
        }
        self.finish_section();
        let ends = self.head_tail.render_clipped(whole.handle.as_deref());
        (self.content, whole, ends)
    }

    fn push_lines(&mut self, text: &str) {
        self.pending.push_str(text);
        let pending = std::mem::take(&mut self.pending);
        for line in pending.split_inclusive('\n') {
            if line.ends_with('\n') || line.len() > MAX_LINE_BYTES {
                self.push_line(line);
            } else {
                line.clone_into(&mut self.pending);
            }
        }
    }

    /// Processes a line, or the next part of a very long one.
    fn push_line(&mut self, line: &str) {
        let begins = !std::mem::replace(&mut self.inside, !line.ends_with('\n'));
        let is_first = |key: &&str| line.starts_with(key);
        if begins && HEADER_KEYS[..3].iter().any(is_first) {
            self.finish_section();
            self.section = PatchSection {
                in_header: true,
                begun: true,
                ..PatchSection::default()
            };
        }
        self.section.begun = true;
        if begins && line.starts_with("@@") {
            self.section.in_header = false;
        }
        let shown = if self.section.in_header && begins {
            self.section.read_path(line.trim_end_matches('\n'));
            let mut shown = escape_block(line.trim_end_matches('\n'));
            shown.push('\n');
            shown
        } else {
            self.content.controls += count_control_chars(line);
            line.to_owned()
        };
        self.head_tail.push(&shown);
        if !self.section.over {
            self.section.text.push_str(&shown);
            // A generous limit in bytes: the file may still fit once its long lines are cut.
            if self.section.text.len() > 8 * self.budget {
                self.section.over = true;
                self.section.text = String::new();
            }
        }
    }

    fn finish_section(&mut self) {
        let section = std::mem::take(&mut self.section);
        if !section.begun {
            return;
        }
        let text = clip_to_budget(
            &section.text,
            TextBudget::from_requested(Some(u64::MAX)),
            None,
        );
        let chars = text.text.chars().count() + 1;
        if !section.over && text.omitted_lines == 0 && chars <= self.room {
            self.room -= chars;
            self.content.shown += 1;
            self.content.text.push_str(&text.text);
            if !text.text.ends_with('\n') {
                self.content.text.push('\n');
            }
            return;
        }
        self.content.omitted_count += 1;
        if self.content.omitted_paths.len() < MAX_OMITTED_PATHS {
            self.content
                .omitted_paths
                .push(section.path.unwrap_or_default());
        }
    }
}

impl PatchSection {
    /// Reads the file's path from a header line. Later lines are more exact and replace earlier ones.
    fn read_path(&mut self, line: &str) {
        let (key, rest) = HEADER_KEYS
            .iter()
            .find_map(|key| Some((*key, line.strip_prefix(key)?)))
            .unwrap_or_default();
        let path = || unquote_path(rest.trim_end_matches('\t').as_bytes());
        let side = |prefix: &[u8]| path().strip_prefix(prefix).map(<[u8]>::to_vec);
        let found = match key {
            "" => None,
            "diff --git " => parse_common_path(rest),
            "+++ " => side(b"b/"),
            "--- " => side(b"a/"),
            _ => Some(path()),
        };
        self.path = found.or_else(|| self.path.take());
    }
}

/// Parses `a/x b/x` as `x`.
fn parse_common_path(rest: &str) -> Option<Vec<u8>> {
    let half = rest.len().checked_sub(1)? / 2;
    let first = rest.get(..half)?;
    let second = rest.get(half + 1..)?;
    let first = unquote_path(first.as_bytes());
    let second = unquote_path(second.as_bytes());
    let path = first.strip_prefix(b"a/")?;
    (second.strip_prefix(b"b/")? == path).then(|| path.to_vec())
}

impl GitOutputSink for PatchCapture {
    fn accept_chunk(&mut self, piece: &[u8]) -> bool {
        let (text, more) = self.capture.push_chunk(piece);
        self.push_lines(&text);
        more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_named_by_its_header() {
        for (header, path) in [
            (
                "diff --git a/x y.txt b/x y.txt\nBinary files differ",
                "x y.txt",
            ),
            (
                "diff --git a/old b/new\nsimilarity index 90%\nrename from old\nrename to new",
                "new",
            ),
            ("diff --git a/x b/x\n--- /dev/null\n+++ b/x\t", "x"),
            ("diff --git a/x b/x\n--- a/x\n+++ /dev/null", "x"),
            ("diff --git \"a/a\\nb\" \"b/a\\nb\"", "a\nb"),
            ("diff --cc c.txt", "c.txt"),
        ] {
            let mut section = PatchSection::default();
            for line in header.lines() {
                section.read_path(line);
            }
            assert_eq!(section.path.as_deref(), Some(path.as_bytes()), "{header}");
        }
    }
}
