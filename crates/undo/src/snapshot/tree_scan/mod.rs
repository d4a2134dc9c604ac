//! Reads a folder for a snapshot: one walk that opens each folder by its parent and follows no link. Only files that
//! changed since the earlier snapshot are read; their contents are stored.

mod ignored_file;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{CWD, Dir, FileType, Stat, readlinkat};
use rustix::io::Errno;

use super::super::LARGEST_KEPT;
use super::super::manifest::ManifestPath;
use super::file_reading::{
    change_stamp, changed_at, file_size, open_file, open_folder, read_whole_file, stat_entry,
};
use super::folder_count::CountedFolder;
use super::git_index::TrackedPaths;
use super::ignore_rules::{RulesLevel, find_repository_above, is_ignored, read_levels_above};
use super::scan_limits::{ScanError, ScanLimits};
use super::snapshot_contents::SnapshotContents;
use super::tree_node::{ChangeStamp, PathContent, TreeNode, UncoveredReason};
use punie_host::ignore_rules::RulesCache;

/// Folders below so many others are not covered.
const MAX_DEPTH: usize = 200;
/// A file that changed so shortly before is read again: its time may be the same after the next change.
const SAME_TIME: Duration = Duration::from_millis(20);
/// The longest time that a snapshot takes.
const MAX_TIME: Duration = Duration::from_mins(2);

/// What a scan knows of earlier ones and where it stores contents.
pub(super) struct ScanContext<'a> {
    pub contents: &'a SnapshotContents,
    pub rules: &'a RulesCache,
    pub limits: ScanLimits,
    /// The device and inode of the runner's home, which is left out.
    pub home: Option<(u64, u64)>,
}

struct TreeScan<'a> {
    context: &'a ScanContext<'a>,
    /// Set where the names and sizes are only counted: the folders so far.
    counted: Option<Vec<CountedFolder>>,
    levels: Vec<RulesLevel>,
    tracked: Vec<Arc<TrackedPaths>>,
    max_files: usize,
    files: usize,
    bytes: u64,
    /// The bytes of ignored files of which the contents are stored.
    ignored_bytes: u64,
    /// The bytes that contents of other ignored files may still take.
    ignored_room: u64,
    device: u64,
    deadline: Instant,
    /// Files that changed later have no stamp.
    settled_before: (i64, u64),
}

/// Reads a folder, given its earlier tree.
pub(super) fn scan_tree(
    top: &Path,
    earlier: &[TreeNode],
    context: &ScanContext<'_>,
) -> Result<Vec<TreeNode>, ScanError> {
    let (mut scan, opened) = TreeScan::open_top(top, context)?;
    scan.scan_folder(&opened, &mut PathBuf::new(), earlier, 0, false)
}

/// Counts the names and sizes in a folder, and reads no file. Returns the counted folders, whole or as far as a limit.
pub(super) fn count_tree(
    top: &Path,
    context: &ScanContext<'_>,
) -> (Result<(), ScanError>, Vec<CountedFolder>) {
    let (mut scan, opened) = match TreeScan::open_top(top, context) {
        Ok(opened) => opened,
        Err(cause) => return (Err(cause.into()), Vec::new()),
    };
    scan.counted = Some(Vec::new());
    let counted = scan.scan_folder(&opened, &mut PathBuf::new(), &[], 0, false);
    (counted.map(drop), scan.counted.unwrap_or_default())
}

impl<'a> TreeScan<'a> {
    fn open_top(top: &Path, context: &'a ScanContext<'a>) -> io::Result<(Self, OwnedFd)> {
        let opened = open_folder(CWD, top.as_os_str())?;
        let settled = (SystemTime::now() - SAME_TIME)
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let mut scan = Self {
            context,
            counted: None,
            levels: Vec::new(),
            tracked: Vec::new(),
            max_files: context.limits.files,
            files: 0,
            bytes: 0,
            ignored_bytes: 0,
            // Files that git does not ignore come first where there is little room.
            ignored_room: context.contents.room() / 4,
            device: rustix::fs::fstat(&opened)?.st_dev,
            deadline: Instant::now() + MAX_TIME,
            settled_before: (
                i64::try_from(settled.as_secs()).unwrap_or(i64::MAX),
                u64::from(settled.subsec_nanos()),
            ),
        };
        scan.read_parents(top);
        Ok((scan, opened))
    }

    /// Reads what the folders above say, where the folder lies in a repository.
    fn read_parents(&mut self, top: &Path) {
        self.levels = read_levels_above(top, self.context.rules);
        if let Some(repository) = find_repository_above(top) {
            self.enter_repository(
                &repository.join(".git"),
                top.strip_prefix(repository).unwrap_or(Path::new("")),
                Path::new(""),
            );
        }
    }

