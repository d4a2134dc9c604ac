//! Where the repositories of a workspace lie that is a folder of projects, and not one itself: some folders down. Looked
//! for now and then, since it takes more than most commands. Not here: what of them is protected (guarded).
#![expect(clippy::disallowed_methods, reason = "folders are looked at as they are")]

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How far below a workspace they are looked for.
const DEEPEST: usize = 4;
/// How many folders are looked at, and how many repositories are told of.
const MOST_FOLDERS: usize = 2_048;
const MOST: usize = 64;
/// How long what was found holds.
const HOLDS: Duration = Duration::from_secs(10);
/// What is full of folders and holds no projects of one's own.
const PASSED: &[&str] = &["node_modules", "target", "vendor", "site-packages"];

/// What was found last.
#[derive(Debug, Default)]
pub(super) struct Repositories(Mutex<Option<(Instant, Vec<PathBuf>)>>);

impl Repositories {
    /// The folders with a repository below these, but for those directly in them. Blocks where they are looked for anew.
    pub fn below(&self, roots: &[PathBuf]) -> Vec<PathBuf> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((at, found)) if at.elapsed() < HOLDS => found.clone(),
            _ => {
                let found = look(roots);
                *last = Some((Instant::now(), found.clone()));
                found
            }
        }
    }
}

/// The nearer ones first.
fn look(roots: &[PathBuf]) -> Vec<PathBuf> {
    let (mut found, mut left) = (Vec::new(), MOST_FOLDERS);
    // What is in a repository belongs to it.
    let mut level: Vec<PathBuf> = roots.iter().filter(|root| !is_repository(root)).cloned().collect();
    for depth in 1..=DEEPEST {
        let mut next = Vec::new();
        for folder in level.iter().flat_map(|folder| folders_in(folder)) {
            if left == 0 || found.len() == MOST {
                return found;
            }
            left -= 1;
            match is_repository(&folder) {
                true if depth > 1 => found.push(folder),
                true => {}
                false => next.push(folder),
            }
        }
        level = next;
    }
    found
}

fn is_repository(folder: &Path) -> bool {
    folder.join(".git").symlink_metadata().is_ok()
}

fn folders_in(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let is_passed = |name: &str| name.starts_with('.') || PASSED.contains(&name);
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter(move |entry| !is_passed(&entry.file_name().to_string_lossy()))
        .map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_below_folders_of_projects_are_found_and_what_is_in_one_belongs_to_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().to_owned();
        for made in [
            "near/.git",
            "org/one/.git",
            "org/one/inner/.git",
            "host/org/two/.git",
            "a/b/c/d/e/.git",
            "js/node_modules/x/.git",
            ".hidden/x/.git",
            "repository/.git",
            "repository/sub/x/.git",
        ] {
            std::fs::create_dir_all(root.join(made)).expect("made");
        }
        let repositories = Repositories::default();
        let mut found = repositories.below(&[root.clone(), root.join("repository")]);
        found.sort();
        assert_eq!(found, [root.join("host/org/two"), root.join("org/one")]);
        std::fs::create_dir_all(root.join("org/new/.git")).expect("made");
        assert_eq!(repositories.below(&[root]).len(), 2, "it holds for a while");
    }
}
