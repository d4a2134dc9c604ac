//! Patches over several files: reading them, finding where each hunk belongs, planning the changes and carrying them
//! out together or not at all. Not here: the tool and its answer (apply_patch).

mod codex;
pub(super) mod commit;
mod header;
mod hunk;
mod lines;
pub(super) mod named_paths;
mod names;
pub(super) mod parse;
mod placing;
pub(super) mod plan;
mod proposed;
pub(super) mod report;
pub(super) mod rewrite;
mod spots;
mod undo;
mod unified;
mod weave;

/// A patch as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Patch {
    /// One section a file, in the order of the patch.
    pub sections: Vec<Section>,
    /// What was overlooked in reading it.
    pub notes: Vec<String>,
}

/// What a patch does to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Section {
    /// The line of the patch where it begins, from 1.
    pub line: usize,
    /// The file's path, the likeliest reading first.
    pub names: Vec<String>,
    /// What to do.
    pub action: Action,
}

/// What is done to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Make it.
    Add {
        /// All that it shall hold.
        content: String,
        /// Whether it shall be executable, where the patch says so.
        executable: Option<bool>,
    },
    /// Remove it.
    Delete {
        /// What it holds, where the patch says so.
        hunks: Option<Vec<Hunk>>,
    },
    /// Change it.
    Update {
        /// What changes in it.
        hunks: Vec<Hunk>,
        /// The path that it gets.
        move_to: Option<String>,
        /// Whether it shall be executable, where the patch says so.
        executable: Option<bool>,
    },
}

/// Lines that belong together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Hunk {
    /// The line of the patch where it begins, from 1.
    pub line: usize,
    /// Lines that stand before it in the file, outer ones first.
    pub anchors: Vec<String>,
    /// Where a unified diff says that it stands.
    pub stated: Option<Stated>,
    /// It is said to stand at the end of the file.
    pub at_end: bool,
    /// The lines.
    pub lines: Vec<Line>,
}

/// The old side of a unified hunk's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stated {
    /// The first line, from 1; where there is none, the line before.
    pub start: usize,
    /// How many lines.
    pub count: usize,
    /// How many lines the new side has.
    pub new_count: usize,
}

/// One line of a hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// What becomes of it.
    pub kind: Kind,
    /// Its text without the line feed.
    pub text: String,
    /// Whether a line feed follows.
    pub newline: bool,
}

/// What becomes of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It stays.
    Context,
    /// It goes.
    Removed,
    /// It comes.
    Added,
}

impl Hunk {
    /// The lines that stand in the file before.
    fn before(&self) -> Vec<&Line> {
        self.lines.iter().filter(|line| line.kind != Kind::Added).collect()
    }

    /// The lines that stand in the file afterwards.
    fn after(&self) -> Vec<&Line> {
        self.lines.iter().filter(|line| line.kind != Kind::Removed).collect()
    }

    /// Whether it changes anything.
    fn changes(&self) -> bool {
        self.lines.iter().any(|line| line.kind != Kind::Context)
    }

    /// How many lines of context it has before its first change and after its last.
    fn margins(&self) -> (usize, usize) {
        let is_context = |line: &&Line| line.kind == Kind::Context;
        let before = self.lines.iter().take_while(is_context).count();
        (before, self.lines.iter().rev().take_while(is_context).count())
    }
}