    fn enter_repository(&mut self, dot_git: &Path, to_top: &Path, folder: &Path) {
        self.max_files = self.max_files.max(self.context.limits.repository_files);
        let tracked = TrackedPaths::read_of(dot_git, to_top, folder);
        self.tracked.push(Arc::new(tracked));
    }

    /// Reads the entries of a folder. In an ignored one, only what is tracked counts.
    fn scan_folder(
        &mut self,
        opened: &OwnedFd,
        path: &mut PathBuf,
        earlier: &[TreeNode],
        depth: usize,
        only_tracked: bool,
    ) -> Result<Vec<TreeNode>, ScanError> {
        if Instant::now() > self.deadline {
            return Err(ScanError::TooSlow);
        }
        let before = self.files;
        let listed = self.list_names(opened);
        if let Some(counted) = &mut self.counted {
            counted.push(CountedFolder::from_open(opened, path, self.files - before));
        }
        let mut names = listed?;
        names.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let has = |name: &str| {
            names.binary_search_by(|(found, _)| found.as_os_str().cmp(OsStr::new(name)))
        };
        let levels = self.levels.len();
        let tracked = self.tracked.len();
        if has(".git").is_ok() && !only_tracked {
            // Opened by the folder, which may have another place by now.
            let dot_git = PathBuf::from(format!(
                "/proc/self/fd/{}/.git",
                std::os::fd::AsRawFd::as_raw_fd(opened)
            ));
            self.enter_repository(&dot_git, Path::new(""), path);
        }
        if has(".gitignore").is_ok()
            && let Ok(file) = open_file(opened, OsStr::new(".gitignore"))
            && let Some(rules) = self.context.rules.load_rules(file)
        {
            self.levels.push(RulesLevel {
                rules,
                folder: Some(path.clone()),
                to_top: PathBuf::new(),
            });
        }
        let mut nodes = Vec::with_capacity(names.len());
        let mut earlier = earlier.iter().peekable();
        for (name, kind) in names {
            while earlier.next_if(|node| node.name < name).is_some() {}
            let known = earlier.next_if(|node| node.name == name);
            path.push(&name);
            let node = self.visit_entry(opened, path, (name, kind), known, depth, only_tracked);
            path.pop();
            nodes.extend(node?);
        }
        self.levels.truncate(levels);
        self.tracked.truncate(tracked);
        Ok(nodes)
    }

    fn list_names(&mut self, opened: &OwnedFd) -> Result<Vec<(OsString, FileType)>, ScanError> {
        let mut names = Vec::new();
        for entry in Dir::read_from(opened).map_err(io::Error::from)? {
            let entry = entry.map_err(io::Error::from)?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            self.files += 1;
            if self.files > self.max_files {
                return Err(ScanError::TooMany(self.max_files));
            }
            names.push((OsStr::from_bytes(name).to_owned(), entry.file_type()));
        }
        Ok(names)
    }

