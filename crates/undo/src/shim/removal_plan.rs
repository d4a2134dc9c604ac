//! The plan for one path that `rm` or `unlink` removes: to the trash in one step, entry by entry, or by the system's
//! program.
#![expect(
    clippy::disallowed_methods,
    reason = "this file looks at what is to be removed"
)]

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::file_quoting::quote_file_name;
use super::shim_env::{QuotaShare, ShimEnv, UsedQuota};
use super::trash_writer::TrashWriter;
use super::{RmRequest, SystemProgram, resolve_parent_links, write_error_message};
use crate::manifest::{ManifestLine, ManifestPath};
use crate::tree::TreeSize;
use punie_text::output::number_format;

/// A tree is no longer divided to fill the rest of the quota where that is no more than this, in bytes.
const SMALL_REST: u64 = 64 << 10;
/// Trees with more folders in each other are divided at the operand alone: each level is measured with all below it.
const MAX_DIVIDED_DEPTH: usize = 200;

/// One run of `rm` or `unlink`.
pub(super) struct RemovalRun<'a> {
    pub env: &'a ShimEnv,
    pub request: &'a RmRequest,
    pub system: SystemProgram,
    pub writer: TrashWriter<'a>,
    pub used: UsedQuota,
    /// The runner's socket, until it does not answer.
    pub mover: Option<&'a Path>,
    /// The system's `rm` asks before it removes what is write-protected.
    pub asks_about_protected: bool,
    /// The reason why a file could not be moved.
    pub move_failure: Option<String>,
    pub has_warned: bool,
    /// The number of folders whose entries are removed now, one in the other.
    pub depth: usize,
    pub exit_code: u8,
}

/// The way in which one path is removed.
pub(super) enum RemovalPlan {
    /// It is not there, which is no error.
    Skip,
    /// To the trash in one step.
    Move(PlannedMove),
    /// First the entries of the folder, then the folder.
    Empty,
    /// By the system's program.
    HandOver,
}

/// The reasons why a tree cannot go in one step, the weaker one first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum TreeObstacle {
    /// A removal one by one would stop at an entry.
    Entry,
    /// An entry's path is longer than the system takes. Only a program that changes its folder gets there.
    LongPath,
}

/// A file or a tree that goes to the trash in one step.
pub(super) struct PlannedMove {
    pub item: String,
    /// Its path without links.
    pub real: PathBuf,
    pub size: TreeSize,
    pub share: QuotaShare,
    pub is_folder: bool,
    /// The number of folders in each other.
    pub depth: usize,
}

