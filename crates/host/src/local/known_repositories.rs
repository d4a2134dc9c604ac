//! Finds the repositories in the workspaces. A repository once found stays known while the runner runs, whatever
//! commands add later. A workspace that is not a repository itself is searched some folders down. The search runs at
//! intervals, because it takes longer than most commands.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::folder_scan::{FolderScan, MAX_SCANNED_ENTRIES, ScanExtent};
use punie_sandbox::is_absent;

/// The depth below a workspace to which repositories are searched.
const MAX_DEPTH: usize = 4;
/// The number of folders searched below a workspace's direct subfolders, and the number of repositories remembered.
const MAX_FOLDERS: usize = 4_096;
const MAX_REPOSITORIES: usize = 512;
/// Up to so many folders of a workspace are examined for every command, which is cheaper than a cache.
const MAX_UNCACHED_FOLDERS: usize = 256;
/// The time for which a search without a result is valid.
const SEARCH_INTERVAL: Duration = Duration::from_secs(10);
/// Folders with many subfolders and none of the user's own projects.
const SKIPPED_FOLDERS: &[&str] = &["node_modules", "target", "vendor", "site-packages"];

/// The repositories found so far. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownRepositories(Arc<Mutex<RepositoryCache>>);

#[derive(Debug, Default)]
struct RepositoryCache {
    /// The folders with a repository, in the order in which they were found.
    folders: Vec<PathBuf>,
    members: HashSet<PathBuf>,
    /// The number of repositories found before any command ran.
    first: Option<usize>,
    /// Folders without a repository, among the many folders of a workspace.
    without: HashSet<PathBuf>,
    looked: Option<Instant>,
    /// Descriptions of the places that the last search left out.
    limits: BTreeSet<String>,
    said: BTreeSet<String>,
}

impl KnownRepositories {
    /// Returns the folders with a repository: those known, and those found below these roots. Blocks while it
    /// searches.
    pub fn below(&self, roots: &[PathBuf]) -> Vec<PathBuf> {
        let mut known = self.0.lock();
        if known
            .looked
            .is_none_or(|at| at.elapsed() >= SEARCH_INTERVAL)
        {
            known.reset_search();
            known.search_roots(roots);
            known.looked = Some(Instant::now());
        }
        known.folders.clone()
    }

    /// Returns those of a workspace's folders that may have a repository.
    pub fn candidates_among(&self, folders: Vec<PathBuf>) -> Vec<PathBuf> {
        if folders.len() <= MAX_UNCACHED_FOLDERS {
            return folders;
        }
        let mut known = self.0.lock();
        folders
            .into_iter()
            .filter(|folder| known.check_one_of_many(folder))
            .collect()
    }

    pub fn add(&self, folder: &Path) {
        self.0.lock().remember(folder);
    }

    /// Records that a command is about to run: repositories known by now existed before all commands.
    pub fn record_command_start(&self) {
        let mut known = self.0.lock();
        let count = known.folders.len();
        known.first.get_or_insert(count);
    }

    /// Returns those of these limits, and of the search's own, that were not in force at the last call.
    pub fn new_limits(&self, limits: impl IntoIterator<Item = String>) -> Vec<String> {
        let mut known = self.0.lock();
        let now: BTreeSet<String> = known.limits.iter().cloned().chain(limits).collect();
        let news = now.difference(&known.said).cloned().collect();
        known.said = now;
        news
    }
}

impl RepositoryCache {
    fn reset_search(&mut self) {
        self.without.clear();
        self.limits.clear();
        if self.folders.len() < MAX_REPOSITORIES {
            return;
        }
        // A repository from before any command must stay known, because a command may move it away and back.
        let first = self.first.unwrap_or(MAX_REPOSITORIES);
        let mut number = 0;
        self.folders.retain(|folder| {
            number += 1;
            number <= first || may_have_repository(folder)
        });
        self.members = self.folders.iter().cloned().collect();
    }

    /// Searches the roots, nearer folders first.
    fn search_roots(&mut self, roots: &[PathBuf]) {
        // A repository within a repository belongs to it.
        let mut level: Vec<PathBuf> = roots
            .iter()
            .filter(|root| !may_have_repository(root))
            .cloned()
            .collect();
        let mut left = MAX_FOLDERS;
        for depth in 1..=MAX_DEPTH {
            let mut next = Vec::new();
            for folder in level {
                let FolderScan {
                    folders, extent, ..
                } = FolderScan::scan_folder(&folder, MAX_SCANNED_ENTRIES);
                if extent == ScanExtent::Refused {
                    self.limits.insert(format!(
                        "{} cannot be listed: repositories in it that were not found before are not protected from \
                         commands.",
                        folder.display()
                    ));
                }
                // Direct subfolders of a workspace cost nothing: they are few, or too many to begin with.
                let cost = usize::from(depth > 1);
                for child in folders
                    .into_iter()
                    .filter(|child| !is_skipped_folder(child))
                {
                    if left < cost {
                        return self.record_incomplete();
                    }
                    left -= cost;
                    if !may_have_repository(&child) {
                        self.without.insert(child.clone());
                        next.push(child);
                    } else if !self.remember(&child) {
                        return;
                    }
                }
                if extent == ScanExtent::Cut || left == 0 {
                    return self.record_incomplete();
                }
                left -= 1;
            }
            level = next;
        }
    }