    /// Reads one entry; `None` if it is gone, or not to be covered nor named.
    fn visit_entry(
        &mut self,
        folder: &OwnedFd,
        path: &mut PathBuf,
        (name, kind): (OsString, FileType),
        known: Option<&TreeNode>,
        depth: usize,
        only_tracked: bool,
    ) -> Result<Option<TreeNode>, ScanError> {
        let uncovered = |name, why| Ok(Some(TreeNode::uncovered(name, why, None)));
        if name == ".git" {
            return uncovered(name, UncoveredReason::Repository);
        }
        let status = match kind {
            FileType::Unknown => match stat_entry(folder, &name)? {
                Some(status) => Some(status),
                None => return Ok(None),
            },
            _ => None,
        };
        let kind = status.map_or(kind, |status| FileType::from_raw_mode(status.st_mode));
        let is_folder = kind == FileType::Directory;
        let is_left_out = only_tracked || is_ignored(&self.levels, path, is_folder);
        // As in git, what was covered stays covered: the repository may be gone, or its rules may have changed.
        let was_covered =
            |known: &TreeNode| !matches!(known.content, PathContent::Uncovered { .. });
        if is_left_out && !known.is_some_and(was_covered) && !self.is_tracked(path, is_folder) {
            return if only_tracked || kind != FileType::RegularFile {
                uncovered(name, UncoveredReason::Ignored)
            } else {
                self.scan_ignored_file(folder, name, known)
            };
        }
        let Some(status) = status.map_or_else(|| stat_entry(folder, &name), |it| Ok(Some(it)))?
        else {
            return Ok(None);
        };
        let mode = status.st_mode & 0o7777;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::Directory if status.st_dev != self.device => {
                uncovered(name, UncoveredReason::OtherFileSystem)
            }
            FileType::Directory if self.context.home == Some((status.st_dev, status.st_ino)) => {
                uncovered(name, UncoveredReason::Home)
            }
            FileType::Directory if depth >= MAX_DEPTH => uncovered(name, UncoveredReason::TooDeep),
            FileType::Directory => {
                let opened = match open_folder(folder, &name) {
                    Ok(opened) => opened,
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
                    Err(Errno::ACCESS | Errno::PERM) => {
                        return uncovered(name, UncoveredReason::Unreadable);
                    }
                    Err(cause) => return Err(io::Error::from(cause).into()),
                };
                let earlier = known.map_or(&[][..], |known| &known.entries);
                let entries = self.scan_folder(&opened, path, earlier, depth + 1, is_left_out);
                // It can be opened, but not searched.
                if entries.as_ref().is_err_and(ScanError::is_denied) {
                    return uncovered(name, UncoveredReason::Unreadable);
                }
                Ok(Some(TreeNode {
                    entries: entries?,
                    ..TreeNode::leaf(name, PathContent::Folder { mode }, None)
                }))
            }
            FileType::Symlink => {
                let target = match readlinkat(folder, &name, Vec::new()) {
                    Ok(target) => PathBuf::from(OsStr::from_bytes(target.to_bytes())),
                    Err(_) => return Ok(None),
                };
                let content = PathContent::Link {
                    target: ManifestPath(target),
                };
                Ok(Some(TreeNode::leaf(name, content, None)))
            }
            FileType::RegularFile => self.scan_file(folder, name, &status, known),
            _ => uncovered(name, UncoveredReason::Special),
        }
    }

    fn scan_file(
        &mut self,
        folder: &OwnedFd,
        name: OsString,
        status: &Stat,
        known: Option<&TreeNode>,
    ) -> Result<Option<TreeNode>, ScanError> {
        let size = file_size(status);
        let leaf = |name, content, stamp| Ok(Some(TreeNode::leaf(name, content, stamp)));
        let uncovered = |name, why| {
            Ok(Some(TreeNode::uncovered(
                name,
                why,
                Some(change_stamp(status)),
            )))
        };
        if size > LARGEST_KEPT {
            return uncovered(name, UncoveredReason::TooLarge);
        }
        self.bytes += size;
        if self.bytes > self.context.limits.bytes {
            let most = punie_text::output::number_format::format_size(self.context.limits.bytes);
            return Err(ScanError::TooLarge(most));
        }
        if self.counted.is_some() {
            return Ok(None);
        }
        let mode = status.st_mode & 0o7777;
        if let Some(TreeNode {
            content: PathContent::File { sha256, size, .. },
            stamp: Some(stamp),
            ..
        }) = known
            && *stamp == change_stamp(status)
        {
            let content = PathContent::File {
                sha256: sha256.clone(),
                size: *size,
                mode,
            };
            return leaf(name, content, Some(*stamp));
        }
        let (read, status) = match read_whole_file(folder, &name) {
            Ok(read) => read,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied => {
                return uncovered(name, UncoveredReason::Unreadable);
            }
            Err(cause) => return Err(cause.into()),
        };
        let mode = status.map_or(mode, |status| status.st_mode & 0o7777);
        let content = self.store_file(&read, mode)?;
        let stamp = status.and_then(|status| self.settled_stamp(&status));
        leaf(name, content, stamp)
    }

    /// Stores the content of a file.
    fn store_file(&self, read: &[u8], mode: u32) -> Result<PathContent, ScanError> {
        let stored = self.context.contents.store_content(read);
        let sha256 = stored.map_err(|cause| match cause.kind() {
            io::ErrorKind::QuotaExceeded => ScanError::NoRoom,
            _ => cause.into(),
        })?;
        Ok(PathContent::File {
            sha256,
            size: read.len() as u64,
            mode,
        })
    }

    /// The stamp of a file by which a later scan knows it again; `None` if it changed only now.
    fn settled_stamp(&self, status: &Stat) -> Option<ChangeStamp> {
        (changed_at(status) < self.settled_before).then(|| change_stamp(status))
    }

    /// Returns whether a repository tracks this file, or something in this folder.
    fn is_tracked(&self, path: &Path, is_folder: bool) -> bool {
        let repository = self.tracked.last();
        repository.is_some_and(|tracked| tracked.contains(path, is_folder))
    }
}
