//! A path in a workspace, and its open operations. Not here: its resolution (`Workspace::resolve`).

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::held::{self, Folder};
use super::{Root, in_words};
use crate::acp::protected::{self, Protection};
use crate::output::path_text::path_text;

/// A path that lies in a workspace and has no symlinks. If one is put there later, opening fails; it never opens
/// another file.
#[derive(Debug, Clone)]
pub struct WorkspacePath {
    root: Arc<Root>,
    rel: PathBuf,
    absolute: PathBuf,
    asked: PathBuf,
    exists: bool,
    dangling: Option<DanglingLink>,
    pub(super) names_folder: bool,
}

/// A symbolic link to a file that does not exist.
#[derive(Debug, Clone)]
pub struct DanglingLink {
    /// The path of the link.
    pub link: PathBuf,
    /// The target of the link.
    pub target: PathBuf,
}

impl WorkspacePath {
    pub(super) fn new(
        root: Arc<Root>,
        rel: PathBuf,
        asked: PathBuf,
        exists: bool,
        dangling: Option<DanglingLink>,
    ) -> Self {
        // Joining an empty path would add a slash.
        let absolute =
            if rel.as_os_str().is_empty() { root.canonical.clone() } else { root.canonical.join(&rel) };
        Self { root, rel, absolute, asked, exists, dangling, names_folder: false }
    }

    /// Returns the absolute path, for display and for walking.
    pub fn absolute(&self) -> &Path {
        &self.absolute
    }

    /// Returns the path as a reply shows it, and as [`super::Workspace::resolve`] accepts it.
    pub fn shown(&self) -> String {
        path_text(&self.absolute)
    }

    /// Returns the workspace folder that it lies in.
    pub fn root(&self) -> &Path {
        &self.root.canonical
    }

    /// Returns the path relative to that folder, without symlinks.
    pub fn relative(&self) -> &Path {
        &self.rel
    }

    /// Returns whether the path existed when it was resolved.
    pub fn existed(&self) -> bool {
        self.exists
    }

    /// Returns whether the text ended in a slash, so that the path must be a folder.
    pub fn names_folder(&self) -> bool {
        self.names_folder
    }

    /// Returns the dangling link that the path led through, if there was one.
    pub fn dangling_link(&self) -> Option<&DanglingLink> {
        self.dangling.as_ref()
    }

    /// Returns the rule that protects this path from writes, by its resolved name or by the requested one.
    pub fn protection(&self) -> Option<Protection> {
        protected::rule_for(&self.rel).or_else(|| protected::rule_for(&self.asked))
    }

    /// Opens the file for reading.
    ///
    /// # Errors
    /// `IsADirectory` for a folder, and `InvalidInput` at once for any other file that is not regular.
    /// `PermissionDenied` for a hard link to another user's file, which may be a file from outside the workspace.
    pub fn open_read(&self) -> io::Result<File> {
        // Opening a FIFO lets its writer continue, and opening a device may have effects, so neither is opened.
        self.check_regular(&self.metadata().map_err(in_words)?)?;
        let file = self.root.held.open_file(&self.rel).map_err(in_words)?;
        self.check_regular(&file.metadata().map_err(in_words)?)?;
        Ok(file)
    }

    /// Returns the metadata of the file.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.root.held.metadata(&self.rel)
    }

    /// Opens it as a folder.
    pub fn open_folder(&self) -> io::Result<Folder> {
        self.root.held.open_folder(&self.rel).map_err(in_words)
    }

    /// Opens the folder that contains it, with its name there, to write beside or over it.
    ///
    /// # Errors
    /// `NotFound` if the folder is missing and `create` is false; `IsADirectory` for a workspace folder itself.
    pub fn open_parent(&self, create: bool) -> io::Result<(Folder, OsString)> {
        let (Some(parent), Some(name)) = (self.rel.parent(), self.rel.file_name()) else {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a workspace folder"));
        };
        match self.root.held.open_folder(parent) {
            Err(cause) if create && cause.kind() == io::ErrorKind::NotFound => {
                let mut folder = self.root.held.open_folder(Path::new(""))?;
                for part in parent {
                    folder = folder.enter_or_make(part)?;
                }
                Ok((folder, name.to_owned()))
            }
            opened => Ok((opened?, name.to_owned())),
        }
    }

    fn check_regular(&self, metadata: &Metadata) -> io::Result<()> {
        if metadata.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a folder"));
        }
        if !metadata.is_file() {
            let text = format!(
                "is {}, not a regular file; only regular files are read",
                held::special_kind(metadata)
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        if self.root.held.is_foreign_hard_link(metadata) {
            let text = "has more than one name (a hard link) and belongs to another user, so it may be a file from \
                        outside the workspace; it is not read";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        Ok(())
    }
}
