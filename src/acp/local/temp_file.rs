//! A file that has no name of its own yet: written beside its target, then put in its place or removed.
//! Not here: what is written, and whether it may be.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::sync::Arc;

use crate::acp::workspace::Folder;

/// A file under a name of its own, gone again unless it gets its real one.
pub(super) struct TempFile {
    folder: Arc<Folder>,
    name: Option<OsString>,
    pub file: File,
}

impl TempFile {
    /// Makes it, where nothing has this name.
    pub(super) fn create(folder: Arc<Folder>, name: &OsStr, is_new: bool) -> io::Result<Self> {
        // A new file gets what the umask leaves; one that replaces another is private until it has its mode.
        let file = folder.create_new(name, if is_new { 0o666 } else { 0o600 })?;
        Ok(Self { folder, name: Some(name.to_owned()), file })
    }

    /// Puts it in place of what has this name.
    pub(super) fn replace(&mut self, target: &OsStr) -> io::Result<()> {
        if let Some(name) = &self.name {
            self.folder.rename(name, target)?;
        }
        self.name = None;
        Ok(())
    }

    /// Gives it this name only if nothing has it.
    pub(super) fn appear(&mut self, target: &OsStr) -> io::Result<()> {
        if let Some(name) = &self.name {
            self.folder.rename_new(name, target)?;
        }
        self.name = None;
        Ok(())
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // Nothing more can be done about a name that cannot be removed.
            let _ = self.folder.remove(name);
        }
    }
}
