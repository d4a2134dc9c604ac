//! What each conversation has read and written of files, to tell it what changed on the disk since. In memory, bounded,
//! gone with the process. Not here: whether a changed file may be written.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

use super::match_tier::strip_line_ending;
use super::revision::apply_splices;
use crate::acp::WorkspacePath;
use crate::acp::files::{Splice, TextWindow};
use crate::ids::ConversationId;
use crate::output::figures::grouped;
use crate::tool::ToolCx;

/// Files remembered in all conversations; the one that was not seen for longest goes first.
const MOST_FILES: usize = 512;
/// Lines remembered of all files, four bytes each.
const MOST_LINES: usize = 1_000_000;
/// Of a file with more lines, or of a larger one, only its hash is remembered.
const LINES_OF_ONE: usize = 10_000;
const BYTES_OF_ONE: usize = 1 << 20;
/// Lines around the remembered ones among which they are looked for.
const AROUND: usize = 200;
/// Comparing takes no longer; what is not compared by then counts as changed.
const LONGEST: Duration = Duration::from_millis(100);
/// Ranges of lines that are named.
const NAMED: usize = 4;

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

/// Hashes of the lines that were seen; none of a file with too many.
#[derive(Debug, Clone, Default)]
pub(super) struct SeenLines {
    /// How many lines stand before them.
    before: usize,
    hashes: Vec<u32>,
    /// They are all lines of the file.
    is_whole: bool,
}

impl SeenLines {
    /// The lines of a whole text, in UTF-8.
    pub(super) fn of_text(text: &[u8]) -> Self {
        if text.len() > BYTES_OF_ONE {
            return Self::default();
        }
        let hashes = line_hashes(text);
        if hashes.len() > LINES_OF_ONE {
            return Self::default();
        }
        Self { before: 0, hashes, is_whole: true }
    }

    /// The lines of a text in which these places are replaced.
    pub(super) fn of_spliced(text: &[u8], splices: &[Splice]) -> Self {
        if text.len() > BYTES_OF_ONE { Self::default() } else { Self::of_text(&apply_splices(text, splices)) }
    }

    fn of_window(window: &TextWindow) -> Self {
        let Ok(first) = usize::try_from(window.first) else { return Self::default() };
        if window.first_cut.is_some() || window.lines == 0 || window.lines > LINES_OF_ONE as u64 {
            return Self::default();
        }
        let hashes = line_hashes(window.text.as_bytes());
        Self { before: first - 1, hashes, is_whole: first == 1 && window.at_end }
    }

    /// Takes up lines that follow those that are there, or stands for them instead.
    fn extend(&mut self, next: Self) {
        let follows = !self.hashes.is_empty() && next.before == self.before + self.hashes.len();
        if follows && !next.is_whole && self.hashes.len() + next.hashes.len() <= LINES_OF_ONE {
            self.hashes.extend(next.hashes);
        } else if !self.is_whole || next.is_whole {
            *self = next;
        }
    }

    /// The lines of the text of now that are not as they were seen; in words.
    fn changed_in(&self, text: &[u8]) -> Option<String> {
        if self.hashes.is_empty() || text.len() > BYTES_OF_ONE {
            return None;
        }
        let now = line_hashes(text);
        let end = self.before + self.hashes.len();
        if !self.is_whole && now.get(self.before..end) == Some(&self.hashes) {
            return Some(format!("outside lines {}-{end}, which you read", self.before + 1));
        }
        let part = if self.is_whole {
            0..now.len()
        } else {
            self.before.saturating_sub(AROUND).min(now.len())..(end + AROUND).min(now.len())
        };
        let until = Instant::now() + LONGEST;
        let mut ops =
            capture_diff_slices_deadline(Algorithm::Myers, &self.hashes, &now[part.clone()], Some(until));
        if !self.is_whole {
            // What stands before and behind the lines that were seen says nothing of them.
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
                let (mut lines, seen) = (op.new_range(), op.old_range().len());
                if !self.is_whole && lines.end == part.len() {
                    lines.end = lines.end.min(lines.start + seen);
                } else if !self.is_whole && lines.start == 0 {
                    lines.start = lines.end.saturating_sub(seen);
                }
                lines.start + part.start..lines.end + part.start
            })
            .collect();
        Some(if changed.is_empty() { "only in where your lines stand".to_owned() } else { named(&changed) })
    }
}

/// `lines 12-14, 20, and some removed before line 33`.
fn named(changed: &[Range<usize>]) -> String {
    let mut parts: Vec<String> = changed
        .iter()
        .take(NAMED)
        .map(|range| match range.len() {
            0 => format!("some removed before {}", grouped(range.start as u64 + 1)),
            1 => grouped(range.end as u64),
            _ => format!("{}-{}", grouped(range.start as u64 + 1), grouped(range.end as u64)),
        })
        .collect();
    if changed.len() > NAMED {
        parts.push("...".to_owned());
    }
    let lines = if matches!(changed, [one] if one.len() == 1) { "line" } else { "lines" };
    format!("{lines} {}", parts.join(", "))
}

fn line_hashes(text: &[u8]) -> Vec<u32> {
    let text = text.strip_prefix("\u{FEFF}".as_bytes()).unwrap_or(text);
    text.split_inclusive(|byte| *byte == b'\n')
        .map(|line| {
            let mut hasher = DefaultHasher::new();
            strip_line_ending(line).hash(&mut hasher);
            // Half of it is enough to tell a changed line.
            (hasher.finish() >> 32) as u32
        })
        .collect()
}

