//! Finds the protected paths that exist, how commands may use each, and a stamp that shows changes. Not here: the
//! places to search and the reports (the watch of protected paths), and the protected names (protected_path).

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::folder_scan::{FolderScan, MAX_SCANNED_ENTRIES, ScanExtent};
use super::protected_path_stamp::{MAX_FOLDER_ENTRIES, PathStamp, ProtectedFiles, path_stamp};
use crate::protected_path;
use punie_sandbox::is_absent;

/// The number of folders searched for repositories of submodules and worktrees, in all repositories together, and the
/// number of such repositories covered one by one.
const MAX_INNER_FOLDERS: usize = 2_048;
const MAX_INNER_REPOSITORIES: usize = 512;
/// The depth to which submodule repositories are searched.
const MAX_MODULE_DEPTH: usize = 12;
/// The depth to which files are stamped one by one.
const MAX_FILE_DEPTH: usize = 2;

/// The protection of a path from commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CoverMode {
    /// Commands cannot move or remove it; its content is protected separately.
    InPlace,
    /// Commands cannot write it either.
    ReadOnly,
    /// Commands write it, although the folder around it is read-only to them.
    Writable,
}

/// An existing protected path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProtectedPathState {
    pub why: &'static str,
    pub cover: Option<CoverMode>,
    /// Differs after a change.
    pub stamp: PathStamp,
}

/// The result of a scan.
pub(super) struct ProtectedPathScan<'a> {
    /// The paths that commands may write.
    free: &'a [PathBuf],
    pub seen: BTreeMap<PathBuf, ProtectedPathState>,
    /// Descriptions of the paths that were left out.
    pub limits: Vec<String>,
    looks_left: usize,
    inner_left: usize,
}

/// The inner repositories in a folder of a repository, and the folders that lead to them.
#[derive(Default)]
struct InnerRepositories {
    parent_folders: Vec<PathBuf>,
    repositories: Vec<PathBuf>,
}

impl<'a> ProtectedPathScan<'a> {
    /// Creates an empty result.
    pub fn new(free: &'a [PathBuf]) -> Self {
        Self {
            free,
            seen: BTreeMap::new(),
            limits: Vec::new(),
            looks_left: MAX_INNER_FOLDERS,
            inner_left: MAX_INNER_REPOSITORIES,
        }
    }

    /// Adds the protected paths of a folder, and returns its entries. Names that these do not contain are skipped.
    pub fn add_folder(&mut self, folder: &Path) -> FolderScan {
        let entries = FolderScan::scan_folder(folder, MAX_SCANNED_ENTRIES);
        if entries.may_contain(".git") {
            self.add_repository(&folder.join(".git"));
        }
        let names = protected_path::protected_names();
        for (name, why) in names.filter(|(name, _)| entries.may_contain(name)) {
            self.add(&folder.join(name), why);
        }
        for (path, why) in &entries.suffixed {
            self.add(path, why);
        }
        self.add_bare_repository(folder);
        entries
    }

    /// Adds a repository by its `.git`, with those of its submodules. False if none exists, or if commands may write
    /// it.
    pub fn add_repository(&mut self, git: &Path) -> bool {
        if self.seen.contains_key(git) {
            return true;
        }
        let Some(metadata) = self.metadata_unless_free(git) else {
            return false;
        };
        if !metadata.is_dir() {
            self.record(
                git,
                protected_path::REPOSITORY,
                cover_for_file(&metadata),
                path_stamp(&metadata),
            );
            return true;
        }
        self.record(
            git,
            protected_path::REPOSITORY,
            Some(CoverMode::InPlace),
            PathStamp::Separate,
        );
        self.add_git_files(git);
        self.add_inner_repositories(&git.join("modules"), Self::find_modules);
        // A worktree's own files lead to the repository that it belongs to.
        self.add_inner_repositories(&git.join("worktrees"), Self::find_worktrees);
        true
    }

