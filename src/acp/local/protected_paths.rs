//! Which protected paths are there, how a command meets each, and by what it is seen that one was changed. Not here: where
//! they are looked for and what is told of them (guarded), and which names are protected (acp::protected).
#![expect(
    clippy::disallowed_methods,
    reason = "the protected paths are looked at as they are, links included"
)]

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::entries::{Entries, Extent};
use crate::acp::protected;
use crate::sandbox::is_absent;

/// How many folders are looked at for repositories of submodules and worktrees, in all repositories together, and how many
/// such are covered one by one.
const MOST_LOOKS: usize = 2_048;
const MOST_INNER: usize = 512;
/// How deep those of submodules are looked for.
const DEEPEST_MODULE: usize = 12;
/// How many files of a protected folder are told apart, and how many of its entries are looked at.
const MOST_FILES: usize = 200;
const MOST_ENTRIES: usize = 10_000;
/// How far down they are told apart.
const DEEPEST_FILE: usize = 2;

/// How a command meets a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cover {
    /// It cannot move or remove it; what is in it is another matter.
    InPlace,
    /// Nor write it.
    ReadOnly,
}

/// A protected path that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub why: &'static str,
    pub cover: Option<Cover>,
    /// Differs once it was changed.
    pub stamp: Stamp,
}

/// By what it is seen that something was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Stamp {
    /// A folder by nothing of its own: its files are told apart.
    Apart,
    /// Inode, size, mode, and when it last changed: no command can set the last.
    One(u64, u64, u32, i64, i64),
    /// A folder with too many files to be told apart: by all of theirs, as one number.
    Many(u64),
}

/// What is found.
pub(super) struct Found<'a> {
    /// What commands may write.
    free: &'a [PathBuf],
    pub seen: BTreeMap<PathBuf, Seen>,
    /// What was left out, in sentences.
    pub limits: Vec<String>,
    looks_left: usize,
    inner_left: usize,
}

/// The repositories in a folder of a repository's, and the folders on the way to them.
#[derive(Default)]
struct Inner {
    ways: Vec<PathBuf>,
    repositories: Vec<PathBuf>,
}

impl<'a> Found<'a> {
    /// Nothing yet.
    pub fn new(free: &'a [PathBuf]) -> Self {
        Self {
            free,
            seen: BTreeMap::new(),
            limits: Vec::new(),
            looks_left: MOST_LOOKS,
            inner_left: MOST_INNER,
        }
    }

    /// What of a folder is protected; what is not among its entries is not looked for.
    pub fn folder(&mut self, folder: &Path, entries: Option<&Entries>) {
        let may_have = |name: &str| entries.is_none_or(|entries| entries.may_have(name));
        if may_have(".git") {
            self.repository(&folder.join(".git"));
        }
        for (name, why) in protected::names().filter(|(name, _)| may_have(name)) {
            self.whole(&folder.join(name), why);
        }
    }

    /// A repository by its `.git`, with those of its submodules. False where there is none that is not free.
    pub fn repository(&mut self, git: &Path) -> bool {
        if self.seen.contains_key(git) {
            return true;
        }
        let Some(metadata) = self.admitted(git) else { return false };
        if !metadata.is_dir() {
            self.note(git, protected::REPOSITORY, cover_of(&metadata), stamp(&metadata));
            return true;
        }
        self.note(git, protected::REPOSITORY, Some(Cover::InPlace), Stamp::Apart);
        self.inside_of_git(git);
        self.inner(&git.join("modules"), Self::modules);
        // What they have of their own leads to the repository that they belong to.
        self.inner(&git.join("worktrees"), Self::worktrees);
        true
    }

