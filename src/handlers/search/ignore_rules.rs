//! Ignore rules: .ignore, .gitignore, .git/info/exclude and the user's own git ignore file, with git's precedence.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, Glob};

use super::folder::SearchFolder;
use super::folder_entries::WalkEntryKind;
use punie_host::ignore_rules::RulesCache;

/// The rules that apply in a folder.
#[derive(Debug, Clone)]
pub(super) struct IgnoreRules {
    nearest: Option<Arc<RulesLevel>>,
    user: Option<Arc<Gitignore>>,
    known: Arc<RulesCache>,
}

/// The rules of one folder, for paths relative to it. Most folders have none and need no level.
#[derive(Debug)]
struct RulesLevel {
    ignore: Option<Arc<Gitignore>>,
    git: Option<Arc<Gitignore>>,
    exclude: Option<Arc<Gitignore>>,
    /// The length of the path prefix that leads to the folder.
    base: usize,
    /// It lies above the searched folder, so paths are matched as absolute ones.
    above: bool,
    /// A repository begins here, so git's rules from parent folders do not apply.
    repository: bool,
    up: Option<Arc<RulesLevel>>,
}

/// The entries of a folder that concern ignore rules.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RuleFiles {
    pub(super) ignore: bool,
    pub(super) git_ignore: bool,
    /// `.git` itself: a folder, or the file that a linked work tree has instead.
    pub(super) git: Option<WalkEntryKind>,
}

impl IgnoreRules {
    /// Reads the rules of the parent folders and of the user. Nothing else is read there.
    pub(super) fn from_parents(root: &Path, user: Option<&Path>) -> Self {
        let known = Arc::new(RulesCache::default());
        let mut folders: Vec<&Path> = root.ancestors().skip(1).collect();
        folders.reverse();
        let mut nearest = None;
        for folder in folders {
            let read = |name: &str| known.load_rules_at(&folder.join(name));
            let ignore = read(".ignore");
            let git = read(".gitignore");
            let repository = folder.join(".git").symlink_metadata().is_ok();
            if ignore.is_none() && git.is_none() && !repository {
                continue;
            }
            nearest = Some(Arc::new(RulesLevel {
                ignore,
                git,
                exclude: read(".git/info/exclude"),
                base: prefix_len(folder),
                above: true,
                repository,
                up: nearest,
            }));
        }
        // For the user's file, git anchors patterns at the top of the repository.
        let user = user.and_then(|file| known.load_rules_at(file));
        Self {
            nearest,
            user,
            known,
        }
    }

    /// Returns the rules in a subfolder, whose path relative to the searched folder is `rel`.
    pub(super) fn with_folder(&self, rel: &Path, folder: &SearchFolder, signs: RuleFiles) -> Self {
        let repository = signs.git.is_some();
        if !signs.ignore && !signs.git_ignore && !repository {
            return self.clone();
        }
        let read = |there: bool, name: &str| {
            let file = there.then(|| folder.open_file(name.as_ref()).ok())??;
            self.known.load_rules(file)
        };
        let exclude = || {
            let info = folder
                .open_subfolder(".git".as_ref())
                .and_then(|git| git.open_subfolder("info".as_ref()))
                .ok()?;
            let file = info.open_file("exclude".as_ref()).ok()?;
            self.known.load_rules(file)
        };
        let level = RulesLevel {
            ignore: read(signs.ignore, ".ignore"),
            git: read(signs.git_ignore, ".gitignore"),
            exclude: signs
                .git
                .filter(|kind| *kind == WalkEntryKind::Folder)
                .and_then(|_| exclude()),
            base: prefix_len(rel),
            above: false,
            repository,
            up: self.nearest.clone(),
        };
        Self {
            nearest: Some(Arc::new(level)),
            user: self.user.clone(),
            known: Arc::clone(&self.known),
        }
    }

    /// Returns whether a path is ignored, given that its parent folders are not.
    pub(super) fn is_ignored<'a>(&'a self, root: &Path, rel: &Path, folder: bool) -> bool {
        let absolute: OnceCell<PathBuf> = OnceCell::new();
        let mut git = Match::None;
        let mut exclude = Match::None;
        let mut outside = false;
        let mut next = self.nearest.as_ref();
        while let Some(level) = next {
            let path = if level.above {
                absolute.get_or_init(|| root.join(rel))
            } else {
                rel
            };
            let path = skip_prefix(path, level.base);
            let says = |rules: &'a Option<Arc<Gitignore>>| {
                rules
                    .as_ref()
                    .map_or(Match::None, |rules| rules.matched(path, folder))
            };
            // The nearest decision of an .ignore file overrides all git rules.
            match says(&level.ignore) {
                Match::None => {}
                decision => return decision.is_ignore(),
            }
            if !outside {
                git = first_decision(git, || says(&level.git));
                exclude = first_decision(exclude, || says(&level.exclude));
            }
            outside |= level.repository;
            next = level.up.as_ref();
        }
        let user = || {
            self.user
                .as_ref()
                .map_or(Match::None, |user| user.matched(rel, folder))
        };
        first_decision(first_decision(git, || exclude), user).is_ignore()
    }
}

fn first_decision<'a>(
    decision: Match<&'a Glob>,
    next: impl FnOnce() -> Match<&'a Glob>,
) -> Match<&'a Glob> {
    if decision.is_none() { next() } else { decision }
}

/// Returns the length of the path prefix that entries of a folder share.
fn prefix_len(folder: &Path) -> usize {
    folder.join("x").as_os_str().len() - 1
}

/// Skips the first `base` bytes of a path, which end with a separator.
#[cfg(unix)]
fn skip_prefix(path: &Path, base: usize) -> &Path {
    use std::os::unix::ffi::OsStrExt;
    Path::new(std::ffi::OsStr::from_bytes(
        path.as_os_str().as_bytes().get(base..).unwrap_or_default(),
    ))
}

/// Skips the first `base` bytes of a path, which end with a separator.
#[cfg(not(unix))]
fn skip_prefix(path: &Path, base: usize) -> &Path {
    path.ancestors()
        .find(|folder| prefix_len(folder) == base)
        .and_then(|folder| path.strip_prefix(folder).ok())
        .unwrap_or(path)
}
