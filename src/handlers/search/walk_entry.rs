//! The parts of a walk: its starts, folders and entries, and its visitor.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::folder::{FolderOpener, SearchFolder};
use super::folder_entries::{EntryNames, WalkEntryKind};
use super::ignore_rules::IgnoreRules;

#[derive(Debug, Clone)]
pub(super) struct WalkStart {
    /// The folder that paths are relative to.
    pub(super) root: Arc<Path>,
    /// The path relative to it.
    pub(super) rel: PathBuf,
    pub(super) kind: WalkEntryKind,
    pub(super) rules: Option<IgnoreRules>,
}

#[derive(Debug)]
pub(super) struct WalkFolder {
    pub(super) root: Arc<Path>,
    /// The path relative to the root.
    pub(super) rel: PathBuf,
    pub(super) folder: SearchFolder,
    /// `None` if nothing is ignored.
    pub(super) rules: Option<IgnoreRules>,
    /// The chosen names, in order.
    pub(super) names: EntryNames,
}

pub(super) struct WalkEntry<'a> {
    pub(super) root: &'a Arc<Path>,
    pub(super) rel: &'a Path,
    pub(super) name: &'a OsStr,
    /// The call named it by its own path.
    pub(super) named: bool,
    pub(super) source: EntrySource<'a>,
}

/// The open folder of an entry, or the opener of the entry with which a walk begins.
pub(super) enum EntrySource<'a> {
    Folder(&'a SearchFolder),
    Start(&'a FolderOpener),
}

impl<'a> WalkEntry<'a> {
    pub(super) fn in_folder(place: &'a WalkFolder, rel: &'a Path, name: &'a OsStr) -> Self {
        Self {
            root: &place.root,
            rel,
            name,
            named: false,
            source: EntrySource::Folder(&place.folder),
        }
    }

    pub(super) fn absolute_path(&self) -> PathBuf {
        self.root.join(self.rel)
    }

    pub(super) fn open(&self) -> io::Result<File> {
        match self.source {
            EntrySource::Folder(folder) => folder.open_file(self.name),
            EntrySource::Start(folders) => folders.open_start_file(&self.absolute_path()),
        }
    }

    pub(super) fn modified_time(&self) -> Option<SystemTime> {
        match self.source {
            EntrySource::Folder(folder) => folder.modified_time(self.name),
            EntrySource::Start(_) => self
                .absolute_path()
                .symlink_metadata()
                .and_then(|meta| meta.modified())
                .ok(),
        }
    }
}

/// The decision about the rest of the walk.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WalkControl {
    Continue,
    /// Continue; there was a match, so the end may be near.
    Found,
    /// Paths after this one below this root are no longer needed.
    Until(Arc<Path>, PathBuf),
    /// Nothing more is needed.
    Quit,
}

/// The visitor of a walk on one thread.
pub(super) trait WalkVisitor: Send {
    /// Chooses among the names in a folder. Chosen folders are entered and chosen files are visited later, in order
    /// of path.
    fn choose_entries(
        &mut self,
        place: &mut WalkFolder,
        names: &EntryNames,
        path: &mut OsString,
    ) -> (EntryNames, WalkControl);
    /// Visits a chosen file, or one with which the walk began.
    fn visit_file(&mut self, entry: &WalkEntry<'_>) -> WalkControl;
    /// Counts a folder that could not be opened or listed.
    fn count_unreadable(&mut self);
}

impl WalkFolder {
    /// Joins a name to the path of the folder, in a buffer.
    pub(super) fn join_name<'a>(&self, name: &OsStr, buffer: &'a mut OsString) -> &'a Path {
        buffer.clear();
        if !self.rel.as_os_str().is_empty() {
            buffer.push(&self.rel);
            buffer.push(std::path::MAIN_SEPARATOR_STR);
        }
        buffer.push(name);
        Path::new(buffer)
    }
}
