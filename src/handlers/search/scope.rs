//! Which files a search looks at: the folders, the ignore rules, the walk. Not here: what is looked for.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use ignore::types::Types;
use ignore::{DirEntry, WalkBuilder, WalkState};

use super::coverage::Coverage;
use super::halt::Halt;
use super::page::unlocked;
use crate::acp::{RawPath, Workspace};
use crate::tool::ToolError;

/// More threads than this wait for the disk and for each other.
const MAX_THREADS: usize = 12;
/// How many directories are read again to name the ignored ones.
const MAX_NAMED_FROM: usize = 64;
/// How many ignored directories are named at most.
const MAX_NAMED: usize = 40;

/// The files that a search looks at.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    /// Absolute folders (or one file) inside the workspace.
    pub(super) roots: Vec<PathBuf>,
    /// Look at what ignore files exclude, too.
    pub(super) include_ignored: bool,
    /// Look at names that begin with a dot, too.
    pub(super) hidden: bool,
    /// Only files of these types.
    pub(super) types: Option<Types>,
}

/// One thread's part of a search.
pub(super) trait Visit: Send {
    /// Looks at a regular file.
    fn file(&mut self, entry: DirEntry) -> WalkState;
    /// Whether a symbolic link would have been looked at, had it been a file.
    fn counts_link(&self, path: &Path) -> bool;
}

impl Scope {
    /// The folder asked for, or all workspaces.
    pub(super) fn roots(workspace: &Workspace, path: Option<&RawPath>) -> Result<Vec<PathBuf>, ToolError> {
        let Some(path) = path.filter(|path| !path.as_str().is_empty()) else {
            return Ok(workspace.roots().map(Path::to_owned).collect());
        };
        let resolved = workspace.resolve(path)?;
        let kind = resolved.metadata().map_err(|cause| {
            if cause.kind() == std::io::ErrorKind::NotFound {
                ToolError::not_found(format!(
                    "There is nothing at {}. Use Glob to find the folder.",
                    resolved.shown()
                ))
            } else {
                ToolError::io(resolved.shown(), &cause)
            }
        })?;
        if !kind.is_dir() && !kind.is_file() {
            return Err(ToolError::invalid_args(format!(
                "{} is neither a folder nor a regular file, so it cannot be searched.",
                resolved.shown()
            )));
        }
        Ok(vec![resolved.absolute().to_owned()])
    }

    /// Looks at every file, on several threads, until the visitors or the halt end it.
    pub(super) fn walk<V: Visit>(&self, halt: &Halt, visitor: impl Fn() -> V) -> Coverage {
        let total = Mutex::new(Coverage::default());
        self.builder().threads(threads()).build_parallel().run(|| {
            let mut visitor = visitor();
            let mut tally = Tally { own: Coverage::default(), total: &total };
            Box::new(move |found| {
                if halt.over() {
                    return WalkState::Quit;
                }
                let entry = match found {
                    Ok(entry) => entry,
                    Err(error) => {
                        tally.unreadable(error.io_error().is_some());
                        return WalkState::Continue;
                    }
                };
                match entry.file_type() {
                    Some(kind) if kind.is_file() => visitor.file(entry),
                    Some(kind) if kind.is_symlink() => {
                        tally.link(visitor.counts_link(entry.path()));
                        WalkState::Continue
                    }
                    _ => WalkState::Continue,
                }
            })
        });
        let mut coverage = unlocked(&total).clone();
        coverage.timed_out = halt.late();
        self.name_ignored(halt, &mut coverage);
        coverage
    }

    fn builder(&self) -> WalkBuilder {
        let mut builder = WalkBuilder::empty();
        for root in &self.roots {
            builder.add(root);
        }
        let heed = !self.include_ignored;
        builder
            .hidden(!self.hidden)
            .ignore(heed)
            .git_ignore(heed)
            .git_exclude(heed)
            .parents(heed)
            // The user's own ignore file outside the project is not known to whoever reads the answer.
            .git_global(false)
            .require_git(false)
            .follow_links(false)
            // A repository's own records are never what is looked for, hidden files or not.
            .filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git");
        if let Some(root) = self.roots.first() {
            builder.current_dir(root);
        }
        if let Some(types) = &self.types {
            builder.types(types.clone());
        }
        builder
    }

    /// Names the ignored directories of the two upper levels: the walk itself never tells of them.
    fn name_ignored(&self, halt: &Halt, coverage: &mut Coverage) {
        if self.include_ignored {
            return;
        }
        let mut budget = MAX_NAMED_FROM;
        for mut matcher in self.builder().build_matchers() {
            let root = matcher.root().to_owned();
            let mut level = vec![PathBuf::new()];
            for depth in 0..2 {
                for dir in std::mem::take(&mut level) {
                    if budget == 0 || halt.over() {
                        coverage.more_ignored |= !coverage.ignored.is_empty();
                        return;
                    }
                    budget -= 1;
                    for name in directories(&root.join(&dir)) {
                        let relative = dir.join(name);
                        let hidden =
                            relative.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"."));
                        if hidden && !self.hidden {
                            continue;
                        }
                        if matcher.matched(&relative, true).is_ignore() {
                            coverage.ignored.push(relative.display().to_string());
                        } else if depth == 0 {
                            level.push(relative);
                        }
                    }
                    if coverage.ignored.len() > MAX_NAMED {
                        coverage.more_ignored = true;
                        return;
                    }
                }
            }
        }
    }
}

/// Counts on one thread and hands the count over when the thread is done.
struct Tally<'a> {
    own: Coverage,
    total: &'a Mutex<Coverage>,
}

// Methods, so that a closure takes the whole tally with it and not copies of its numbers.
impl Tally<'_> {
    fn unreadable(&mut self, counts: bool) {
        self.own.unreadable += u64::from(counts);
    }

    fn link(&mut self, counts: bool) {
        self.own.links += u64::from(counts);
    }
}

impl Drop for Tally<'_> {
    fn drop(&mut self) {
        unlocked(self.total).add(&self.own);
    }
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(MAX_THREADS)
}

/// The names of the directories in a directory, in order; none where it cannot be read.
fn directories(dir: &Path) -> Vec<std::ffi::OsString> {
    let Ok(entries) = dir.read_dir() else { return Vec::new() };
    let mut names: Vec<_> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()) && entry.file_name() != ".git")
        .map(|entry| entry.file_name())
        .collect();
    names.sort_unstable();
    names
}

/// A path as the model can paste it into another tool: relative to the first workspace, absolute outside it.
/// Characters that would break the line are escaped.
pub(super) fn shown(first: &Path, path: &Path) -> String {
    let short = path.strip_prefix(first).ok().filter(|rest| !rest.as_os_str().is_empty()).unwrap_or(path);
    match short.to_str() {
        Some(text) if !text.chars().any(char::is_control) => text.to_owned(),
        Some(text) => text
            .chars()
            .map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() })
            .collect(),
        // The bytes that are no text are shown as `\xff`; no tool can be given such a name as text.
        None => short.as_os_str().as_encoded_bytes().escape_ascii().to_string(),
    }
}
