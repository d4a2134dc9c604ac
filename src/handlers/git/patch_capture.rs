//! A sink for a diff: keeps whole files within a budget and the paths of the omitted ones. Not here: the revisions,
//! and the layout of the answer.

use super::captured_output::{CapturedOutput, OutputCapture};
use super::display_text;
use super::git_command::GitOutputSink;
use crate::output::terminal_text::Utf8Decoder;
use crate::output::text_budget::{TextBudget, clip_to_budget};
use crate::output::{ClippedText, HeadTail};

/// A longer line is processed in parts.
const MAX_LINE_BYTES: usize = 64 << 10;
/// The largest number of omitted files to remember by path.
const MAX_OMITTED_PATHS: usize = 2_000;

/// A sink for git's diff output.
pub(super) struct PatchCapture {
    /// `Some` until the end.
    capture: Option<OutputCapture>,
    masked: Vec<u8>,
    decoder: Utf8Decoder,
    /// A line that has not ended yet.
    pending: String,
    /// The pending text continues a line.
    inside: bool,
    section: PatchSection,
    room: usize,
    /// The initial budget, used for a file that is alone in the diff.
    budget: usize,
    head_tail: HeadTail,
    taken: PatchContent,
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
    pub(super) lossy: u64,
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
            capture: Some(whole),
            masked: Vec::new(),
            decoder: Utf8Decoder::default(),
            pending: String::new(),
            inside: false,
            section: PatchSection::default(),
            room,
            budget: room,
            head_tail: HeadTail::new(TextBudget::from_requested(Some(ends as u64))),
            taken: PatchContent::default(),
        }
    }

    /// Ends the input. Returns the files that fit, the stored output, and the beginning and end for a file that is
    /// alone.
    pub(super) fn finish(mut self) -> (PatchContent, CapturedOutput, ClippedText) {
        let (last, kept) = self
            .capture
            .take()
            .map(OutputCapture::finish)
            .unwrap_or_default();
        let mut rest = String::new();
        self.decoder.push(&last, &mut rest);
        self.decoder.finish(&mut rest);
        self.push_lines(&rest);
        let pending = std::mem::take(&mut self.pending);
        if !pending.is_empty() {
            self.push_line(&pending);
        }
        self.finish_section();
        self.taken.lossy = self.decoder.replacement_count();
        let ends = self.head_tail.render_clipped(kept.handle.as_deref());
        (self.taken, kept, ends)
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
        let header = begins
            && ["diff --git ", "diff --cc ", "diff --combined "]
                .iter()
                .any(|s| line.starts_with(s));
        if header {
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
            let mut shown = display_text::escape_block(line.trim_end_matches('\n'));
            shown.push('\n');
            shown
        } else {
            let controls = line
                .chars()
                .filter(|c| c.is_control() && !matches!(c, '\n' | '\t' | '\r'));
            self.taken.controls += controls.count() as u64;
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
            self.taken.shown += 1;
            self.taken.text.push_str(&text.text);
            if !text.text.ends_with('\n') {
                self.taken.text.push('\n');
            }
            return;
        }
        self.taken.omitted_count += 1;
        if self.taken.omitted_paths.len() < MAX_OMITTED_PATHS {
            self.taken
                .omitted_paths
                .push(section.path.unwrap_or_default());
        }
    }
}

impl PatchSection {
    /// Reads the file's path from a header line. Later lines are more exact and replace earlier ones.
    fn read_path(&mut self, line: &str) {
        let name = |text: &str| {
            Some(display_text::unquote_path(
                text.trim_end_matches('\t').as_bytes(),
            ))
        };
        let side = |text: &str, prefix: &[u8]| {
            let path = display_text::unquote_path(text.trim_end_matches('\t').as_bytes());
            path.strip_prefix(prefix).map(<[u8]>::to_vec)
        };
        let found = if let Some(rest) = line.strip_prefix("diff --git ") {
            parse_common_path(rest)
        } else if let Some(rest) = line
            .strip_prefix("diff --cc ")
            .or_else(|| line.strip_prefix("diff --combined "))
        {
            name(rest)
        } else if let Some(rest) = line
            .strip_prefix("rename to ")
            .or_else(|| line.strip_prefix("copy to "))
        {
            name(rest)
        } else if let Some(rest) = line.strip_prefix("+++ ") {
            side(rest, b"b/")
        } else if let Some(rest) = line.strip_prefix("--- ") {
            side(rest, b"a/")
        } else {
            None
        };
        if found.is_some() {
            self.path = found;
        }
    }
}

/// Parses `a/x b/x` as `x`.
fn parse_common_path(rest: &str) -> Option<Vec<u8>> {
    let half = rest.len().checked_sub(1)? / 2;
    let (first, second) = (rest.get(..half)?, rest.get(half + 1..)?);
    let (first, second) = (
        display_text::unquote_path(first.as_bytes()),
        display_text::unquote_path(second.as_bytes()),
    );
    let path = first.strip_prefix(b"a/")?;
    (second.strip_prefix(b"b/")? == path).then(|| path.to_vec())
}

impl GitOutputSink for PatchCapture {
    fn accept_chunk(&mut self, piece: &[u8]) -> bool {
        let mut masked = std::mem::take(&mut self.masked);
        let more = self
            .capture
            .as_mut()
            .is_some_and(|whole| whole.push_chunk(piece, &mut masked));
        let mut text = String::new();
        self.decoder.push(&masked, &mut text);
        self.push_lines(&text);
        self.masked = masked;
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
