//! Patches over several files: parses them, places each hunk, plans the changes, and applies all of them or none.

pub(super) mod apply_hunks;
mod codex;
pub(super) mod commit;
mod commit_state;
mod commit_step;
mod diff_names;
mod hunk_candidates;
mod hunk_placement;
mod hunk_text;
mod located_section;
pub(super) mod parse;
pub(super) mod parse_error;
mod placement_error;
pub(super) mod plan;
mod proposed_changes;
pub(super) mod report;
mod undo;
mod unified;

use std::collections::BTreeSet;

/// A parsed patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Patch {
    /// One section per file, in the order of the patch.
    pub sections: Vec<PatchFileSection>,
    /// Notes on text that the parser ignored.
    pub notes: Vec<String>,
}

impl Patch {
    /// The paths of all its files, in all their possible readings.
    pub(crate) fn named_paths(&self) -> BTreeSet<&str> {
        let mut paths = BTreeSet::new();
        for section in &self.sections {
            paths.extend(section.names.iter().map(String::as_str));
            if let SectionAction::Update {
                move_to: Some(to), ..
            } = &section.action
            {
                paths.insert(to);
            }
        }
        paths
    }
}

/// The part of a patch that concerns one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PatchFileSection {
    /// The line of the patch where it begins, from 1.
    pub line: usize,
    /// The file's path, the likeliest reading first.
    pub names: Vec<String>,
    /// The change of the file.
    pub action: SectionAction,
}

/// The change of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SectionAction {
    /// Creates the file.
    Add {
        /// The whole content.
        content: String,
        /// The executable bit, if the patch states it.
        executable: Option<bool>,
    },
    /// Removes the file.
    Delete {
        /// The content before, if the patch has it.
        hunks: Option<Vec<Hunk>>,
    },
    /// Changes the file.
    Update {
        /// The changes of its lines.
        hunks: Vec<Hunk>,
        /// The new path.
        move_to: Option<String>,
        /// The executable bit, if the patch states it.
        executable: Option<bool>,
    },
}

/// A hunk: an edit whose old and new text share their context lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Hunk {
    /// The line of the patch where it begins, from 1.
    pub line: usize,
    /// Lines before it in the file, outer ones first.
    pub anchors: Vec<String>,
    /// The place that a unified diff states.
    pub stated: Option<StatedRange>,
    /// True if it is marked to be at the end of the file.
    pub at_end: bool,
    pub lines: Vec<HunkLine>,
}

/// The old side of a unified hunk's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StatedRange {
    /// The first line, from 1; for an empty range, the line before.
    pub start: usize,
    /// The number of lines.
    pub count: usize,
    /// The number of lines on the new side.
    pub new_count: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HunkLine {
    /// The kind of change.
    pub kind: LineKind,
    /// Its text with the line feed, unless the patch says that none follows.
    pub text: String,
}

/// The change of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineKind {
    /// Unchanged.
    Context,
    /// Removed from the file.
    Removed,
    /// Added to the file.
    Added,
}

impl Hunk {
    /// The lines in the file before the change.
    fn old_lines(&self) -> Vec<&[u8]> {
        self.lines_without(LineKind::Added)
    }

    /// The lines in the file after the change.
    fn new_lines(&self) -> Vec<&[u8]> {
        self.lines_without(LineKind::Removed)
    }

    fn lines_without(&self, kind: LineKind) -> Vec<&[u8]> {
        self.lines
            .iter()
            .filter(|line| line.kind != kind)
            .map(|line| line.text.as_bytes())
            .collect()
    }

    fn has_kind(&self, kind: LineKind) -> bool {
        self.lines.iter().any(|line| line.kind == kind)
    }

    /// Returns whether an added line has no line feed after it, which only a file's last line may
    /// lack.
    fn adds_open_line(&self) -> bool {
        self.lines
            .iter()
            .any(|line| line.kind == LineKind::Added && !line.text.ends_with('\n'))
    }

    /// The number of lines of context before its first change and after its last.
    fn context_margins(&self) -> (usize, usize) {
        let is_context = |line: &&HunkLine| line.kind == LineKind::Context;
        let before = self.lines.iter().take_while(is_context).count();
        (
            before,
            self.lines.iter().rev().take_while(is_context).count(),
        )
    }

    /// The range of lines inside its outer context, if it starts at this line of the file. No two
    /// hunks share any.
    fn core_at(&self, start: usize) -> (usize, usize) {
        let (before, after) = self.context_margins();
        (start + before, start + self.old_lines().len() - after)
    }
}
