//! A folder of a search on systems without folder handles, given by its path. This is weaker than on Linux: a folder
//! that is replaced by a link meanwhile may be listed elsewhere. Its files are still opened through the workspace.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::folder_entries::{FolderBuffer, WalkEntryKind};
use punie_host::{FileView, Workspace};

/// The workspace that opens the files.
#[derive(Debug)]
pub(super) struct FolderOpener {
    workspace: Workspace,
    view: Option<Arc<FileView>>,
}

/// A folder given by its path.
#[derive(Debug)]
pub(super) struct SearchFolder {
    path: PathBuf,
    folders: Arc<FolderOpener>,
}

impl FolderOpener {
    pub(super) fn new(workspace: Workspace, view: Option<Arc<FileView>>) -> Arc<Self> {
        Arc::new(Self { workspace, view })
    }

    /// Returns the folder in which a search begins.
    pub(super) fn open_folder(self: &Arc<Self>, path: &Path) -> io::Result<SearchFolder> {
        Ok(SearchFolder {
            path: path.to_owned(),
            folders: Arc::clone(self),
        })
    }

    /// Opens a file with which a search begins.
    pub(super) fn open_start_file(&self, path: &Path) -> io::Result<File> {
        let viewed = self.view.as_ref().and_then(|view| view.open_at(path));
        viewed.unwrap_or_else(|| self.workspace.open_found_file(path))
    }
}

impl SearchFolder {
    pub(super) fn open_subfolder(&self, name: &OsStr) -> io::Result<Self> {
        self.folders.open_folder(&self.path.join(name))
    }

    pub(super) fn read_names(&mut self, listing: &mut FolderBuffer) -> io::Result<()> {
        listing.names.clear();
        let view = self.folders.view.as_ref();
        let entries = match self.path.read_dir() {
            Err(cause) if !view.is_some_and(|view| view.has_files_below(&self.path)) => {
                return Err(cause);
            }
            entries => entries.into_iter().flatten(),
        };
        for entry in entries {
            let entry = entry?;
            let kind = match entry.file_type()? {
                kind if kind.is_symlink() => WalkEntryKind::Link,
                kind if kind.is_dir() => WalkEntryKind::Folder,
                kind if kind.is_file() => WalkEntryKind::File,
                _ => WalkEntryKind::Other,
            };
            listing.names.push(&entry.file_name(), kind);
        }
        if let Some(view) = view {
            listing.names.apply_view(view, &self.path);
        }
        Ok(())
    }

    pub(super) fn open_file(&self, name: &OsStr) -> io::Result<File> {
        self.folders.open_start_file(&self.path.join(name))
    }

    /// Returns the time of a file's last change.
    pub(super) fn modified_time(&self, name: &OsStr) -> Option<SystemTime> {
        let path = self.path.join(name);
        let viewed = self
            .folders
            .view
            .as_ref()
            .and_then(|view| view.file_at(&path));
        let path = match viewed {
            Some(viewed) => viewed?.content.clone(),
            None => path,
        };
        path.symlink_metadata()
            .and_then(|meta| meta.modified())
            .ok()
    }
}
