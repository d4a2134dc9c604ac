//! Stamps by which changes of protected paths are detected.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The number of a protected folder's entries that are read.
pub(super) const MAX_FOLDER_ENTRIES: usize = 10_000;

/// A stamp by which changes are detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathStamp {
    /// A folder without its own stamp: its files are stamped one by one.
    Separate,
    /// Inode, size, mode, and ctime, which no command can set.
    Single(u64, u64, u32, i64, i64),
}

impl PathStamp {
    /// Returns the inode of a single path.
    pub fn inode(&self) -> Option<u64> {
        match self {
            Self::Separate => None,
            Self::Single(inode, ..) => Some(*inode),
        }
    }
}

/// The files of a protected folder.
pub(super) struct ProtectedFiles {
    pub found: Vec<(PathBuf, PathStamp)>,
    /// The number of entries that may still be read.
    pub left: usize,
    /// A folder that is not protected with the one around it.
    apart: Option<PathBuf>,
}

impl ProtectedFiles {
    pub fn new(apart: Option<PathBuf>) -> Self {
        Self {
            found: Vec::new(),
            left: MAX_FOLDER_ENTRIES,
            apart,
        }
    }

    /// Stamps the files of a folder. Sample hooks are skipped: git never runs them, and there may be many.
    pub fn walk_files(&mut self, folder: &Path, depth: usize) {
        for entry in fs::read_dir(folder)
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
        {
            if self.left == 0 {
                return;
            }
            self.left -= 1;
            let path = entry.path();
            let kind = entry.file_type();
            if self.apart.as_ref() == Some(&path) {
                continue;
            }
            let is_folder = kind.is_ok_and(|kind| kind.is_dir());
            if !is_folder
                && path
                    .extension()
                    .is_some_and(|extension| extension == "sample")
            {
                continue;
            }
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            if is_folder && depth > 0 {
                self.walk_files(&path, depth - 1);
            } else {
                self.found.push((path, path_stamp(&metadata)));
            }
        }
    }
}

/// Returns the stamp of a single path.
pub(super) fn path_stamp(metadata: &Metadata) -> PathStamp {
    let mode = metadata.mode();
    let seconds = metadata.ctime();
    let nanos = metadata.ctime_nsec();
    PathStamp::Single(metadata.ino(), metadata.size(), mode, seconds, nanos)
}
