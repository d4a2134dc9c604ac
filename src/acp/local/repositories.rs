//! Which repositories lie in the workspaces. One that was found is known for the runner's life, whatever a command puts
//! before it; in a workspace that is a folder of projects, and not one itself, they are looked for some folders down, now
//! and then, since it takes more than most commands. Not here: what of them is protected (protected_paths).

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::entries::{Entries, Extent, MOST_ENTRIES};
use crate::sandbox::is_absent;

/// How far below a workspace they are looked for.
const DEEPEST: usize = 4;
/// How many folders are looked at below those directly in a workspace, and how many repositories are known.
const MOST_FOLDERS: usize = 4_096;
const MOST: usize = 512;
/// So many folders in a workspace are all looked at for each command, since it takes less than to remember them.
const FEW: usize = 256;
/// How long it holds that no repository was found somewhere.
const HOLDS: Duration = Duration::from_secs(10);
/// What is full of folders and holds no projects of one's own.
const PASSED: &[&str] = &["node_modules", "target", "vendor", "site-packages"];

/// Those that were found. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Repositories(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    /// The folders with a repository, in the order in which they were found.
    folders: Vec<PathBuf>,
    members: HashSet<PathBuf>,
    /// How many of them were there before any command ran.
    first: Option<usize>,
    /// Where there was none, among the many folders of a workspace.
    without: HashSet<PathBuf>,
    looked: Option<Instant>,
    /// What the last look left out.
    limits: BTreeSet<String>,
    said: BTreeSet<String>,
}

impl Repositories {
    /// The folders with a repository that are known, with what is found below these folders. Blocks where they are looked
    /// for anew.
    pub fn below(&self, roots: &[PathBuf]) -> Vec<PathBuf> {
        let mut known = self.lock();
        if known.looked.is_none_or(|at| at.elapsed() >= HOLDS) {
            known.begin_anew();
            known.look(roots);
            known.looked = Some(Instant::now());
        }
        known.folders.clone()
    }

    /// Those of the folders in a workspace that may hold a repository.
    pub fn among(&self, folders: Vec<PathBuf>) -> Vec<PathBuf> {
        if folders.len() <= FEW {
            return folders;
        }
        let mut known = self.lock();
        folders.into_iter().filter(|folder| known.is_one_of_many(folder)).collect()
    }

    /// This folder has one.
    pub fn keep(&self, folder: &Path) {
        self.lock().keep(folder);
    }

    /// A command is about to run: what is known by now came before all of them.
    pub fn command_comes(&self) {
        let mut known = self.lock();
        let count = known.folders.len();
        known.first.get_or_insert(count);
    }

    /// What of these limits, and of those met here, was not so when this was asked last.
    pub fn news_of(&self, limits: impl IntoIterator<Item = String>) -> Vec<String> {
        let mut known = self.lock();
        let now: BTreeSet<String> = known.limits.iter().cloned().chain(limits).collect();
        let news = now.difference(&known.said).cloned().collect();
        known.said = now;
        news
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn begin_anew(&mut self) {
        self.without.clear();
        self.limits.clear();
        if self.folders.len() < MOST {
            return;
        }
        // Of those that were there before any command a command may move one away and back again.
        let (first, mut number) = (self.first.unwrap_or(MOST), 0);
        self.folders.retain(|folder| {
            number += 1;
            number <= first || may_hold(folder)
        });
        self.members = self.folders.iter().cloned().collect();
    }

    /// The nearer ones first.
    fn look(&mut self, roots: &[PathBuf]) {
        // What is in a repository belongs to it.
        let mut level: Vec<PathBuf> = roots.iter().filter(|root| !may_hold(root)).cloned().collect();
        let mut left = MOST_FOLDERS;
        for depth in 1..=DEEPEST {
            let mut next = Vec::new();
            for folder in level {
                let Entries { folders, extent, .. } = Entries::of(&folder, MOST_ENTRIES);
                if extent == Extent::Refused {
                    self.limits.insert(format!(
                        "{} cannot be listed: repositories in it that were not found before are not protected from \
                         commands.",
                        folder.display()
                    ));
                }
                // Those directly in a workspace are few, or too many to begin with.
                let cost = usize::from(depth > 1);
                for child in folders.into_iter().filter(|child| !is_passed(child)) {
                    if left < cost {
                        return self.is_incomplete();
                    }
                    left -= cost;
                    if !may_hold(&child) {
                        self.without.insert(child.clone());
                        next.push(child);
                    } else if !self.keep(&child) {
                        return;
                    }
                }
                if extent == Extent::Cut || left == 0 {
                    return self.is_incomplete();
                }
                left -= 1;
            }
            level = next;
        }
    }

    /// Whether it is to be looked at now; so many are not looked at each time.
    fn is_one_of_many(&mut self, folder: &Path) -> bool {
        if self.without.contains(folder) {
            return false;
        }
        if self.members.contains(folder) || may_hold(folder) {
            return self.keep(folder);
        }
        self.without.insert(folder.to_owned());
        false
    }

    /// Whether it is known from now on.
    fn keep(&mut self, folder: &Path) -> bool {
        if self.members.contains(folder) {
            return true;
        }
        if self.folders.len() == MOST {
            self.limits.insert(format!(
                "The workspaces hold more repositories than are kept in mind ({MOST}): those found last are not protected \
                 from commands. One that is a workspace of its own is."
            ));
            return false;
        }
        self.members.insert(folder.to_owned());
        self.folders.push(folder.to_owned());
        true
    }

    fn is_incomplete(&mut self) {
        self.limits.insert(format!(
            "The workspaces hold more folders than are looked through for repositories ({MOST_FOLDERS} below those directly \
                 in them): repositories in the rest are not protected from commands. One that is a workspace of its own is."
        ));
    }
}

/// Whether a folder has a repository, as far as that can be told.
fn may_hold(folder: &Path) -> bool {
    folder.join(".git").symlink_metadata().map_or_else(|cause| !is_absent(&cause), |_| true)
}

fn is_passed(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with('.') || PASSED.contains(&&*name)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "folders are laid out")]
mod tests {
    use super::*;