    /// Adds the repositories in a folder of a repository. If there are too many to add one by one, covers the folder
    /// with its whole content: with a mount for each, no command could start.
    fn add_inner_repositories(
        &mut self,
        folder: &Path,
        gather: fn(&mut Self, &Path, &mut InnerRepositories) -> Option<()>,
    ) {
        if !self.is_folder_unless_free(folder) {
            return;
        }
        let mut inner = InnerRepositories::default();
        if gather(self, folder, &mut inner).is_none() {
            let because = format!(
                "is one of the folders of submodules and working trees in which more lies than is looked through ({MAX_INNER_FOLDERS} \
                 folders with {MAX_INNER_REPOSITORIES} repositories, in all)"
            );
            self.cover_whole_folder(
                folder,
                &because,
                "remove from them what no submodule and no working tree needs",
            );
            if self.is_read_only(folder) {
                return;
            }
        }
        // If a parent folder were replaced, the path would lead elsewhere.
        for folder in inner.parent_folders.iter().chain(&inner.repositories) {
            if !self.is_granted_write(folder) {
                self.record(
                    folder,
                    protected_path::REPOSITORY,
                    Some(CoverMode::InPlace),
                    PathStamp::Separate,
                );
            }
        }
        for repository in &inner.repositories {
            self.add_git_files(repository);
        }
    }

    fn find_worktrees(&mut self, folder: &Path, inner: &mut InnerRepositories) -> Option<()> {
        inner.repositories = self.list_folders(folder)?;
        inner.parent_folders.push(folder.to_owned());
        self.inner_left = self.inner_left.checked_sub(inner.repositories.len())?;
        Some(())
    }

    fn find_modules(&mut self, folder: &Path, inner: &mut InnerRepositories) -> Option<()> {
        self.find_modules_below(folder, MAX_MODULE_DEPTH, inner)
            .map(drop)
    }

    /// Finds the repositories of submodules, which are named by their paths: one may lie some folders down and
    /// contain others. Returns whether there are any.
    fn find_modules_below(
        &mut self,
        folder: &Path,
        depth: usize,
        inner: &mut InnerRepositories,
    ) -> Option<bool> {
        let depth = depth.checked_sub(1)?;
        let mut leads = false;
        for module in self.list_folders(folder)? {
            if self.existing_metadata(&module.join("config")).is_none() {
                leads |= self.find_modules_below(&module, depth, inner)?;
                continue;
            }
            self.inner_left = self.inner_left.checked_sub(1)?;
            leads = true;
            let below = module.join("modules");
            inner.repositories.push(module);
            if self.is_folder_unless_free(&below) {
                self.find_modules_below(&below, depth, inner)?;
            }
        }
        if leads {
            inner.parent_folders.push(folder.to_owned());
        }
        Some(leads)
    }

    /// Lists the subfolders, or returns `None` if the search limit is exceeded.
    fn list_folders(&mut self, folder: &Path) -> Option<Vec<PathBuf>> {
        let FolderScan {
            folders, extent, ..
        } = FolderScan::scan_folder(folder, self.looks_left);
        match extent {
            ScanExtent::Whole => {}
            ScanExtent::Cut => self.looks_left = 0,
            ScanExtent::Refused => self.add_unreadable(folder),
        }
        self.looks_left = self.looks_left.checked_sub(folders.len() + 1)?;
        Some(folders)
    }

    /// Adds the files of a folder that git takes for a repository. Returns whether it is one.
    pub fn add_bare_repository(&mut self, folder: &Path) -> bool {
        let has = |name: &str| folder.join(name).symlink_metadata().is_ok();
        let is_one = protected_path::is_repository(has);
        if is_one {
            self.add_git_files(folder);
        }
        is_one
    }

    fn add_git_files(&mut self, git: &Path) {
        for (name, why) in protected_path::GIT_PATHS {
            self.add(&git.join(name), why);
        }
        // Git replaces both all the time.
        for name in ["HEAD", protected_path::REBASE_TODO] {
            let path = git.join(name);
            let Some(metadata) = self.metadata_unless_free(&path) else {
                continue;
            };
            let why = self
                .seen
                .get(&path)
                .map_or(protected_path::REPOSITORY, |seen| seen.why);
            let stamp = path_stamp(&metadata);
            self.seen.insert(
                path,
                ProtectedPathState {
                    why,
                    cover: None,
                    stamp,
                },
            );
        }
    }

    /// Adds a protected file, or a folder with its whole content.
    fn add(&mut self, path: &Path, why: &'static str) {
        let Some(metadata) = self.metadata_unless_free(path) else {
            return;
        };
        if metadata.is_dir() {
            self.add_folder_contents(path, why);
        } else {
            self.record(path, why, cover_for_file(&metadata), path_stamp(&metadata));
        }
    }

