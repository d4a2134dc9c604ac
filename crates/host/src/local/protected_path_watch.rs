//! The protected paths as a command finds them: those that exist at its start, which it sees read-only, and the
//! changes until its end. Not here: the paths and how each is covered (protected_paths), what becomes of changes
//! (protected_path_guard), and mounting them read-only (the sandbox).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::process_tree::ProcessTree;
use super::protected_path_guard::{GuardStart, ProtectedPathGuard};
pub(super) use super::protected_paths::CoverMode;
use super::protected_paths::ProtectedPathState;
use crate::terminals::CommandLaunch;
use punie_policy::command_line::{SimpleCommand, read_command_line, read_program};

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
    launch: Option<CommandLaunch>,
    before: BTreeMap<PathBuf, ProtectedPathState>,
}

impl Drop for ProtectedPathWatch {
    fn drop(&mut self) {
        self.guard.forget_command(self.id);
    }
}

impl ProtectedPathWatch {
    /// Scans the current paths. Blocks for some tens of system calls.
    pub fn start(guard: &ProtectedPathGuard, cwd: &Path, covers_paths: bool) -> Self {
        let cwd = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
        let GuardStart { id, told, seen } = guard.begin_command(&cwd, covers_paths);
        Self {
            guard: guard.clone(),
            id,
            told,
            cwd,
            launch: None,
            before: seen,
        }
    }

    /// Sets the command, whose words may say which repository its output means.
    #[must_use]
    pub fn for_command(mut self, launch: &CommandLaunch) -> Self {
        self.launch = Some(launch.clone());
        self
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
        complaints.find_map(|line| self.explain_complaint(line))
    }

    fn explain_complaint(&self, line: &str) -> Option<String> {
        let named = self
            .covered_paths()
            .filter_map(|(path, cover)| Some((named_length(line, path)?, path, cover)));
        let named: Vec<_> = named.collect();
        let longest = named.iter().map(|(length, ..)| *length).max()?;
        let mut meant: Vec<_> = named
            .into_iter()
            .filter(|(length, ..)| *length == longest)
            .map(|(_, path, cover)| (path, cover))
            .collect();
        if meant.len() > 1 {
            // The nearest repository above where the command started comes first.
            let is_above = |path: &Path| self.cwd.starts_with(repository_around(path));
            let depth = |path: &Path| path.components().count();
            meant.sort_by_key(|(path, _)| std::cmp::Reverse((is_above(path), depth(path))));
            let start = self
                .launch
                .as_ref()
                .and_then(|launch| git_start(launch, &self.cwd));
            let of_start = start.and_then(|start| {
                let above = meant
                    .iter()
                    .filter(|(path, _)| start.starts_with(repository_around(path)));
                above.max_by_key(|(path, _)| depth(path)).copied()
            });
            meant = of_start.map_or(meant, |found| vec![found]);
        }
        let (first, cover) = *meant.first()?;
        let what = if cover == CoverMode::ReadOnly {
            "change"
        } else {
            "move or remove"
        };
        let shown = first.display().to_string();
        let why = self.before[first].why;
        let allow =
            format!("write = [{shown:?}] under [sandbox] in config.toml. It takes effect at once.");
        if meant.len() == 1 {
            return Some(format!(
                "This is because commands may not {what} {shown}: {why}. The owner can allow it: {allow}"
            ));
        }
        let first_few: Vec<String> = meant
            .iter()
            .take(MAX_NAMED_CHANGES)
            .map(|(path, _)| path.display().to_string())
            .collect();
        let more = match meant.len() - first_few.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!(
            "This is because commands may not {what} a protected path: {why}. The output does not say which of these it \
             is: {}{more}. The owner can allow one, for example: {allow}",
            first_few.join(", ")
        ))
    }
}

/// Returns the length of the path that a line names, if it may be this one: the end of the path, from the folder of its
/// repository at least.
fn named_length(line: &str, path: &Path) -> Option<usize> {
    let end = path_from_git_folder(path);
    let path = path.to_string_lossy();
    let end = end.to_string_lossy();
    let named = line.match_indices(&*end).filter_map(|(at, _)| {
        let after = &line[at + end.len()..];
        let ends_there = !after.starts_with(|c: char| c.is_alphanumeric() || "-_".contains(c));
        // Programs put quotes, blanks and colons around a path.
        let is_before = |c: char| c.is_whitespace() || "'\"`:=(".contains(c);
        let start = at - line[..at].rsplit(is_before).next()?.len();
        let mut name = &line[start..at + end.len()];
        while let Some(rest) = name.strip_prefix("./").or_else(|| name.strip_prefix("../")) {
            name = rest;
        }
        // An absolute path may lead through a link.
        let is_end = path.ends_with(name);
        let length = if is_end { name.len() } else { end.len() };
        (ends_there && (is_end || name.starts_with('/'))).then_some(length)
    });
    named.max()
}

/// Returns the folder in which a command starts git, if it starts nothing else and its words determine the folder.
fn git_start(launch: &CommandLaunch, cwd: &Path) -> Option<PathBuf> {
    let line = match launch {
        CommandLaunch::Shell(text) => read_command_line(text),
        CommandLaunch::Program { command, args } => read_program(command, args),
    };
    if line.changes_folder || line.sets_variables || !line.unanalysed.is_empty() {
        return None;
    }
    let folders = line.commands.iter().map(|command| git_folder(command, cwd));
    let mut folders: BTreeSet<PathBuf> = folders.collect::<Option<_>>()?;
    folders.pop_first().filter(|_| folders.is_empty())
}

/// Returns the folder that the words of a git command name; `None` for another command.
fn git_folder(command: &SimpleCommand, cwd: &Path) -> Option<PathBuf> {
    let mut words = command
        .words
        .iter()
        .map(|word| word.is_literal.then_some(word.text.as_str()));
    let mut folder = cwd.to_owned();
    if words.next()?? != "git" {
        return None;
    }
    loop {
        match words.next()?? {
            "-C" => folder.push(words.next()??),
            option if option.starts_with('-') => return None,
            _ => return folder.canonicalize().ok(),
        }
    }
}

/// Returns the folder from which programs name a path.
fn repository_around(path: &Path) -> &Path {
    let names = path_from_git_folder(path).components().count();
    path.ancestors().nth(names).unwrap_or(path)
}

/// Returns the path as programs name it, from the folder of its repository: `.git/config` for `/work/.git/config`.
fn path_from_git_folder(path: &Path) -> PathBuf {
    let names: Vec<_> = path.components().collect();
    let git = names.iter().position(|name| name.as_os_str() == ".git");
    names[git.unwrap_or(names.len().saturating_sub(1))..]
        .iter()
        .collect()
}
