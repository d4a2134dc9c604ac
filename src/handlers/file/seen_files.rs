//! Records the file content that each conversation read or wrote, to report later changes on disk. In memory, bounded,
//! lost with the process.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

use super::edit_sequence::apply_splices;
use super::match_tier::strip_line_ending;
use punie_core::ids::ConversationId;
use punie_host::WorkspacePath;
use punie_host::files::{ByteSplice, TextWindow};
use punie_text::output::number_format::group_digits;
use punie_tool::ToolContext;

/// The most files recorded over all conversations; the least recently seen is evicted first.
const MAX_SEEN_FILES: usize = 512;
/// The most lines recorded over all files, four bytes each.
const MAX_SEEN_LINES: usize = 1_000_000;
/// For a file with more lines, or a larger one, only the hash is recorded.
const MAX_LINES_PER_FILE: usize = 10_000;
const MAX_BYTES_PER_FILE: usize = 1 << 20;
/// The margin around the recorded lines in which they are searched.
const SEARCH_MARGIN_LINES: usize = 200;
/// The time limit of a comparison; lines not compared by then count as changed.
const COMPARE_TIME_LIMIT: Duration = Duration::from_millis(100);
/// The most line ranges that are named.
const MAX_NAMED_RANGES: usize = 4;

/// The files that conversations have seen.
#[derive(Debug, Clone, Default)]
pub(super) struct SeenFiles(Arc<Mutex<VecDeque<SeenFile>>>);

#[derive(Debug)]
struct SeenFile {
    conversation: ConversationId,
    path: PathBuf,
    sha256: String,
    lines: SeenLines,
}

/// Hashes of the seen lines; empty for a file with too many.
#[derive(Debug, Clone, Default)]
pub(super) struct SeenLines {
    /// The number of lines before them.
    before: usize,
    hashes: Vec<u32>,
    /// True if they are all lines of the file.
    is_whole: bool,
}

impl SeenLines {
    /// The lines of a whole text, in UTF-8.
    pub(super) fn from_whole_text(text: &[u8]) -> Self {
        if text.len() > MAX_BYTES_PER_FILE {
            return Self::default();
        }
        let hashes = hash_text_lines(text);
        if hashes.len() > MAX_LINES_PER_FILE {
            return Self::default();
        }
        Self {
            before: 0,
            hashes,
            is_whole: true,
        }
    }

    /// The lines of a text after these splices.
    pub(super) fn from_spliced(text: &[u8], splices: &[ByteSplice]) -> Self {
        if text.len() > MAX_BYTES_PER_FILE {
            Self::default()
        } else {
            Self::from_whole_text(&apply_splices(text, splices))
        }
    }

    fn from_window(window: &TextWindow) -> Self {
        let Ok(first) = usize::try_from(window.first) else {
            return Self::default();
        };
        if window.first_cut.is_some()
            || window.lines == 0
            || window.lines > MAX_LINES_PER_FILE as u64
        {
            return Self::default();
        }
        let hashes = hash_text_lines(window.text.as_bytes());
        Self {
            before: first - 1,
            hashes,
            is_whole: first == 1 && window.at_end,
        }
    }

    /// Appends lines that directly follow, or replaces the recorded lines.
    fn extend(&mut self, next: Self) {
        let follows = !self.hashes.is_empty() && next.before == self.before + self.hashes.len();
        if follows && !next.is_whole && self.hashes.len() + next.hashes.len() <= MAX_LINES_PER_FILE
        {
            self.hashes.extend(next.hashes);
        } else if !self.is_whole || next.is_whole {
            *self = next;
        }
    }

