//! The protected paths as a command finds them: those that exist at its start, which it sees read-only, and the
//! changes until its end. Not here: the paths and how each is covered (protected_paths), what becomes of changes
//! (protected_path_guard), and mounting them read-only (the sandbox).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::process_tree::ProcessTree;
use super::protected_path_guard::{GuardStart, ProtectedPathGuard};
pub(super) use super::protected_paths::CoverMode;
use super::protected_paths::ProtectedPathState;

/// The number of changes that are named.
const MAX_NAMED_CHANGES: usize = 5;
/// The bytes at the end of an output that are examined.
const MAX_TAIL_BYTES: usize = 8_000;
/// The system's error texts for a path that is read-only to a command, or must stay in its place.
const DENIAL_TEXTS: &[&str] = &[
    "Read-only file system",
    "Device or resource busy",
    "EROFS",
    "EBUSY",
];

/// The protected paths at a command's start. The guard forgets the command when this is dropped, unless it has
/// processes.
pub(super) struct ProtectedPathWatch {
    guard: ProtectedPathGuard,
    id: u64,
    told: usize,
    cwd: PathBuf,
    before: BTreeMap<PathBuf, ProtectedPathState>,
}

impl Drop for ProtectedPathWatch {
    fn drop(&mut self) {
        self.guard.forget_command(self.id);
    }
}

impl ProtectedPathWatch {
    /// Scans the current paths. Blocks for some tens of system calls.
    pub fn start_watch(guard: &ProtectedPathGuard, cwd: &Path, covers_paths: bool) -> Self {
        let cwd = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
        let GuardStart { id, told, seen } = guard.begin_command(&cwd, covers_paths);
        Self {
            guard: guard.clone(),
            id,
            told,
            cwd,
            before: seen,
        }
    }

    /// Sets the command's processes, so that changes by those that it leaves are found.
    pub fn attach_processes(&self, tree: Option<ProcessTree>, in_background: bool) {
        self.guard.attach_processes(self.id, tree, in_background);
    }

    /// Returns the paths to cover, outer before inner.
    pub fn covered_paths(&self) -> impl Iterator<Item = (&Path, CoverMode)> {
        self.before
            .iter()
            .filter_map(|(path, seen)| Some((path.as_path(), seen.cover?)))
    }

    /// Describes in sentences the paths that appeared or changed since the start, and once those that are unprotected
    /// because there are too many. With `is_all_over` the command left no process. Blocks like the first scan.
    pub fn describe_changes(&self, is_all_over: bool) -> Vec<String> {
        let (mut told, limits) = self.guard.end_command(self.id, self.told, is_all_over);
        let more = told.len().saturating_sub(MAX_NAMED_CHANGES);
        told.truncate(MAX_NAMED_CHANGES);
        if more > 0 {
            told.push(format!("The same holds for {more} more protected paths."));
        }
        told.extend(limits.into_iter().take(MAX_NAMED_CHANGES));
        told
    }

    /// Explains why a command may have failed: a covered path that its output names, with the setting that would
    /// allow it.
    pub fn explain_denial(&self, output: &str) -> Option<String> {
        let mut from = output.len().saturating_sub(MAX_TAIL_BYTES);
        while !output.is_char_boundary(from) {
            from += 1;
        }
        let lines = output[from..].lines().rev();
        let mut complaints =
            lines.filter(|line| DENIAL_TEXTS.iter().any(|word| line.contains(word)));
        complaints.find_map(|line| {
            let (path, cover) = self
                .covered_paths()
                .filter_map(|(path, cover)| Some((self.match_in_line(line, path)?, path, cover)))
                .max_by_key(|(how, ..)| *how)
                .map(|(_, path, cover)| (path, cover))?;
            let what = if cover == CoverMode::ReadOnly { "change" } else { "move or remove" };
            let (shown, why) = (path.display().to_string(), self.before[path].why);
            Some(format!(
                "This is because commands may not {what} {shown}: {why}. The owner can allow it: write = [{shown:?}] under \
                 [sandbox] in config.toml. It takes effect at once."
            ))
        })
    }

    /// Rates how surely a line means this path, if it names it. The whole path counts most, then the length of the
    /// part named, then whether the command started there.
    fn match_in_line(&self, line: &str, path: &Path) -> Option<(bool, usize, bool, usize)> {
        let end = path_from_git_folder(path);
        let folder = path.ancestors().nth(end.components().count())?;
        let whole = line.contains(&*path.to_string_lossy());
        let short = end.to_string_lossy();
        line.contains(&*short).then(|| {
            (
                whole,
                short.len(),
                self.cwd.starts_with(folder),
                folder.components().count(),
            )
        })
    }
}

/// Returns the path as programs name it, from the folder of its repository: `.git/config` for `/work/.git/config`.
fn path_from_git_folder(path: &Path) -> PathBuf {
    let names: Vec<_> = path.components().collect();
    let git = names.iter().position(|name| name.as_os_str() == ".git");
    names[git.unwrap_or(names.len().saturating_sub(1))..]
        .iter()
        .collect()
}
