//! A temporary file beside its target, which is renamed into place or removed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::sync::Arc;

use crate::workspace::FolderHandle;

/// A temporary file, removed on drop unless it was renamed.
pub(super) struct TempFile {
    folder: Arc<FolderHandle>,
    name: Option<OsString>,
    pub file: File,
}

impl TempFile {
    /// Creates the file if the name is free.
    pub(super) fn create(
        folder: Arc<FolderHandle>,
        name: &OsStr,
        is_new: bool,
    ) -> io::Result<Self> {
        // A new file gets the mode that the umask allows; one that replaces another is private until its mode is set.
        let file = folder.create_new_file(name, if is_new { 0o666 } else { 0o600 })?;
        Ok(Self {
            folder,
            name: Some(name.to_owned()),
            file,
        })
    }

    /// Renames it over the target.
    pub(super) fn replace_target(&mut self, target: &OsStr) -> io::Result<()> {
        if let Some(name) = &self.name {
            self.folder.rename_entry(name, target)?;
        }
        self.name = None;
        Ok(())
    }

    /// Renames it to this name only if the name is free.
    pub(super) fn rename_to_new(&mut self, target: &OsStr) -> io::Result<()> {
        if let Some(name) = &self.name {
            self.folder.rename_without_replacing(name, target)?;
        }
        self.name = None;
        Ok(())
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // Nothing more can be done about a name that cannot be removed.
            let _ = self.folder.remove_file_entry(name);
        }
    }
}
