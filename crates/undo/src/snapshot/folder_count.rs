//! The count of a workspace that holds more files than a snapshot may have: it is taken once, and afterwards only the
//! folders that changed are counted again.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, fstat, statat};

use super::file_reading::{change_stamp, open_folder, stat_entry};
use super::tree_node::ChangeStamp;

/// A folder that was counted.
#[derive(Debug)]
pub(super) struct CountedFolder {
    /// From the top of the workspace.
    path: PathBuf,
    stamp: Option<ChangeStamp>,
    rules: FolderRules,
    names: usize,
}

/// What decides which of the names below a folder count, and how many may be there.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FolderRules {
    is_repository: bool,
    ignore_file: Option<ChangeStamp>,
}

impl FolderRules {
    fn read_from(folder: &OwnedFd) -> Self {
        let find = |name: &str| stat_entry(folder, name.as_ref()).ok().flatten();
        Self {
            is_repository: find(".git").is_some(),
            ignore_file: find(".gitignore").as_ref().map(change_stamp),
        }
    }
}

/// Reads the rules of the folders above a workspace.
pub(super) fn read_rules_above(top: &Path) -> Vec<FolderRules> {
    let above = top.ancestors().skip(1);
    let opened = above.filter_map(|folder| open_folder(CWD, folder.as_os_str()).ok());
    opened
        .map(|folder| FolderRules::read_from(&folder))
        .collect()
}

impl CountedFolder {
    /// Describes an open folder in which so many names were counted.
    pub fn from_open(folder: &OwnedFd, path: &Path, names: usize) -> Self {
        Self {
            path: path.to_owned(),
            stamp: fstat(folder).ok().as_ref().map(change_stamp),
            rules: FolderRules::read_from(folder),
            names,
        }
    }

    /// Counts the names again if the folder has changed. Returns false where other names may count than before.
    fn count_again(&mut self, top: &Path) -> bool {
        let path = top.join(&self.path);
        let stamp = statat(CWD, &path, AtFlags::SYMLINK_NOFOLLOW);
        let stamp = stamp.ok().as_ref().map(change_stamp);
        let is_same = stamp.is_some() && stamp == self.stamp;
        if is_same && self.rules.ignore_file.is_none() {
            return true;
        }
        let Ok(folder) = open_folder(CWD, path.as_os_str()) else {
            (self.stamp, self.names) = (None, 0);
            return true;
        };
        if FolderRules::read_from(&folder) != self.rules {
            return false;
        }
        if !is_same {
            let entries = Dir::read_from(&folder).into_iter().flatten().flatten();
            let is_own = |name: &std::ffi::CStr| name != c"." && name != c"..";
            self.names = entries.filter(|entry| is_own(entry.file_name())).count();
            self.stamp = stamp;
        }
        true
    }
}

/// Returns whether these folders of a workspace still hold more names than this.
pub(super) fn hold_more_than(max: usize, top: &Path, folders: &mut [CountedFolder]) -> bool {
    let mut names = 0;
    for folder in folders {
        if !folder.count_again(top) {
            return false;
        }
        names += folder.names;
        if names > max {
            return true;
        }
    }
    false
}