    /// Describes the lines of the current text that differ from the seen ones.
    fn describe_changed_lines(&self, text: &[u8]) -> Option<String> {
        if self.hashes.is_empty() || text.len() > MAX_BYTES_PER_FILE {
            return None;
        }
        let now = hash_text_lines(text);
        let end = self.before + self.hashes.len();
        if !self.is_whole && now.get(self.before..end) == Some(&self.hashes) {
            return Some(format!(
                "outside lines {}-{end}, which you read",
                self.before + 1
            ));
        }
        let part = if self.is_whole {
            0..now.len()
        } else {
            self.before
                .saturating_sub(SEARCH_MARGIN_LINES)
                .min(now.len())..(end + SEARCH_MARGIN_LINES).min(now.len())
        };
        let until = Instant::now() + COMPARE_TIME_LIMIT;
        let mut ops = capture_diff_slices_deadline(
            Algorithm::Myers,
            &self.hashes,
            &now[part.clone()],
            Some(until),
        );
        if !self.is_whole {
            // Text before and after the seen lines says nothing about them.
            let is_outside = |op: Option<&DiffOp>| matches!(op, Some(DiffOp::Insert { .. }));
            if is_outside(ops.first()) {
                ops.remove(0);
            }
            if is_outside(ops.last()) {
                ops.pop();
            }
        }
        let changed: Vec<Range<usize>> = ops
            .iter()
            .filter(|op| !matches!(op, DiffOp::Equal { .. }))
            .map(|op| {
                let mut lines = op.new_range();
                let seen = op.old_range().len();
                if !self.is_whole && lines.end == part.len() {
                    lines.end = lines.end.min(lines.start + seen);
                } else if !self.is_whole && lines.start == 0 {
                    lines.start = lines.end.saturating_sub(seen);
                }
                lines.start + part.start..lines.end + part.start
            })
            .collect();
        Some(if changed.is_empty() {
            "only in where your lines stand".to_owned()
        } else {
            format_line_ranges(&changed)
        })
    }
}

/// `lines 12-14, 20, and some removed before line 33`.
fn format_line_ranges(changed: &[Range<usize>]) -> String {
    let mut parts: Vec<String> = changed
        .iter()
        .take(MAX_NAMED_RANGES)
        .map(|range| match range.len() {
            0 => format!(
                "some removed before {}",
                group_digits(range.start as u64 + 1)
            ),
            1 => group_digits(range.end as u64),
            _ => format!(
                "{}-{}",
                group_digits(range.start as u64 + 1),
                group_digits(range.end as u64)
            ),
        })
        .collect();
    if changed.len() > MAX_NAMED_RANGES {
        parts.push("...".to_owned());
    }
    let lines = if matches!(changed, [one] if one.len() == 1) {
        "line"
    } else {
        "lines"
    };
    format!("{lines} {}", parts.join(", "))
}

fn hash_text_lines(text: &[u8]) -> Vec<u32> {
    let text = text.strip_prefix("\u{FEFF}".as_bytes()).unwrap_or(text);
    text.split_inclusive(|byte| *byte == b'\n')
        .map(|line| {
            let mut hasher = DefaultHasher::new();
            strip_line_ending(line).hash(&mut hasher);
            // Half of the hash is enough to detect a changed line.
            (hasher.finish() >> 32) as u32
        })
        .collect()
}

impl SeenFiles {
    /// Records a window that the conversation was shown. `forced` marks one decoded as the call
    /// asked.
    pub(super) fn record_window(
        &self,
        cx: &ToolContext,
        path: &WorkspacePath,
        window: &TextWindow,
        forced: bool,
    ) {
        let Some(sha256) = window.sha256.clone() else {
            return;
        };
        let lines = if forced {
            SeenLines::default()
        } else {
            SeenLines::from_window(window)
        };
        self.record(cx, path, sha256, lines);
    }

    /// Records a file's content as the conversation now knows it.
    pub(super) fn record(
        &self,
        cx: &ToolContext,
        path: &WorkspacePath,
        sha256: String,
        lines: SeenLines,
    ) {
        let mut files = self.lock();
        let mut lines = lines;
        if let Some(at) = seen_position(&files, cx, path.absolute_path())
            && let Some(mut known) = files.remove(at)
            && known.sha256 == sha256
        {
            known.lines.extend(lines);
            lines = known.lines;
        }
        let conversation = cx.conversation.clone();
        let path = path.absolute_path().to_owned();
        files.push_back(SeenFile {
            conversation,
            path,
            sha256,
            lines,
        });
        let mut held: usize = files.iter().map(|file| file.lines.hashes.len()).sum();
        while files.len() > MAX_SEEN_FILES || held > MAX_SEEN_LINES {
            held -= files
                .pop_front()
                .map_or(held, |file| file.lines.hashes.len());
        }
    }

    /// Removes the record of a deleted file.
    pub(super) fn forget(&self, cx: &ToolContext, path: &WorkspacePath) {
        let mut files = self.lock();
        if let Some(at) = seen_position(&files, cx, path.absolute_path()) {
            files.remove(at);
        }
    }