    /// The repositories in a folder of a repository's. Where there are too many to be looked at one by one, the folder is
    /// covered with all that is in it: what is a mount each would let nothing start any more.
    fn inner(&mut self, folder: &Path, gather: fn(&mut Self, &Path, &mut Inner) -> Option<()>) {
        if !self.admitted(folder).is_some_and(|metadata| metadata.is_dir()) {
            return;
        }
        let mut inner = Inner::default();
        if gather(self, folder, &mut inner).is_none() {
            let because = format!(
                "is one of the folders of submodules and working trees in which more lies than is looked through ({MOST_LOOKS} \
                 folders with {MOST_INNER} repositories, in all)"
            );
            self.as_a_whole(folder, &because, "remove from them what no submodule and no working tree needs");
            if self.is_read_only(folder) {
                return;
            }
        }
        // Exchanged for another, a folder on the way would lead somewhere else.
        for folder in inner.ways.iter().chain(&inner.repositories) {
            if !self.is_free(folder) {
                self.note(folder, protected::REPOSITORY, Some(Cover::InPlace), Stamp::Apart);
            }
        }
        for repository in &inner.repositories {
            self.inside_of_git(repository);
        }
    }

    fn worktrees(&mut self, folder: &Path, inner: &mut Inner) -> Option<()> {
        inner.repositories = self.folders_in(folder)?;
        inner.ways.push(folder.to_owned());
        self.inner_left = self.inner_left.checked_sub(inner.repositories.len())?;
        Some(())
    }

    fn modules(&mut self, folder: &Path, inner: &mut Inner) -> Option<()> {
        self.modules_below(folder, DEEPEST_MODULE, inner).map(drop)
    }

    /// Those of submodules, which are named by their paths: one may lie some folders down, and have some of its own. Whether
    /// there are any.
    fn modules_below(&mut self, folder: &Path, depth: usize, inner: &mut Inner) -> Option<bool> {
        let depth = depth.checked_sub(1)?;
        let mut leads = false;
        for module in self.folders_in(folder)? {
            if self.standing(&module.join("config")).is_none() {
                leads |= self.modules_below(&module, depth, inner)?;
                continue;
            }
            self.inner_left = self.inner_left.checked_sub(1)?;
            leads = true;
            let below = module.join("modules");
            inner.repositories.push(module);
            if self.admitted(&below).is_some_and(|metadata| metadata.is_dir()) {
                self.modules_below(&below, depth, inner)?;
            }
        }
        if leads {
            inner.ways.push(folder.to_owned());
        }
        Some(leads)
    }

    /// None where there are more than are looked at.
    fn folders_in(&mut self, folder: &Path) -> Option<Vec<PathBuf>> {
        let Entries { folders, extent, .. } = Entries::of(folder, self.looks_left);
        match extent {
            Extent::Whole => {}
            Extent::Cut => self.looks_left = 0,
            Extent::Refused => self.closed(folder),
        }
        self.looks_left = self.looks_left.checked_sub(folders.len() + 1)?;
        Some(folders)
    }

    fn inside_of_git(&mut self, git: &Path) {
        for name in ["config", "config.worktree", "commondir"] {
            self.whole(&git.join(name), protected::GIT);
        }
        self.whole(&git.join("hooks"), protected::HOOKS);
    }

    /// A protected file, or a folder with everything in it.
    fn whole(&mut self, path: &Path, why: &'static str) {
        let Some(metadata) = self.admitted(path) else { return };
        if metadata.is_dir() {
            self.contents(path, why, &metadata);
        } else {
            self.note(path, why, cover_of(&metadata), stamp(&metadata));
        }
    }

    /// A protected folder with its files, or by all of them where they are too many.
    fn contents(&mut self, folder: &Path, why: &'static str, metadata: &Metadata) {
        let mut files = Files::new(metadata);
        files.walk(folder, DEEPEST_FILE);
        let is_many = files.found.len() > MOST_FILES;
        let whole = if is_many { Stamp::Many(files.digest()) } else { Stamp::Apart };
        self.note(folder, why, Some(Cover::ReadOnly), whole);
        for (path, stamp) in files.found.into_iter().filter(|_| !is_many) {
            self.note(&path, why, None, stamp);
        }
        if files.left == 0 {
            self.limits.push(format!(
                "{} holds more than is looked through ({MOST_ENTRIES} entries): what changes in the rest is not told of.",
                folder.display()
            ));
        }
    }

    /// What is there and not free. What cannot be looked at is covered with all that is around it.
    fn admitted(&mut self, path: &Path) -> Option<Metadata> {
        if self.is_free(path) { None } else { self.standing(path) }
    }

