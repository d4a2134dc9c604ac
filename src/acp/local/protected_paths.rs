//! Finds the protected paths that exist, how commands may use each, and a stamp that shows changes. Not here: the
//! places to search and the reports (the watch of protected paths), and the protected names (acp::protected).
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

/// The number of folders searched for repositories of submodules and worktrees, in all repositories together, and the
/// number of such repositories covered one by one.
const MOST_LOOKS: usize = 2_048;
const MOST_INNER: usize = 512;
/// The depth to which submodule repositories are searched.
const DEEPEST_MODULE: usize = 12;
/// The number of a protected folder's files that are stamped one by one, and of its entries that are read.
const MOST_FILES: usize = 200;
const MOST_ENTRIES: usize = 10_000;
/// The depth to which files are stamped one by one.
const DEEPEST_FILE: usize = 2;

/// The protection of a path from commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cover {
    /// Commands cannot move or remove it; its content is protected separately.
    InPlace,
    /// Commands cannot write it either.
    ReadOnly,
}

/// An existing protected path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub why: &'static str,
    pub cover: Option<Cover>,
    /// Differs after a change.
    pub stamp: Stamp,
}

/// A stamp by which changes are detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Stamp {
    /// A folder without its own stamp: its files are stamped one by one.
    Apart,
    /// Inode, size, mode, and ctime, which no command can set.
    One(u64, u64, u32, i64, i64),
    /// A folder with too many files: one number from all of theirs.
    Many(u64),
}

/// The result of a scan.
pub(super) struct Found<'a> {
    /// The paths that commands may write.
    free: &'a [PathBuf],
    pub seen: BTreeMap<PathBuf, Seen>,
    /// Descriptions of the paths that were left out.
    pub limits: Vec<String>,
    looks_left: usize,
    inner_left: usize,
}

/// The inner repositories in a folder of a repository, and the folders that lead to them.
#[derive(Default)]
struct Inner {
    ways: Vec<PathBuf>,
    repositories: Vec<PathBuf>,
}

impl<'a> Found<'a> {
    /// Creates an empty result.
    pub fn new(free: &'a [PathBuf]) -> Self {
        Self {
            free,
            seen: BTreeMap::new(),
            limits: Vec::new(),
            looks_left: MOST_LOOKS,
            inner_left: MOST_INNER,
        }
    }

    /// Adds the protected paths of a folder. Names that its entries do not contain are skipped.
    pub fn folder(&mut self, folder: &Path, entries: Option<&Entries>) {
        let may_have = |name: &str| entries.is_none_or(|entries| entries.may_have(name));
        if may_have(".git") {
            self.repository(&folder.join(".git"));
        }
        for (name, why) in protected::names().filter(|(name, _)| may_have(name)) {
            self.whole(&folder.join(name), why);
        }
    }

    /// Adds a repository by its `.git`, with those of its submodules. False if none exists, or if commands may write
    /// it.
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
        // A worktree's own files lead to the repository that it belongs to.
        self.inner(&git.join("worktrees"), Self::worktrees);
        true
    }

    /// Adds the repositories in a folder of a repository. If there are too many to add one by one, covers the folder
    /// with its whole content: with a mount for each, no command could start.
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
        // If a parent folder were replaced, the path would lead elsewhere.
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

    /// Finds the repositories of submodules, which are named by their paths: one may lie some folders down and
    /// contain others. Returns whether there are any.
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

    /// Lists the subfolders, or returns `None` if the search limit is exceeded.
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

    /// Adds a protected file, or a folder with its whole content.
    fn whole(&mut self, path: &Path, why: &'static str) {
        let Some(metadata) = self.admitted(path) else { return };
        if metadata.is_dir() {
            self.contents(path, why, &metadata);
        } else {
            self.note(path, why, cover_of(&metadata), stamp(&metadata));
        }
    }

    /// Adds a protected folder with its files, or with one stamp if they are too many.
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

    /// Returns the metadata of an existing path that commands may not write. A path that cannot be examined is
    /// covered with its nearest accessible folder.
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

    /// Adds a folder that exists but cannot be read: one command may remove the permission, and the next restore it
    /// and write.
    pub fn closed(&mut self, folder: &Path) {
        let is_ours =
            |metadata: Metadata| metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw();
        // Only the owner can restore the permission.
        if !self.is_free(folder) && folder.symlink_metadata().is_ok_and(is_ours) {
            self.as_a_whole(
                folder,
                "cannot be looked into, and may hold a repository",
                "`chmod u+rwx` opens it",
            );
        }
    }

    /// Covers a folder with its whole content.
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
        // A folder that contains a writable path cannot be read-only as a whole.
        let holds_free = self.free.iter().any(|free| free.starts_with(path));
        let cover = cover.filter(|cover| !holds_free || *cover == Cover::InPlace);
        let before = self.seen.get(path).and_then(|seen| seen.cover);
        self.seen.insert(path.to_owned(), Seen { why, cover: cover.max(before), stamp });
    }
}

/// Returns how to cover a file. A link is not covered, because its target may be anywhere.
fn cover_of(metadata: &Metadata) -> Option<Cover> {
    metadata.is_file().then_some(Cover::ReadOnly)
}

/// The files of a protected folder.
struct Files {
    found: Vec<(PathBuf, Stamp)>,
    folders: Vec<Stamp>,
    /// The number of entries that may still be read.
    left: usize,
}

impl Files {
    fn new(folder: &Metadata) -> Self {
        Self { found: Vec::new(), folders: vec![stamp(folder)], left: MOST_ENTRIES }
    }

    /// Stamps the files of a folder. Sample hooks are skipped: git never runs them, and there may be many.
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

    /// Combines all stamps to a number that does not depend on their order.
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
