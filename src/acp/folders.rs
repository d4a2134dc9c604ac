//! What a folder's listing asks for and gives. Not here: who lists.

use std::ffi::OsString;
use std::path::PathBuf;

use super::WorkspacePath;

/// Which folder to list.
#[derive(Debug, Clone)]
pub struct ListFolder {
    /// The folder.
    pub path: WorkspacePath,
    /// With everything below it, but for `.git` and what ignore files name.
    pub recursive: bool,
    /// The first entry, from 1; negative from the end.
    pub offset: i64,
    /// At most so many entries.
    pub limit: usize,
}

/// What is in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderListing {
    /// The number of the first entry that is given, from 1.
    pub first: u64,
    /// In order of name.
    pub entries: Vec<FolderEntry>,
    /// How many there are in all, or were seen before the listing stopped.
    pub total: u64,
    /// The counting stopped early: there may be more than `total`.
    pub cut_short: bool,
}

/// One name in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderEntry {
    /// Its path from the listed folder.
    pub name: OsString,
    /// What it is.
    pub kind: EntryKind,
}

/// What a name in a folder stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    /// A file of so many bytes.
    File(u64),
    /// A folder.
    Folder,
    /// A link, with what it says.
    Link(PathBuf),
    /// A FIFO, a socket or a device.
    Special,
    /// It could not be looked at.
    Unknown,
}