    fn standing(&mut self, path: &Path) -> Option<Metadata> {
        match path.symlink_metadata() {
            Ok(metadata) => Some(metadata),
            Err(cause) if is_absent(&cause) => None,
            Err(_) => {
                let around = path.ancestors().skip(1).find(|folder| folder.symlink_metadata().is_ok());
                if let Some(folder) = around {
                    self.closed(folder);
                }
                None
            }
        }
    }

    /// A folder that is there and cannot be looked into: one command may shut it, and the next open it again and write.
    pub fn closed(&mut self, folder: &Path) {
        let is_ours =
            |metadata: Metadata| metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw();
        // Nobody else can open it.
        if !self.is_free(folder) && folder.symlink_metadata().is_ok_and(is_ours) {
            self.as_a_whole(
                folder,
                "cannot be looked into, and may hold a repository",
                "`chmod u+rwx` opens it",
            );
        }
    }

    /// Covers a folder with all that is in it.
    fn as_a_whole(&mut self, folder: &Path, because: &str, remedy: &str) {
        self.note(folder, protected::REPOSITORY, Some(Cover::ReadOnly), Stamp::Apart);
        let shown = folder.display().to_string();
        self.limits.push(if self.is_read_only(folder) {
            format!(
                "{shown} {because}, so that it is read-only to commands as a whole. The owner can mend it ({remedy}) or \
                 allow it: write = [{shown:?}] under [sandbox] in config.toml."
            )
        } else {
            format!("{shown} {because}: what is in it is not protected from commands. The owner can mend it ({remedy}).")
        });
    }

    fn is_read_only(&self, path: &Path) -> bool {
        self.seen.get(path).is_some_and(|seen| seen.cover == Some(Cover::ReadOnly))
    }

    fn is_free(&self, path: &Path) -> bool {
        self.free.iter().any(|free| path.starts_with(free))
    }

    fn note(&mut self, path: &Path, why: &'static str, cover: Option<Cover>, stamp: Stamp) {
        // What holds something free is not read-only as a whole.
        let holds_free = self.free.iter().any(|free| free.starts_with(path));
        let cover = cover.filter(|cover| !holds_free || *cover == Cover::InPlace);
        let before = self.seen.get(path).and_then(|seen| seen.cover);
        self.seen.insert(path.to_owned(), Seen { why, cover: cover.max(before), stamp });
    }
}

/// A link is not covered: what it leads to may be anywhere.
fn cover_of(metadata: &Metadata) -> Option<Cover> {
    metadata.is_file().then_some(Cover::ReadOnly)
}

/// The files of a protected folder.
struct Files {
    found: Vec<(PathBuf, Stamp)>,
    folders: Vec<Stamp>,
    /// How many more entries are looked at.
    left: usize,
}

impl Files {
    fn new(folder: &Metadata) -> Self {
        Self { found: Vec::new(), folders: vec![stamp(folder)], left: MOST_ENTRIES }
    }

    /// Examples that git never runs are no news, and there may be any number of them.
    fn walk(&mut self, folder: &Path, depth: usize) {
        for entry in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
            if self.left == 0 {
                return;
            }
            self.left -= 1;
            let (path, kind) = (entry.path(), entry.file_type());
            let is_folder = kind.is_ok_and(|kind| kind.is_dir());
            if !is_folder && path.extension().is_some_and(|extension| extension == "sample") {
                continue;
            }
            let Ok(metadata) = entry.metadata() else { continue };
            if is_folder && depth > 0 {
                self.folders.push(stamp(&metadata));
                self.walk(&path, depth - 1);
            } else {
                self.found.push((path, stamp(&metadata)));
            }
        }
    }

    /// The same for the same files, in whichever order they are.
    fn digest(&self) -> u64 {
        fn one(what: impl Hash) -> u64 {
            let mut hasher = DefaultHasher::new();
            what.hash(&mut hasher);
            hasher.finish()
        }
        let all = self.found.iter().map(one).chain(self.folders.iter().map(one));
        all.fold(0, u64::wrapping_add)
    }
}

fn stamp(metadata: &Metadata) -> Stamp {
    let (mode, seconds, nanos) = (metadata.mode(), metadata.ctime(), metadata.ctime_nsec());
    Stamp::One(metadata.ino(), metadata.size(), mode, seconds, nanos)
}