impl SeenFiles {
    /// Remembers a window that the conversation was shown. `forced` says that it was decoded as the call asked.
    pub(super) fn record_window(&self, cx: &ToolCx, path: &WorkspacePath, window: &TextWindow, forced: bool) {
        let Some(sha256) = window.sha256.clone() else { return };
        let lines = if forced { SeenLines::default() } else { SeenLines::of_window(window) };
        self.record(cx, path, sha256, lines);
    }

    /// Remembers what a file holds, as the conversation knows it now.
    pub(super) fn record(&self, cx: &ToolCx, path: &WorkspacePath, sha256: String, lines: SeenLines) {
        let mut files = self.files();
        let mut lines = lines;
        if let Some(at) = position(&files, cx, path.absolute())
            && let Some(mut known) = files.remove(at)
            && known.sha256 == sha256
        {
            known.lines.extend(lines);
            lines = known.lines;
        }
        let (conversation, path) = (cx.conversation.clone(), path.absolute().to_owned());
        files.push_back(SeenFile { conversation, path, sha256, lines });
        let mut held: usize = files.iter().map(|file| file.lines.hashes.len()).sum();
        while files.len() > MOST_FILES || held > MOST_LINES {
            held -= files.pop_front().map_or(held, |file| file.lines.hashes.len());
        }
    }

    /// Forgets a file that is gone.
    pub(super) fn forget(&self, cx: &ToolCx, path: &WorkspacePath) {
        let mut files = self.files();
        if let Some(at) = position(&files, cx, path.absolute()) {
            files.remove(at);
        }
    }

    /// The SHA-256 (hex) that the file had when the conversation saw it last.
    pub(super) fn sha256(&self, cx: &ToolCx, path: &WorkspacePath) -> Option<String> {
        let files = self.files();
        position(&files, cx, path.absolute()).map(|at| files[at].sha256.clone())
    }

    /// A sentence on what changed since the conversation saw the file last; none where nothing did, and where it never
    /// saw it. `text` is the whole file in UTF-8, where that is held.
    pub(super) fn change_since(
        &self,
        cx: &ToolCx,
        path: &WorkspacePath,
        sha256: impl FnOnce() -> String,
        text: Option<&[u8]>,
    ) -> Option<String> {
        let (seen, lines) = {
            let files = self.files();
            let at = position(&files, cx, path.absolute())?;
            (files[at].sha256.clone(), files[at].lines.clone())
        };
        if sha256() == seen {
            return None;
        }
        let lines = text.and_then(|text| lines.changed_in(text));
        let lines = lines.map_or_else(String::new, |lines| format!(": {lines}"));
        Some(format!("{} changed since you read it{lines}.", path.shown()))
    }

    fn files(&self) -> MutexGuard<'_, VecDeque<SeenFile>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn position(files: &VecDeque<SeenFile>, cx: &ToolCx, path: &Path) -> Option<usize> {
    files.iter().position(|file| file.conversation == cx.conversation && file.path == path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acp::{RawPath, Workspace};
    use crate::ids::RequestId;

    fn lines(text: &str) -> SeenLines {
        SeenLines::of_text(text.as_bytes())
    }

    #[test]
    fn changed_lines_are_named_by_where_they_stand_now() {
        let before = (1..=20).map(|n| format!("line {n}\n")).collect::<Vec<_>>().concat();
        for (after, expect) in [
            (before.replace("line 12\n", "x\n").replace("line 13\n", "y\n"), "lines 12-13"),
            (before.replace("line 3\n", "x\n").replace("line 9\n", "y\n"), "lines 3, 9"),
            (before.replace("line 5\n", "line 5\nnew\n"), "line 6"),
            (before.replace("line 5\n", ""), "lines some removed before 5"),
        ] {
            assert_eq!(lines(&before).changed_in(after.as_bytes()).as_deref(), Some(expect));
        }
        let part = SeenLines { before: 4, hashes: line_hashes(b"line 5\nline 6\n"), is_whole: false };
        let elsewhere = before.replace("line 12\n", "x\n");
        let said = part.changed_in(elsewhere.as_bytes());
        assert_eq!(said.as_deref(), Some("outside lines 5-6, which you read"));
        let moved = format!("new\n{before}");
        assert_eq!(part.changed_in(moved.as_bytes()).as_deref(), Some("only in where your lines stand"));
        let said = part.changed_in(before.replace("line 6\n", "x\n").as_bytes());
        assert_eq!(said.as_deref(), Some("line 6"));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let dir = tempfile::tempdir().expect("a folder");
        let workspace = Workspace::open(&[dir.path().to_owned()]).expect("a workspace");
        let path = |n: usize| workspace.resolve(&RawPath::from(n.to_string().as_str())).expect("a path");
        let seen = SeenFiles::default();
        let cx = ToolCx::detached(RequestId::new());
        let many = lines(&"x\n".repeat(LINES_OF_ONE));
        for n in 0..MOST_FILES + 50 {
            seen.record(&cx, &path(n), n.to_string(), many.clone());
        }
        let held: usize = seen.files().iter().map(|file| file.lines.hashes.len()).sum();
        assert!(held <= MOST_LINES && seen.files().len() <= MOST_FILES);
        assert_eq!(seen.sha256(&cx, &path(0)), None);
        assert!(seen.sha256(&cx, &path(MOST_FILES + 49)).is_some(), "the newest stays");
        assert!(lines(&"x\n".repeat(LINES_OF_ONE + 1)).hashes.is_empty());
    }
}
