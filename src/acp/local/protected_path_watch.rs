//! Watches the workspaces' protected paths for a command: those that exist at its start, which it sees read-only, and
//! those that appeared or changed while it ran. Not here: the protected paths and how each is covered
//! (protected_paths), mounting them read-only (the sandbox), and the programs that a git configuration runs
//! (git_config).
//!
//! It scans the workspaces' folders, the folders from there to the command's working folder, and the repositories in
//! a workspace. A scan of everything would cost more than most commands.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::folder_scan::{FolderScan, MAX_SCANNED_ENTRIES, ScanExtent};
use super::git_config;
use super::known_repositories::KnownRepositories;
use super::protected_path_stamp::PathStamp;
pub(super) use super::protected_paths::CoverMode;
use super::protected_paths::{ProtectedPathScan, ProtectedPathState};
use crate::acp::protected_path;
use crate::sandbox::SandboxRules;

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

/// The protected paths at a command's start.
#[derive(Debug)]
pub(super) struct ProtectedPathWatch {
    roots: Vec<PathBuf>,
    cwd: PathBuf,
    free: Vec<PathBuf>,
    /// The folders that were known to have a repository at the start.
    known: Vec<PathBuf>,
    repositories: KnownRepositories,
    before: BTreeMap<PathBuf, ProtectedPathState>,
}

impl ProtectedPathWatch {
    /// Scans the current paths. Blocks for some tens of system calls. Paths that the owner lets commands write are
    /// left out, and so is the runner's own folder.
    pub fn start_watch(rules: &SandboxRules, cwd: &Path, repositories: &KnownRepositories) -> Self {
        let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
        let roots: Vec<PathBuf> = rules.workspaces.iter().map(real).collect();
        let named = rules
            .write
            .iter()
            .filter(|path| roots.iter().all(|root| !root.starts_with(path)));
        let free = named.chain([&rules.own_home]).cloned().collect();
        let known = repositories.repositories_below(&roots);
        let cwd = real(&cwd.to_owned());
        let repositories = repositories.clone();
        let mut watch = Self {
            roots,
            cwd,
            free,
            known,
            repositories,
            before: BTreeMap::new(),
        };
        watch.before = watch.scan_protected().seen;
        watch.repositories.record_command_start();
        watch
    }

    /// Returns the paths to cover, outer before inner.
    pub fn covered_paths(&self) -> impl Iterator<Item = (&Path, CoverMode)> {
        self.before
            .iter()
            .filter_map(|(path, seen)| Some((path.as_path(), seen.cover?)))
    }

    /// Describes in sentences the paths that appeared or changed since the start, and once those that are unprotected
    /// because there are too many. Blocks like the first scan.
    pub fn describe_changes(&self) -> Vec<String> {
        let ProtectedPathScan {
            seen: mut after,
            limits,
            ..
        } = self.scan_protected();
        // A configuration that runs nothing, such as the URL of a clone, is not reported.
        after.retain(|path, seen| {
            self.before.get(path) == Some(seen) || !is_harmless_change(path, seen)
        });
        let is_new = |path: &Path| after.contains_key(path) && !self.before.contains_key(path);
        let mut told = Vec::new();
        for (path, seen) in &after {
            let ProtectedPathState { why, stamp, .. } = seen;
            let many = match stamp {
                PathStamp::Combined(_) => {
                    ", and there are too many files in it for each to be named"
                }
                _ => "",
            };
            let shown = path.display();
            match self.before.get(path) {
                None if path.ancestors().skip(1).any(is_new) => {}
                None => told.push(format!(
                    "{shown} appeared while this command ran: {why}{many}. The owner should look at it before it is used; \
                     removing it undoes it."
                )),
                Some(before) if before.stamp != seen.stamp => told.push(format!(
                    "{shown} was changed while this command ran: {why}{many}. The owner should look at it before it is used, and \
                     put back what was there; that is not kept."
                )),
                Some(_) => {}
            }
        }
        let more = told.len().saturating_sub(MAX_NAMED_CHANGES);
        told.truncate(MAX_NAMED_CHANGES);
        if more > 0 {
            told.push(format!("The same holds for {more} more protected paths."));
        }
        told.extend(
            self.repositories
                .new_limits(limits)
                .into_iter()
                .take(MAX_NAMED_CHANGES),
        );
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
                 [sandbox] in config.toml."
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

    fn scan_protected(&self) -> ProtectedPathScan<'_> {
        let mut found = ProtectedPathScan::new(&self.free);
        for folder in &self.known {
            found.add_repository(&folder.join(".git"));
        }
        for root in &self.roots {
            let entries = FolderScan::scan_folder(root, MAX_SCANNED_ENTRIES);
            found.add_folder(root, Some(&entries));
            if entries.extent == ScanExtent::Refused {
                found.add_unreadable(root);
            } else if entries.extent == ScanExtent::Cut {
                found.limits.push(format!(
                    "{} holds more than is looked through ({MAX_SCANNED_ENTRIES} entries): repositories among the rest that were \
                     not found before are not protected from commands. One that is a workspace of its own is.",
                    root.display()
                ));
            }
            for child in self.repositories.candidates_among(entries.folders) {
                if found.add_repository(&child.join(".git")) {
                    self.repositories.add_known(&child);
                }
            }
            if self.cwd.starts_with(root) {
                for folder in self.cwd.ancestors().take_while(|folder| *folder != root) {
                    found.add_folder(folder, None);
                }
            }
        }
        found
    }
}

/// Returns whether a new or changed path is a configuration, or a repository with one, by which git runs no program.
fn is_harmless_change(path: &Path, seen: &ProtectedPathState) -> bool {
    let is_told_apart = [protected_path::HOOKS, protected_path::REPOSITORY].contains(&seen.why);
    if seen.cover == Some(CoverMode::InPlace) || seen.stamp == PathStamp::Separate && is_told_apart
    {
        return true; // What is in it is told of by itself, or as a limit.
    }
    let is_config = path.ends_with(".git/config")
        || seen.why == protected_path::GIT && path.ends_with("config");
    is_config && git_config::runs_no_programs(path)
}

/// Returns the path as programs name it, from the folder of its repository: `.git/config` for `/work/.git/config`.
fn path_from_git_folder(path: &Path) -> PathBuf {
    let names: Vec<_> = path.components().collect();
    let git = names.iter().position(|name| name.as_os_str() == ".git");
    names[git.unwrap_or(names.len().saturating_sub(1))..]
        .iter()
        .collect()
}
