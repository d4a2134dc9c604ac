//! A folder of a search on systems without folder handles, given by its path. This is weaker than on Linux: a folder
//! that is replaced by a link meanwhile may be listed elsewhere. Its files are still opened through the workspace.
//! Not here: the selection of files.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::listing::{Kind, Listing};
use crate::acp::Workspace;

/// The workspace that opens the files.
#[derive(Debug)]
pub(super) struct Folders {
    workspace: Workspace,
}

/// A folder given by its path.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    folders: Arc<Folders>,
}

impl Folders {
    pub(super) fn new(workspace: Workspace) -> Arc<Self> {
        Arc::new(Self { workspace })
    }

    /// Returns the folder in which a search begins.
    pub(super) fn open(self: &Arc<Self>, path: &Path) -> io::Result<Folder> {
        Ok(Folder { path: path.to_owned(), folders: Arc::clone(self) })
    }

    /// Opens a file with which a search begins.
    pub(super) fn open_file(&self, path: &Path) -> io::Result<File> {
        self.workspace.open_found(path)
    }
}

impl Folder {
    /// Returns a folder in this folder.
    pub(super) fn enter(&self, name: &OsStr) -> io::Result<Self> {
        self.folders.open(&self.path.join(name))
    }

    /// Reads the names in the folder.
    pub(super) fn list(&mut self, listing: &mut Listing) -> io::Result<()> {
        listing.names.clear();
        for entry in self.path.read_dir()? {
            let entry = entry?;
            let kind = match entry.file_type()? {
                kind if kind.is_symlink() => Kind::Link,
                kind if kind.is_dir() => Kind::Folder,
                kind if kind.is_file() => Kind::File,
                _ => Kind::Other,
            };
            listing.names.push(&entry.file_name(), kind);
        }
        Ok(())
    }

    /// Opens a file in this folder.
    pub(super) fn open_file(&self, name: &OsStr) -> io::Result<File> {
        self.folders.open_file(&self.path.join(name))
    }

    /// Returns the time of a file's last change.
    pub(super) fn modified(&self, name: &OsStr) -> Option<SystemTime> {
        self.path.join(name).symlink_metadata().and_then(|meta| meta.modified()).ok()
    }
}

/// Opens a file with ignore rules, which may lie above the workspace. Accepts only regular files.
pub(super) fn open_rules(path: &Path) -> Option<File> {
    path.symlink_metadata().ok().filter(std::fs::Metadata::is_file)?;
    File::options().read(true).open(path).ok()
}