impl RemovalRun<'_> {
    /// Decides how a path is removed, and counts the bytes that go to the trash.
    pub fn plan(&mut self, path: &Path, used: &mut UsedQuota) -> RemovalPlan {
        let metadata = match fs::symlink_metadata(path) {
            Ok(metadata) => metadata,
            Err(cause) if self.request.force && is_not_found(&cause) => return RemovalPlan::Skip,
            Err(_) => return RemovalPlan::HandOver,
        };
        let Some(real) = self.resolve_tracked_path(path, &metadata) else {
            return RemovalPlan::HandOver;
        };
        let is_folder = metadata.is_dir();
        if self.writer.failure.is_some() || self.is_protected(path, &metadata) {
            return RemovalPlan::HandOver;
        }
        if is_folder && !self.request.recursive {
            let is_empty = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
            return if self.request.empty_dirs && is_empty {
                RemovalPlan::Empty
            } else {
                RemovalPlan::HandOver
            };
        }
        if self.env.contains_protected_folder(&real) {
            return RemovalPlan::Empty;
        }
        let Some(workspace) = self.env.find_workspace(&real) else {
            return RemovalPlan::HandOver;
        };
        let share = QuotaShare::for_path(&real, workspace);
        // Only files are copied to another file system, one by one: what was copied must be what is removed.
        let is_elsewhere = is_folder && self.is_on_other_file_system(&metadata);
        let free = self.env.share_free_bytes(share, *used);
        let fills_rest = is_folder && free > SMALL_REST && share == QuotaShare::Full;
        if is_elsewhere && fills_rest && self.depth > 1 {
            // The folder around it was measured with all that is in it.
            return RemovalPlan::Empty;
        }
        let mut size = TreeSize::default();
        let (obstacle, depth) = self.measure_tree(path, &metadata, &mut size);
        let is_over = obstacle.is_none() && size.on_disk > free;
        if is_over && !fills_rest {
            self.warn_about_quota(path, share);
            return RemovalPlan::HandOver;
        }
        if obstacle.is_some() || is_elsewhere || is_over {
            if obstacle == Some(TreeObstacle::LongPath) {
                self.warn_about_depth(path);
                return RemovalPlan::HandOver;
            }
            return if is_folder && self.may_divide(path, depth) {
                RemovalPlan::Empty
            } else {
                RemovalPlan::HandOver
            };
        }
        used.add_bytes(share, size.on_disk);
        RemovalPlan::Move(PlannedMove {
            item: self.writer.next_item_name(),
            real,
            size,
            share,
            is_folder,
            depth,
        })
    }

    /// The path without links, if the trash has to do with it: not for a folder that is named by a link and a slash.
    fn resolve_tracked_path(&self, path: &Path, metadata: &Metadata) -> Option<PathBuf> {
        let real = resolve_parent_links(path)?;
        let is_behind_link =
            metadata.is_dir() && fs::symlink_metadata(&real).is_ok_and(|at| at.is_symlink());
        let is_ours =
            self.env.find_workspace(&real).is_some() || self.env.contains_protected_folder(&real);
        (is_ours && !is_behind_link).then_some(real)
    }

    fn is_on_other_file_system(&self, metadata: &Metadata) -> bool {
        fs::metadata(&self.env.into).is_ok_and(|trash| trash.dev() != metadata.dev())
    }

    fn is_protected(&self, path: &Path, metadata: &Metadata) -> bool {
        self.asks_about_protected && !metadata.is_symlink() && !has_access(path, Access::WRITE_OK)
    }

    /// Counts the entries of a tree. Returns the worst obstacle, and how many folders lie in each other.
    fn measure_tree(
        &self,
        top: &Path,
        metadata: &Metadata,
        size: &mut TreeSize,
    ) -> (Option<TreeObstacle>, usize) {
        let (device, mut worst, mut deepest) = (metadata.dev(), None, 0);
        let mut waiting = vec![(top.to_owned(), 0)];
        while let Some((path, depth)) = waiting.pop() {
            deepest = deepest.max(depth);
            match self.measure_entry(&path, device, size) {
                Ok(below) => waiting.extend(below.into_iter().map(|path| (path, depth + 1))),
                Err(obstacle) => worst = worst.max(Some(obstacle)),
            }
            if worst == Some(TreeObstacle::LongPath) {
                break;
            }
        }
        // As `rm -v` names them: what is in a folder before the folder.
        size.paths.reverse();
        (worst, deepest)
    }

    /// Counts one entry of a tree. Returns the entries in it.
    fn measure_entry(
        &self,
        path: &Path,
        device: u64,
        size: &mut TreeSize,
    ) -> Result<Vec<PathBuf>, TreeObstacle> {
        let metadata = fs::symlink_metadata(path).map_err(|cause| obstacle_of(&cause))?;
        let is_folder = metadata.is_dir();
        if metadata.dev() != device || self.is_protected(path, &metadata) {
            return Err(TreeObstacle::Entry);
        }
        let below = if is_folder {
            list_folder_paths(path).map_err(|cause| obstacle_of(&cause))?
        } else {
            Vec::new()
        };
        size.count_entry(&metadata);
        if self.request.verbose {
            size.paths.push((path.to_owned(), is_folder));
        }
        if !below.is_empty() && !has_access(path, Access::WRITE_OK | Access::EXEC_OK) {
            return Err(TreeObstacle::Entry);
        }
        Ok(below)
    }

    /// Returns whether a tree that cannot go in one step is removed entry by entry. Says so if not.
    pub fn may_divide(&mut self, path: &Path, depth: usize) -> bool {
        if self.depth == 0 || depth <= MAX_DIVIDED_DEPTH {
            return true;
        }
        self.warn_about_depth(path);
        false
    }

    fn warn_about_depth(&mut self, path: &Path) {
        self.warn_once(&format!(
            "{} has more folders in each other than the trash takes; it is removed for good",
            quote_file_name(path)
        ));
    }

    fn warn_about_quota(&mut self, path: &Path, share: QuotaShare) {
        let (shown, limit) = (
            quote_file_name(path),
            number_format::format_size(self.env.share_limit(share)),
        );
        self.warn_once(&format!(
            "{shown} and what follows is over the {limit} that the trash takes of this; what does not fit is removed for \
             good"
        ));
    }

    /// Prints the first warning of a run.
    pub fn warn_once(&mut self, text: &str) {
        if !std::mem::replace(&mut self.has_warned, true) {
            write_error_message(self.system.name, text);
        }
    }
}

impl RemovalPlan {
    /// Returns the line that announces a move to the trash.
    pub fn manifest_announcement(&self) -> Option<ManifestLine> {
        let Self::Move(PlannedMove {
            item, real, size, ..
        }) = self
        else {
            return None;
        };
        let (files, bytes) = (size.files, size.bytes);
        Some(ManifestLine::Removed {
            path: ManifestPath(real.clone()),
            item: item.clone(),
            files,
            bytes,
        })
    }
}

fn has_access(path: &Path, access: Access) -> bool {
    accessat(CWD, path, access, AtFlags::EACCESS).is_ok()
}

fn obstacle_of(cause: &io::Error) -> TreeObstacle {
    if cause.kind() == io::ErrorKind::InvalidFilename {
        TreeObstacle::LongPath
    } else {
        TreeObstacle::Entry
    }
}

fn is_not_found(cause: &io::Error) -> bool {
    matches!(
        cause.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Lists paths, since entries would keep the folder open: trees are deeper than files may be open.
pub(super) fn list_folder_paths(path: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect()
}
