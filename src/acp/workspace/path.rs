//! A path that lies in a workspace, and the ways to open it. Not here: how it was proven (`Workspace::resolve`).

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::held::{self, Folder};
use super::{Root, in_words};
use crate::acp::protected::{self, Protection};
use crate::output::path_text::path_text;

/// A path that lies in a workspace. It holds no links; whoever puts one there afterwards gets an error on opening,
/// never another file.
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

/// A symbolic link that leads to nothing.
#[derive(Debug, Clone)]
pub struct DanglingLink {
    /// Where the link is.
    pub link: PathBuf,
    /// What it says.
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

    /// The absolute path, for showing and for walking.
    pub fn absolute(&self) -> &Path {
        &self.absolute
    }

    /// The path as an answer shows it, and as [`super::Workspace::resolve`] takes it.
    pub fn shown(&self) -> String {
        path_text(&self.absolute)
    }

    /// The workspace folder it lies in.
    pub fn root(&self) -> &Path {
        &self.root.canonical
    }

    /// The path from that folder, without links.
    pub fn relative(&self) -> &Path {
        &self.rel
    }

    /// Whether there was something when it was resolved.
    pub fn existed(&self) -> bool {
        self.exists
    }

    /// Whether the text ended in a slash, so that only a folder will do.
    pub fn names_folder(&self) -> bool {
        self.names_folder
    }

    /// The link that led to nothing, if one did.
    pub fn dangling_link(&self) -> Option<&DanglingLink> {
        self.dangling.as_ref()
    }

    /// The rule that keeps this path from being written, by its true name or by the name that was asked for.
    pub fn protection(&self) -> Option<Protection> {
        protected::rule_for(&self.rel).or_else(|| protected::rule_for(&self.asked))
    }

    /// Opens the file for reading.
    ///
    /// # Errors
    /// `IsADirectory` for a folder, `InvalidInput` at once for anything else that is not a regular file, and
    /// `PermissionDenied` for a hard link to another user's file: it may be a door to a file from elsewhere.
    pub fn open_read(&self) -> io::Result<File> {
        // To open a FIFO lets its writer go on, and to open a device may do something: neither is opened at all.
        self.check_regular(&self.metadata().map_err(in_words)?)?;
        let file = self.root.held.open_file(&self.rel).map_err(in_words)?;
        self.check_regular(&file.metadata().map_err(in_words)?)?;
        Ok(file)
    }

    /// What the file system knows of it.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.root.held.metadata(&self.rel)
    }

    /// Opens it as a folder.
    pub fn open_folder(&self) -> io::Result<Folder> {
        self.root.held.open_folder(&self.rel).map_err(in_words)
    }

    /// Opens the folder it lies in, to write beside or over it, with its name there.
    ///
    /// # Errors
    /// `NotFound` where the folder is missing and `create` is false; `IsADirectory` for a workspace folder itself.
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