    fn make(root: &Path, folders: impl IntoIterator<Item = String>) {
        for folder in folders {
            std::fs::create_dir_all(root.join(folder)).expect("made");
        }
    }

    /// As after a while.
    fn later(repositories: &Repositories) {
        repositories.lock().looked = None;
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
        let repositories = Repositories::default();
        let mut found = repositories.below(&[root.clone(), root.join("repository")]);
        found.sort();
        assert_eq!(found, ["host/org/two", "near", "org/one", "repository"].map(|name| root.join(name)));
        make(&root, ["org/new/.git".to_owned()]);
        assert_eq!(repositories.below(std::slice::from_ref(&root)).len(), 4, "it holds for a while");
        later(&repositories);
        assert_eq!(repositories.below(&[root]).len(), 5, "and not for ever");
    }

    #[test]
    fn one_that_was_there_before_any_command_stays_known_whatever_comes_later() {
        let folder = tempfile::tempdir().expect("a folder");
        let roots = [folder.path().to_owned()];
        let (real, away) = (roots[0].join("host/a/b"), roots[0].join("away"));
        make(&real, [".git".to_owned()]);
        let repositories = Repositories::default();
        assert_eq!(repositories.below(&roots), std::slice::from_ref(&real));
        repositories.command_comes();
        assert_eq!(repositories.news_of([]), [""; 0]);
        std::fs::rename(&real, &away).expect("moved");
        make(&roots[0], (0..=MOST).map(|number| format!("00/r{number}/.git")));
        for _ in 0..2 {
            later(&repositories);
            let found = repositories.below(&roots);
            assert_eq!((found.len(), found.contains(&real)), (MOST, true));
        }
        let news = repositories.news_of([]);
        assert!(news.len() == 1 && news[0].contains("not protected"), "{news:?}");
        assert_eq!(repositories.news_of([]), [""; 0], "it is said once");
        // What came later makes room once it is gone.
        std::fs::remove_dir_all(roots[0].join("00")).expect("removed");
        later(&repositories);
        assert_eq!(repositories.below(&roots), [real, away]);
        assert_eq!(repositories.news_of(["one more".to_owned()]), ["one more"]);
    }

    #[test]
    fn among_very_many_folders_a_new_one_is_looked_at_at_once_and_another_after_a_while() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().to_owned();
        make(&root, (0..=FEW).map(|number| number.to_string()).chain([".git".to_owned()]));
        let repositories = Repositories::default();
        let look = || {
            repositories.below(std::slice::from_ref(&root));
            repositories.among(Entries::of(&root, MOST_ENTRIES).folders)
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
        make(&root, (0..MOST_FOLDERS).map(|number| format!("a/{number}")));
        let repositories = Repositories::default();
        repositories.below(std::slice::from_ref(&root));
        assert_eq!(repositories.news_of([]).len(), 1);
    }
}
