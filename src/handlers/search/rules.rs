//! Which names are ignored: .ignore, .gitignore, .git/info/exclude and the user's own git ignore file, with git's
//! precedence. Not here: hidden names and file types (scope).

use std::cell::OnceCell;
use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder, Glob};

use super::folder::{Folder, open_rules};
use super::listing::Kind;
use super::page::unlocked;

/// A file with rules is read up to here; what comes after is no rule that a person wrote.
const MAX_RULES: u64 = 1 << 20;

/// So many texts of rules are known at once,
const MAX_KNOWN: usize = 128;
/// none of which is longer than this.
const MAX_TEXT: usize = 16 << 10;

/// The rules that hold in a folder.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    nearest: Option<Arc<Level>>,
    user: Option<Arc<Gitignore>>,
    known: Arc<Known>,
}

/// What the same text was compiled to. Many folders have the same rules, such as those that a tool wrote, and compiling
/// them takes longer than walking the folder.
#[derive(Debug, Default)]
struct Known(Mutex<VecDeque<(Vec<u8>, Arc<Gitignore>)>>);

/// One folder's rules, about paths from there. Most folders have none and so no level.
#[derive(Debug)]
struct Level {
    ignore: Option<Arc<Gitignore>>,
    git: Option<Arc<Gitignore>>,
    exclude: Option<Arc<Gitignore>>,
    /// How many bytes of a path lead to it.
    base: usize,
    /// It lies above the searched folder: paths to it are absolute.
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
        let known = Arc::new(Known::default());
        let mut levels = Vec::new();
        for folder in root.ancestors().skip(1) {
            let read = |name: &str| known.read(open_rules(&folder.join(name)));
            let git = folder.join(".git");
            let repository = git.symlink_metadata().is_ok();
            let exclude = known.read(open_rules(&git.join("info/exclude")));
            levels.push((folder, read(".ignore"), read(".gitignore"), exclude, repository));
        }
        let mut nearest = None;
        for (folder, ignore, git, exclude, repository) in levels.into_iter().rev() {
            if ignore.is_none() && git.is_none() && !repository {
                continue;
            }
            let base = bytes_to(folder);
            nearest =
                Some(Arc::new(Level { ignore, git, exclude, base, above: true, repository, up: nearest }));
        }
        // Git takes an anchored pattern of the user's file from the top of the repository.
        let user = known.read(user.and_then(open_rules));
        Self { nearest, user, known }
    }

    /// The rules in a folder below, whose path from the searched folder is `rel`.
    pub(super) fn below(&self, rel: &Path, folder: &Folder, signs: Signs) -> Self {
        let repository = signs.git.is_some();
        if !signs.ignore && !signs.git_ignore && !repository {
            return self.clone();
        }
        let read = |there: bool, name: &str| {
            let file = there.then(|| folder.open_file(name.as_ref()).ok()).flatten();
            self.known.read(file)
        };
        let exclude = || {
            let info = folder.enter(".git".as_ref()).and_then(|git| git.enter("info".as_ref())).ok()?;
            self.known.read(info.open_file("exclude".as_ref()).ok())
        };
        let level = Level {
            ignore: read(signs.ignore, ".ignore"),
            git: read(signs.git_ignore, ".gitignore"),
            exclude: signs.git.filter(|kind| *kind == Kind::Folder).and_then(|_| exclude()),
            base: bytes_to(rel),
            above: false,
            repository,
            up: self.nearest.clone(),
        };
        Self { nearest: Some(Arc::new(level)), user: self.user.clone(), known: Arc::clone(&self.known) }
    }

    /// Whether a path is ignored, given that the folders on the way are not.
    pub(super) fn ignore<'a>(&'a self, root: &Path, rel: &Path, folder: bool) -> bool {
        let absolute: OnceCell<PathBuf> = OnceCell::new();
        let (mut git, mut exclude) = (Match::None, Match::None);
        let mut outside = false;
        let mut next = self.nearest.as_ref();
        while let Some(level) = next {
            let path = if level.above { absolute.get_or_init(|| root.join(rel)) } else { rel };
            let path = behind(path, level.base);
            let says = |rules: &'a Option<Arc<Gitignore>>| {
                rules.as_ref().map_or(Match::None, |rules| rules.matched(path, folder))
            };
            // The nearest word of an .ignore file is above all that git says.
            match says(&level.ignore) {
                Match::None => {}
                said => return said.is_ignore(),
            }
            if !outside {
                git = first(git, || says(&level.git));
                exclude = first(exclude, || says(&level.exclude));
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

impl Known {
    /// Reads rules about paths from the folder that they stand for. A line that is no rule is passed over, as git does.
    fn read(&self, file: Option<File>) -> Option<Arc<Gitignore>> {
        let mut bytes = Vec::new();
        file?.take(MAX_RULES).read_to_end(&mut bytes).ok()?;
        let known =
            unlocked(&self.0).iter().find(|(text, _)| *text == bytes).map(|(_, rules)| Arc::clone(rules));
        if known.is_some() {
            return known;
        }
        let text = String::from_utf8_lossy(&bytes);
        let mut builder = GitignoreBuilder::new("");
        for line in text.trim_start_matches('\u{FEFF}').lines() {
            let _ = builder.add_line(None, line);
        }
        let rules = Arc::new(builder.build().ok()?);
        if bytes.len() <= MAX_TEXT {
            let mut known = unlocked(&self.0);
            known.truncate(MAX_KNOWN - 1);
            known.push_front((bytes, Arc::clone(&rules)));
        }
        Some(rules)
    }
}

/// How many bytes of a path lead to what is in a folder.
fn bytes_to(folder: &Path) -> usize {
    folder.join("x").as_os_str().len() - 1
}

/// A path without its first so many bytes, which end with a separator.
#[cfg(unix)]
fn behind(path: &Path, base: usize) -> &Path {
    use std::os::unix::ffi::OsStrExt;
    Path::new(std::ffi::OsStr::from_bytes(path.as_os_str().as_bytes().get(base..).unwrap_or_default()))
}

/// A path without its first so many bytes, which end with a separator.
#[cfg(not(unix))]
fn behind(path: &Path, base: usize) -> &Path {
    path.ancestors()
        .find(|folder| bytes_to(folder) == base)
        .and_then(|folder| path.strip_prefix(folder).ok())
        .unwrap_or(path)
}
