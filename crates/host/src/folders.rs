//! The arguments and results of listing a folder.

use std::ffi::OsString;
use std::path::PathBuf;

use super::WorkspacePath;

/// A folder to list.
#[derive(Debug, Clone)]
pub struct ListFolder {
    /// The folder.
    pub path: WorkspacePath,
    /// Includes all levels below it, except `.git` and ignored files.
    pub recursive: bool,
    /// The first entry, from 1; negative from the end.
    pub offset: i64,
    /// The most entries to return.
    pub limit: usize,
}

/// The entries of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderListing {
    /// The number of the first returned entry, from 1.
    pub first: u64,
    /// The entries, sorted by name.
    pub entries: Vec<FolderEntry>,
    /// The number of all entries, or of those seen before the listing stopped.
    pub total: u64,
    /// Counting stopped early, so there may be more than `total`.
    pub cut_short: bool,
}

/// One entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderEntry {
    /// Its path relative to the listed folder.
    pub name: OsString,
    /// Its kind.
    pub kind: FolderEntryKind,
}

/// The kind of a folder's entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FolderEntryKind {
    /// A file of this many bytes.
    File(u64),
    /// A folder.
    Folder,
    /// A symlink, with its target.
    Link(PathBuf),
    /// A FIFO, a socket or a device.
    Special,
    /// An entry without readable metadata.
    Unknown,
}