    /// Adds a protected folder with its files, and the working trees in it.
    fn add_folder_contents(&mut self, folder: &Path, why: &'static str) {
        let trees = protected_path::working_trees_in(folder)
            .filter(|trees| self.is_folder_unless_free(trees));
        let mut files = ProtectedFiles::new(trees.clone());
        files.walk_files(folder, MAX_FILE_DEPTH);
        self.record(folder, why, Some(CoverMode::ReadOnly), PathStamp::Separate);
        for (path, stamp) in files.found {
            self.record(&path, why, None, stamp);
        }
        if files.left == 0 {
            self.limits.push(format!(
                "{} holds more than is looked through ({MAX_FOLDER_ENTRIES} entries): what changes in the rest is not told of.",
                folder.display()
            ));
        }
        if let Some(trees) = trees {
            self.add_working_trees(&trees, why);
        }
    }

    /// Adds the folder in which an agent has working trees, and the protected paths of each.
    fn add_working_trees(&mut self, folder: &Path, why: &'static str) {
        let Some(trees) = self.list_folders(folder) else {
            return self.cover_whole_folder(folder, "has too many working trees", "remove some");
        };
        self.record(folder, why, Some(CoverMode::Writable), PathStamp::Separate);
        for tree in trees {
            self.add_folder(&tree);
        }
    }

    /// Returns the metadata of an existing path that commands may not write. A path that cannot be examined is
    /// covered with its nearest accessible folder.
    fn metadata_unless_free(&mut self, path: &Path) -> Option<Metadata> {
        if self.is_granted_write(path) {
            None
        } else {
            self.existing_metadata(path)
        }
    }

    fn is_folder_unless_free(&mut self, path: &Path) -> bool {
        let metadata = self.metadata_unless_free(path);
        metadata.is_some_and(|metadata| metadata.is_dir())
    }

    fn existing_metadata(&mut self, path: &Path) -> Option<Metadata> {
        match path.symlink_metadata() {
            Ok(metadata) => Some(metadata),
            Err(cause) if is_absent(&cause) => None,
            Err(_) => {
                let around = path
                    .ancestors()
                    .skip(1)
                    .find(|folder| folder.symlink_metadata().is_ok());
                if let Some(folder) = around {
                    self.add_unreadable(folder);
                }
                None
            }
        }
    }

    /// Adds a folder that exists but cannot be read: one command may remove the permission, and the next restore it
    /// and write.
    pub fn add_unreadable(&mut self, folder: &Path) {
        let is_ours = |metadata: Metadata| {
            metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw()
        };
        // Only the owner can restore the permission.
        if !self.is_granted_write(folder) && folder.symlink_metadata().is_ok_and(is_ours) {
            self.cover_whole_folder(
                folder,
                "cannot be looked into, and may hold a repository",
                "`chmod u+rwx` opens it",
            );
        }
    }

    /// Covers a folder with its whole content.
    fn cover_whole_folder(&mut self, folder: &Path, because: &str, remedy: &str) {
        self.record(
            folder,
            protected_path::REPOSITORY,
            Some(CoverMode::ReadOnly),
            PathStamp::Separate,
        );
        let shown = folder.display().to_string();
        self.limits.push(if self.is_read_only(folder) {
            format!(
                "{shown} {because}, so that it is read-only to commands as a whole. The owner can mend it ({remedy}) or \
                 allow it: write = [{shown:?}] under [sandbox] in config.toml. It takes effect at once."
            )
        } else {
            format!("{shown} {because}: what is in it is not protected from commands. The owner can mend it ({remedy}).")
        });
    }

    fn is_read_only(&self, path: &Path) -> bool {
        self.seen
            .get(path)
            .is_some_and(|seen| seen.cover == Some(CoverMode::ReadOnly))
    }

    fn is_granted_write(&self, path: &Path) -> bool {
        self.free.iter().any(|free| path.starts_with(free))
    }

    fn record(
        &mut self,
        path: &Path,
        why: &'static str,
        cover: Option<CoverMode>,
        stamp: PathStamp,
    ) {
        // A folder that contains a writable path cannot be read-only as a whole.
        let holds_free = self.free.iter().any(|free| free.starts_with(path));
        let cover = cover.filter(|cover| !holds_free || *cover == CoverMode::InPlace);
        let before = self.seen.get(path).and_then(|seen| seen.cover);
        self.seen.insert(
            path.to_owned(),
            ProtectedPathState {
                why,
                cover: cover.max(before),
                stamp,
            },
        );
    }
}

/// Returns how to cover a file. A link is not covered, because its target may be anywhere.
fn cover_for_file(metadata: &Metadata) -> Option<CoverMode> {
    metadata.is_file().then_some(CoverMode::ReadOnly)
}
