//! Which names are ignored: .ignore, .gitignore, .git/info/exclude and the user's own git ignore file, with git's
//! precedence. Not here: hidden names and file types (scope).

use std::cell::OnceCell;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder, Glob};

use super::folder::{Folder, open_rules};
use super::listing::Kind;

/// A file with rules is read up to here; what comes after is no rule that a person wrote.
const MAX_RULES: u64 = 1 << 20;

/// The rules that hold in a folder.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    nearest: Option<Arc<Level>>,
    user: Option<Arc<Gitignore>>,
}

/// One folder's rules. Most folders have none and so no level.
#[derive(Debug)]
struct Level {
    ignore: Gitignore,
    git: Gitignore,
    exclude: Gitignore,
    /// Its rules are about absolute paths: it lies above the searched folder.
    above: bool,
    /// A repository begins here, so git's rules from further up do not hold.
    repository: bool,
    up: Option<Arc<Level>>,
}

/// What a folder has that matters here.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Signs {
    pub(super) ignore: bool,
    pub(super) git_ignore: bool,
    /// `.git` itself: a folder, or the file that a work tree has in its place.
    pub(super) git: Option<Kind>,
}

impl Rules {
    /// The rules that come from above a folder, and the user's own. They are read; nothing else out there is.
    pub(super) fn above(root: &Path, user: Option<&Path>) -> Self {
        let mut levels = Vec::new();
        for folder in root.ancestors().skip(1) {
            let read = |name: &str| open_rules(&folder.join(name)).map(|file| rules_of(folder, file));
            let git = folder.join(".git");
            let repository = git.symlink_metadata().is_ok();
            let exclude = open_rules(&git.join("info/exclude")).map(|file| rules_of(folder, file));
            levels.push((read(".ignore"), read(".gitignore"), exclude, repository));
        }
        let mut nearest = None;
        for (ignore, git, exclude, repository) in levels.into_iter().rev() {
            if ignore.is_none() && git.is_none() && !repository {
                continue;
            }
            let or_none = Option::unwrap_or_else;
            nearest = Some(Arc::new(Level {
                ignore: or_none(ignore, Gitignore::empty),
                git: or_none(git, Gitignore::empty),
                exclude: or_none(exclude, Gitignore::empty),
                above: true,
                repository,
                up: nearest,
            }));
        }
        // Git takes an anchored pattern of the user's file from the top of the repository.
        let user = user.and_then(open_rules).map(|file| Arc::new(rules_of(Path::new(""), file)));
        Self { nearest, user }
    }

    /// The rules in a folder below, whose path from the searched folder is `rel`.
    pub(super) fn below(&self, rel: &Path, folder: &Folder, signs: Signs) -> Self {
        let repository = signs.git.is_some();
        if !signs.ignore && !signs.git_ignore && !repository {
            return self.clone();
        }
        let read = |there: bool, name: &str| {
            let file = there.then(|| folder.open_file(name.as_ref()).ok()).flatten();
            file.map_or_else(Gitignore::empty, |file| rules_of(rel, file))
        };
        let exclude = || {
            let info = folder.enter(".git".as_ref()).and_then(|git| git.enter("info".as_ref())).ok()?;
            Some(rules_of(rel, info.open_file("exclude".as_ref()).ok()?))
        };
        let level = Level {
            ignore: read(signs.ignore, ".ignore"),
            git: read(signs.git_ignore, ".gitignore"),
            exclude: signs
                .git
                .filter(|kind| *kind == Kind::Folder)
                .and_then(|_| exclude())
                .unwrap_or_else(Gitignore::empty),
            above: false,
            repository,
            up: self.nearest.clone(),
        };
        Self { nearest: Some(Arc::new(level)), user: self.user.clone() }
    }

    /// Whether a path is ignored, given that the folders on the way are not.
    pub(super) fn ignore(&self, root: &Path, rel: &Path, folder: bool) -> bool {
        let absolute: OnceCell<PathBuf> = OnceCell::new();
        let (mut git, mut exclude) = (Match::None, Match::None);
        let mut outside = false;
        let mut next = self.nearest.as_ref();
        while let Some(level) = next {
            let path = if level.above { absolute.get_or_init(|| root.join(rel)) } else { rel };
            // The nearest word of an .ignore file is above all that git says.
            match level.ignore.matched(path, folder) {
                Match::None => {}
                said => return said.is_ignore(),
            }
            if !outside {
                git = first(git, || level.git.matched(path, folder));
                exclude = first(exclude, || level.exclude.matched(path, folder));
            }
            outside |= level.repository;
            next = level.up.as_ref();
        }
        let user = || self.user.as_ref().map_or(Match::None, |user| user.matched(rel, folder));
        first(first(git, || exclude), user).is_ignore()
    }
}

fn first<'a>(said: Match<&'a Glob>, next: impl FnOnce() -> Match<&'a Glob>) -> Match<&'a Glob> {
    if said.is_none() { next() } else { said }
}

/// Reads rules about the paths below `base`. A line that is no rule is passed over, as git does.
fn rules_of(base: &Path, file: File) -> Gitignore {
    let mut bytes = Vec::new();
    if file.take(MAX_RULES).read_to_end(&mut bytes).is_err() {
        return Gitignore::empty();
    }
    let text = String::from_utf8_lossy(&bytes);
    let mut builder = GitignoreBuilder::new(base);
    for line in text.trim_start_matches('\u{FEFF}').lines() {
        let _ = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}
