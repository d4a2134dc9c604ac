//! The `.gitignore` files on the way to an entry, with git's precedence. Not here: other files of rules, which a
//! snapshot does not heed, because more is then covered.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::Gitignore;
use punie_host::ignore_rules::RulesCache;

/// The rules of one folder.
#[derive(Debug)]
pub(super) struct RulesLevel {
    pub rules: Arc<Gitignore>,
    /// The folder, as a path from the top of the snapshot; `None` if it is above that.
    pub folder: Option<PathBuf>,
    /// From the folder to the top of the snapshot, for one above it.
    pub to_top: PathBuf,
}

/// Returns whether the nearest rule ignores a path, whose folders are not ignored.
pub(super) fn is_ignored(levels: &[RulesLevel], path: &Path, is_folder: bool) -> bool {
    for level in levels.iter().rev() {
        let found = match &level.folder {
            Some(folder) => path
                .strip_prefix(folder)
                .map_or(Match::None, |path| level.rules.matched(path, is_folder)),
            None => level.rules.matched(level.to_top.join(path), is_folder),
        };
        match found {
            Match::None => {}
            found => return found.is_ignore(),
        }
    }
    false
}

/// The rules of the folders above one that lies in a repository; none where there is no repository.
pub(super) fn read_levels_above(top: &Path, rules: &RulesCache) -> Vec<RulesLevel> {
    let Some(repository) = find_repository_above(top) else {
        return Vec::new();
    };
    let mut levels: Vec<RulesLevel> = top
        .ancestors()
        .skip(1)
        .take_while(|folder| folder.starts_with(repository))
        .filter_map(|folder| {
            Some(RulesLevel {
                rules: rules.load_rules_at(&folder.join(".gitignore"))?,
                folder: None,
                to_top: top.strip_prefix(folder).ok()?.to_owned(),
            })
        })
        .collect();
    levels.reverse();
    levels
}

/// Finds the repository in which a folder lies that is none itself.
pub(super) fn find_repository_above(top: &Path) -> Option<&Path> {
    if top.join(".git").symlink_metadata().is_ok() {
        return None;
    }
    top.ancestors()
        .skip(1)
        .find(|folder| folder.join(".git").symlink_metadata().is_ok())
}