    /// Returns whether a folder among many should be examined now.
    fn check_one_of_many(&mut self, folder: &Path) -> bool {
        if self.without.contains(folder) {
            return false;
        }
        if self.members.contains(folder) || may_have_repository(folder) {
            return self.remember(folder);
        }
        self.without.insert(folder.to_owned());
        false
    }

    /// Remembers a repository, and returns whether it is known from now on.
    fn remember(&mut self, folder: &Path) -> bool {
        if self.members.contains(folder) {
            return true;
        }
        if self.folders.len() == MAX_REPOSITORIES {
            self.limits.insert(format!(
                "The workspaces hold more repositories than are kept in mind ({MAX_REPOSITORIES}): those found last are not protected \
                 from commands. One that is a workspace of its own is."
            ));
            return false;
        }
        self.members.insert(folder.to_owned());
        self.folders.push(folder.to_owned());
        true
    }

    fn record_incomplete(&mut self) {
        self.limits.insert(format!(
            "The workspaces hold more folders than are looked through for repositories ({MAX_FOLDERS} below those directly \
                 in them): repositories in the rest are not protected from commands. One that is a workspace of its own is."
        ));
    }
}

/// Returns whether a folder may have a repository; true if unknown.
fn may_have_repository(folder: &Path) -> bool {
    folder
        .join(".git")
        .symlink_metadata()
        .map_or_else(|cause| !is_absent(&cause), |_| true)
}

fn is_skipped_folder(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with('.') || SKIPPED_FOLDERS.contains(&&*name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(root: &Path, folders: impl IntoIterator<Item = String>) {
        for folder in folders {
            std::fs::create_dir_all(root.join(folder)).expect("made");
        }
    }

    /// Makes the last search expire.
    fn later(repositories: &KnownRepositories) {
        repositories.0.lock().looked = None;
    }

    #[test]
    fn those_below_folders_of_projects_are_found_and_what_is_in_one_belongs_to_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().to_owned();
        let made = [
            "near/.git",
            "org/one/.git",
            "org/one/inner/.git",
            "host/org/two/.git",
            "a/b/c/d/e/.git",
            "js/node_modules/x/.git",
            ".hidden/x/.git",
            "repository/.git",
            "repository/sub/x/.git",
        ];
        make(&root, made.map(str::to_owned));
        let repositories = KnownRepositories::default();
        let mut found = repositories.below(&[root.clone(), root.join("repository")]);
        found.sort();
        assert_eq!(
            found,
            ["host/org/two", "near", "org/one", "repository"].map(|name| root.join(name))
        );
        make(&root, ["org/new/.git".to_owned()]);
        assert_eq!(
            repositories.below(std::slice::from_ref(&root)).len(),
            4,
            "it holds for a while"
        );
        later(&repositories);
        assert_eq!(repositories.below(&[root]).len(), 5, "and not for ever");
    }

    #[test]
    fn one_that_was_there_before_any_command_stays_known_whatever_comes_later() {
        let folder = tempfile::tempdir().expect("a folder");
        let roots = [folder.path().to_owned()];
        let real = roots[0].join("host/a/b");
        let away = roots[0].join("away");
        make(&real, [".git".to_owned()]);
        let repositories = KnownRepositories::default();
        assert_eq!(repositories.below(&roots), std::slice::from_ref(&real));
        repositories.record_command_start();
        assert_eq!(repositories.new_limits([]), [""; 0]);
        std::fs::rename(&real, &away).expect("moved");
        make(
            &roots[0],
            (0..=MAX_REPOSITORIES).map(|number| format!("00/r{number}/.git")),
        );
        for _ in 0..2 {
            later(&repositories);
            let found = repositories.below(&roots);
            assert_eq!(
                (found.len(), found.contains(&real)),
                (MAX_REPOSITORIES, true)
            );
        }
        let news = repositories.new_limits([]);
        assert!(
            news.len() == 1 && news[0].contains("not protected"),
            "{news:?}"
        );
        assert_eq!(repositories.new_limits([]), [""; 0], "it is said once");
        // Later repositories are dropped once they are gone.
        std::fs::remove_dir_all(roots[0].join("00")).expect("removed");
        later(&repositories);
        assert_eq!(repositories.below(&roots), [real, away]);
        assert_eq!(
            repositories.new_limits(["one more".to_owned()]),
            ["one more"]
        );
    }

    #[test]
    fn among_very_many_folders_a_new_one_is_looked_at_at_once_and_another_after_a_while() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().to_owned();
        make(
            &root,
            (0..=MAX_UNCACHED_FOLDERS)
                .map(|number| number.to_string())
                .chain([".git".to_owned()]),
        );
        let repositories = KnownRepositories::default();
        let look = || {
            repositories.below(std::slice::from_ref(&root));
            repositories
                .candidates_among(FolderScan::scan_folder(&root, MAX_SCANNED_ENTRIES).folders)
        };
        assert!(look().is_empty());
        make(&root, ["7/.git".to_owned(), "new/.git".to_owned()]);
        assert_eq!(look(), [root.join("new")]);
        later(&repositories);
        assert_eq!(look().len(), 2);
    }

    #[test]
    fn where_there_are_too_many_folders_that_is_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().to_owned();
        make(&root, (0..MAX_FOLDERS).map(|number| format!("a/{number}")));
        let repositories = KnownRepositories::default();
        repositories.below(std::slice::from_ref(&root));
        assert_eq!(repositories.new_limits([]).len(), 1);
    }
}