    /// The SHA-256 (hex) of the file when the conversation last saw it.
    pub(super) fn sha256(&self, cx: &ToolContext, path: &WorkspacePath) -> Option<String> {
        let files = self.lock();
        seen_position(&files, cx, path.absolute_path()).map(|at| files[at].sha256.clone())
    }

    /// Describes the changes since the conversation last saw the file; `None` if there are none or
    /// it never saw the file. `text` is the whole file in UTF-8, if it is loaded.
    pub(super) fn describe_change_since(
        &self,
        cx: &ToolContext,
        path: &WorkspacePath,
        sha256: impl FnOnce() -> String,
        text: Option<&[u8]>,
    ) -> Option<String> {
        let (seen, lines) = {
            let files = self.lock();
            let at = seen_position(&files, cx, path.absolute_path())?;
            (files[at].sha256.clone(), files[at].lines.clone())
        };
        if sha256() == seen {
            return None;
        }
        let lines = text.and_then(|text| lines.describe_changed_lines(text));
        let lines = lines.map_or_else(String::new, |lines| format!(": {lines}"));
        Some(format!(
            "{} changed since you read it{lines}.",
            path.display_text()
        ))
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<SeenFile>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn seen_position(files: &VecDeque<SeenFile>, cx: &ToolContext, path: &Path) -> Option<usize> {
    files
        .iter()
        .position(|file| file.conversation == cx.conversation && file.path == path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use punie_core::ids::RequestId;
    use punie_host::{RawPath, Workspace};

    fn lines(text: &str) -> SeenLines {
        SeenLines::from_whole_text(text.as_bytes())
    }

    #[test]
    fn changed_lines_are_named_by_where_they_stand_now() {
        let before = (1..=20)
            .map(|n| format!("line {n}\n"))
            .collect::<Vec<_>>()
            .concat();
        for (after, expect) in [
            (
                before
                    .replace("line 12\n", "x\n")
                    .replace("line 13\n", "y\n"),
                "lines 12-13",
            ),
            (
                before.replace("line 3\n", "x\n").replace("line 9\n", "y\n"),
                "lines 3, 9",
            ),
            (before.replace("line 5\n", "line 5\nnew\n"), "line 6"),
            (
                before.replace("line 5\n", ""),
                "lines some removed before 5",
            ),
        ] {
            assert_eq!(
                lines(&before)
                    .describe_changed_lines(after.as_bytes())
                    .as_deref(),
                Some(expect)
            );
        }
        let part = SeenLines {
            before: 4,
            hashes: hash_text_lines(b"line 5\nline 6\n"),
            is_whole: false,
        };
        let elsewhere = before.replace("line 12\n", "x\n");
        let said = part.describe_changed_lines(elsewhere.as_bytes());
        assert_eq!(said.as_deref(), Some("outside lines 5-6, which you read"));
        let moved = format!("new\n{before}");
        assert_eq!(
            part.describe_changed_lines(moved.as_bytes()).as_deref(),
            Some("only in where your lines stand")
        );
        let said = part.describe_changed_lines(before.replace("line 6\n", "x\n").as_bytes());
        assert_eq!(said.as_deref(), Some("line 6"));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let dir = tempfile::tempdir().expect("a folder");
        let workspace = Workspace::open_roots(&[dir.path().to_owned()]).expect("a workspace");
        let path = |n: usize| {
            workspace
                .resolve_inside(&RawPath::from(n.to_string().as_str()))
                .expect("a path")
        };
        let seen = SeenFiles::default();
        let cx = ToolContext::for_detached_call(RequestId::new());
        let many = lines(&"x\n".repeat(MAX_LINES_PER_FILE));
        for n in 0..MAX_SEEN_FILES + 50 {
            seen.record(&cx, &path(n), n.to_string(), many.clone());
        }
        let held: usize = seen.lock().iter().map(|file| file.lines.hashes.len()).sum();
        assert!(held <= MAX_SEEN_LINES && seen.lock().len() <= MAX_SEEN_FILES);
        assert_eq!(seen.sha256(&cx, &path(0)), None);
        assert!(
            seen.sha256(&cx, &path(MAX_SEEN_FILES + 49)).is_some(),
            "the newest stays"
        );
        assert!(
            lines(&"x\n".repeat(MAX_LINES_PER_FILE + 1))
                .hashes
                .is_empty()
        );
    }
}
