//! Watches the workspaces' protected paths for a command: those that exist at its start, which it sees read-only, and
//! those that appeared or changed while it ran. Not here: the protected paths and how each is covered
//! (protected_paths), mounting them read-only (the sandbox), and the programs that a git configuration runs
//! (git_config).
//!
//! It scans the workspaces' folders, the folders from there to the command's working folder, and the repositories in
//! a workspace. A scan of everything would cost more than most commands.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::entries::{Entries, Extent, MOST_ENTRIES};
use super::git_config;
pub(super) use super::protected_paths::Cover;
use super::protected_paths::{Found, Seen, Stamp};
use super::repositories::Repositories;
use crate::acp::protected;
use crate::sandbox::Rules;

/// The number of changes that are named.
const MOST_NAMED: usize = 5;
/// The bytes at the end of an output that are examined.
const TAIL: usize = 8_000;
/// The system's error texts for a path that is read-only to a command, or must stay in its place.
const REFUSED: &[&str] = &["Read-only file system", "Device or resource busy", "EROFS", "EBUSY"];

/// The protected paths at a command's start.
#[derive(Debug)]
pub(super) struct Watch {
    roots: Vec<PathBuf>,
    cwd: PathBuf,
    free: Vec<PathBuf>,
    /// The folders that were known to have a repository at the start.
    known: Vec<PathBuf>,
    repositories: Repositories,
    before: BTreeMap<PathBuf, Seen>,
}

impl Watch {
    /// Scans the current paths. Blocks for some tens of system calls. Paths that the owner lets commands write are
    /// left out, and so is the runner's own folder.
    pub fn begin(rules: &Rules, cwd: &Path, repositories: &Repositories) -> Self {
        let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
        let roots: Vec<PathBuf> = rules.workspaces.iter().map(real).collect();
        let named = rules.write.iter().filter(|path| roots.iter().all(|root| !root.starts_with(path)));
        let free = named.chain([&rules.own_home]).cloned().collect();
        let known = repositories.below(&roots);
        let cwd = real(&cwd.to_owned());
        let repositories = repositories.clone();
        let mut watch = Self { roots, cwd, free, known, repositories, before: BTreeMap::new() };
        watch.before = watch.look().seen;
        watch.repositories.command_comes();
        watch
    }

    /// Returns the paths to cover, outer before inner.
    pub fn covers(&self) -> impl Iterator<Item = (&Path, Cover)> {
        self.before.iter().filter_map(|(path, seen)| Some((path.as_path(), seen.cover?)))
    }

    /// Describes in sentences the paths that appeared or changed since the start, and once those that are unprotected
    /// because there are too many. Blocks like the first scan.
    pub fn changes(&self) -> Vec<String> {
        let Found { seen: mut after, limits, .. } = self.look();
        // A configuration that runs nothing, such as the URL of a clone, is not reported.
        after.retain(|path, seen| self.before.get(path) == Some(seen) || !is_plain(path, seen));
        let is_new = |path: &Path| after.contains_key(path) && !self.before.contains_key(path);
        let mut told = Vec::new();
        for (path, seen) in &after {
            let Seen { why, stamp, .. } = seen;
            let many = match stamp {
                Stamp::Many(_) => ", and there are too many files in it for each to be named",
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
        let more = told.len().saturating_sub(MOST_NAMED);
        told.truncate(MOST_NAMED);
        if more > 0 {
            told.push(format!("The same holds for {more} more protected paths."));
        }
        told.extend(self.repositories.news_of(limits).into_iter().take(MOST_NAMED));
        told
    }

    /// Explains why a command may have failed: a covered path that its output names, with the setting that would
    /// allow it.
    pub fn refused(&self, output: &str) -> Option<String> {
        let mut from = output.len().saturating_sub(TAIL);
        while !output.is_char_boundary(from) {
            from += 1;
        }
        let lines = output[from..].lines().rev();
        let mut complaints = lines.filter(|line| REFUSED.iter().any(|word| line.contains(word)));
        complaints.find_map(|line| {
            let (path, cover) = self
                .covers()
                .filter_map(|(path, cover)| Some((self.named_in(line, path)?, path, cover)))
                .max_by_key(|(how, ..)| *how)
                .map(|(_, path, cover)| (path, cover))?;
            let what = if cover == Cover::ReadOnly { "change" } else { "move or remove" };
            let (shown, why) = (path.display().to_string(), self.before[path].why);
            Some(format!(
                "This is because commands may not {what} {shown}: {why}. The owner can allow it: write = [{shown:?}] under \
                 [sandbox] in config.toml."
            ))
        })
    }

    /// Rates how surely a line means this path, if it names it. The whole path counts most, then the length of the
    /// part named, then whether the command started there.
    fn named_in(&self, line: &str, path: &Path) -> Option<(bool, usize, bool, usize)> {
        let end = path_from_its_folder(path);
        let folder = path.ancestors().nth(end.components().count())?;
        let whole = line.contains(&*path.to_string_lossy());
        let short = end.to_string_lossy();
        line.contains(&*short)
            .then(|| (whole, short.len(), self.cwd.starts_with(folder), folder.components().count()))
    }

    fn look(&self) -> Found<'_> {
        let mut found = Found::new(&self.free);
        for folder in &self.known {
            found.repository(&folder.join(".git"));
        }
        for root in &self.roots {
            let entries = Entries::of(root, MOST_ENTRIES);
            found.folder(root, Some(&entries));
            if entries.extent == Extent::Refused {
                found.closed(root);
            } else if entries.extent == Extent::Cut {
                found.limits.push(format!(
                    "{} holds more than is looked through ({MOST_ENTRIES} entries): repositories among the rest that were \
                     not found before are not protected from commands. One that is a workspace of its own is.",
                    root.display()
                ));
            }
            for child in self.repositories.among(entries.folders) {
                if found.repository(&child.join(".git")) {
                    self.repositories.keep(&child);
                }
            }
            if self.cwd.starts_with(root) {
                for folder in self.cwd.ancestors().take_while(|folder| *folder != root) {
                    found.folder(folder, None);
                }
            }
        }
        found
    }
}

/// Returns whether a new or changed path is a configuration, or a repository with one, by which git runs no program.
fn is_plain(path: &Path, seen: &Seen) -> bool {
    let is_told_apart = [protected::HOOKS, protected::REPOSITORY].contains(&seen.why);
    if seen.cover == Some(Cover::InPlace) || seen.stamp == Stamp::Apart && is_told_apart {
        return true; // What is in it is told of by itself, or as a limit.
    }
    let is_config = path.ends_with(".git/config") || seen.why == protected::GIT && path.ends_with("config");
    is_config && git_config::runs_nothing(path)
}

/// Returns the path as programs name it, from the folder of its repository: `.git/config` for `/work/.git/config`.
fn path_from_its_folder(path: &Path) -> PathBuf {
    let names: Vec<_> = path.components().collect();
    let git = names.iter().position(|name| name.as_os_str() == ".git");
    names[git.unwrap_or(names.len().saturating_sub(1))..].iter().collect()
}
