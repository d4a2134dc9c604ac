//! A path in a workspace, and its open operations. Not here: its resolution (`Workspace::resolve_inside`).

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::explain_io_error;
use super::held::{self, FolderHandle};
use super::workspace_root::WorkspaceRoot;
use crate::protected_path;
use punie_text::output::path_text::path_text;
use punie_tool::ToolError;

/// A path that lies in a workspace and has no symlinks. If one is put there later, opening fails; it never opens
/// another file.
#[derive(Debug, Clone)]
pub struct WorkspacePath {
    root: Arc<WorkspaceRoot>,
    rel: PathBuf,
    absolute: PathBuf,
    asked: PathBuf,
    exists: bool,
    is_staged: bool,
    dangling: Option<Box<DanglingLink>>,
    pub(super) names_folder: bool,
    pub(super) asked_form: PathForm,
    /// The requested path as an absolute one, before links were followed.
    pub(super) asked_absolute: Option<Arc<Path>>,
    shown: Option<Arc<str>>,
}

/// The form of a requested path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathForm {
    Absolute,
    Relative,
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
        root: Arc<WorkspaceRoot>,
        rel: PathBuf,
        asked: PathBuf,
        exists: bool,
        dangling: Option<DanglingLink>,
    ) -> Self {
        // Joining an empty path would add a slash.
        let absolute = if rel.as_os_str().is_empty() {
            root.canonical.clone()
        } else {
            root.canonical.join(&rel)
        };
        Self {
            root,
            rel,
            absolute,
            asked,
            exists,
            is_staged: false,
            dangling: dangling.map(Box::new),
            names_folder: false,
            asked_form: PathForm::Absolute,
            asked_absolute: None,
            shown: None,
        }
    }

    /// Returns this path as one whose content stands in for that of another: texts name the other one.
    #[must_use]
    pub fn shown_as(self, other: &Self) -> Self {
        Self {
            shown: Some(other.display_text().into()),
            ..self
        }
    }

    /// Returns this path as one whose changes are staged, and at which a call finds a file or does not.
    #[must_use]
    pub fn as_staged(self, exists: bool) -> Self {
        Self {
            exists,
            is_staged: true,
            ..self
        }
    }

    /// Returns whether changes by this call are staged, so that the real file stays as it is.
    pub fn is_staged(&self) -> bool {
        self.is_staged
    }

    /// Returns whether the text named a path below this folder, and a symlink led out of it.
    pub fn leads_out_of(&self, folder: &Path) -> bool {
        let asked = self.asked_absolute.as_deref();
        asked.is_some_and(|asked| asked.starts_with(folder)) && !self.absolute.starts_with(folder)
    }

    /// Returns the absolute path, for display and for walking.
    pub fn absolute_path(&self) -> &Path {
        &self.absolute
    }

    /// Returns the path as a reply shows it, and as [`super::Workspace::resolve_inside`] accepts it.
    pub fn display_text(&self) -> String {
        match &self.shown {
            Some(shown) => shown.to_string(),
            None => path_text(&self.absolute),
        }
    }

    /// Returns the path for the head of an answer: relative if the call gave it so and no link led elsewhere.
    pub fn head_text(&self) -> String {
        let is_as_asked = self.asked_form == PathForm::Relative
            && self.shown.is_none()
            && self.asked_absolute.as_deref() == Some(self.absolute.as_path());
        if is_as_asked && !self.rel.as_os_str().is_empty() {
            path_text(&self.rel)
        } else {
            self.display_text()
        }
    }

    /// Builds the error of a tool that could not access the file.
    pub(crate) fn access_error(&self, cause: io::Error) -> ToolError {
        ToolError::from_io(self.display_text(), &explain_io_error(cause))
    }

    /// Returns the workspace folder that it lies in.
    pub fn root_path(&self) -> &Path {
        &self.root.canonical
    }

    /// Returns the path relative to that folder, without symlinks.
    pub fn relative_path(&self) -> &Path {
        &self.rel
    }

    /// Returns whether the path existed when it was resolved; where changes are staged, whether the call finds a file there.
    pub fn existed_when_resolved(&self) -> bool {
        self.exists
    }

    /// Returns whether the text ended in a slash, so that the path must be a folder.
    pub fn names_folder(&self) -> bool {
        self.names_folder
    }

    /// Returns the dangling link that the path led through, if there was one.
    pub fn dangling_link(&self) -> Option<&DanglingLink> {
        self.dangling.as_deref()
    }

    /// Refuses a path that is protected from writes, by its resolved name or by the requested one.
    ///
    /// # Errors
    /// `policy_denied`, naming the rule.
    pub fn check_writable(&self) -> Result<(), ToolError> {
        let exists = |rel: &Path| self.root.handle.metadata_beneath(rel).is_ok();
        let protection = protected_path::find_git_state(&self.rel)
            .or_else(|| protected_path::find_git_state(&self.asked))
            .or_else(|| protected_path::find_bare_repository(&self.rel, exists));
        self.check_runs_nothing()?;
        protection.map_or(Ok(()), |protection| {
            Err(protection.denial_error(&self.display_text()))
        })
    }

    /// Refuses a path that may run programs later. Commands may write the rest of a repository, so that it may be
    /// restored for them.
    ///
    /// # Errors
    /// `policy_denied`, naming the rule.
    pub fn check_runs_nothing(&self) -> Result<(), ToolError> {
        let protection = protected_path::find_protection(&self.rel)
            .or_else(|| protected_path::find_protection(&self.asked));
        protection.map_or(Ok(()), |protection| {
            Err(protection.denial_error(&self.display_text()))
        })
    }

    /// Opens the file for reading.
    ///
    /// # Errors
    /// `IsADirectory` for a folder, and `InvalidInput` at once for any other file that is not regular.
    /// `PermissionDenied` for a hard link to another user's file, which may be a file from outside the workspace.
    pub fn open_for_reading(&self) -> io::Result<File> {
        // Opening a FIFO lets its writer continue, and opening a device may have effects, so neither is opened.
        self.check_regular_file(&self.file_metadata().map_err(explain_io_error)?)?;
        let file = self
            .root
            .handle
            .open_file_beneath(&self.rel)
            .map_err(explain_io_error)?;
        self.check_regular_file(&file.metadata().map_err(explain_io_error)?)?;
        Ok(file)
    }

    /// Returns the metadata of the file.
    pub fn file_metadata(&self) -> io::Result<Metadata> {
        self.root.handle.metadata_beneath(&self.rel)
    }

    /// Opens it as a folder.
    pub fn open_as_folder(&self) -> io::Result<FolderHandle> {
        self.root
            .handle
            .open_folder_beneath(&self.rel)
            .map_err(explain_io_error)
    }

    /// Opens the folder that contains it, with its name there, to write beside or over it.
    ///
    /// # Errors
    /// `NotFound` if the folder is missing and `create` is false; `IsADirectory` for a workspace folder itself.
    pub fn open_parent_folder(&self, create: bool) -> io::Result<(FolderHandle, OsString)> {
        let (Some(parent), Some(name)) = (self.rel.parent(), self.rel.file_name()) else {
            return Err(io::Error::new(
                io::ErrorKind::IsADirectory,
                "is a workspace folder",
            ));
        };
        match self.root.handle.open_folder_beneath(parent) {
            Err(cause) if create && cause.kind() == io::ErrorKind::NotFound => {
                let mut folder = self.root.handle.open_folder_beneath(Path::new(""))?;
                for part in parent {
                    folder = folder.open_or_create_folder(part)?;
                }
                Ok((folder, name.to_owned()))
            }
            opened => Ok((opened?, name.to_owned())),
        }
    }

    fn check_regular_file(&self, metadata: &Metadata) -> io::Result<()> {
        if metadata.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a folder"));
        }
        if !metadata.is_file() {
            let text = format!(
                "is {}, not a regular file; only regular files are read",
                held::special_file_kind(metadata)
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        if self.root.handle.is_foreign_hard_link(metadata) {
            let text = "has more than one name (a hard link) and belongs to another user, so it may be a file from \
                        outside the workspace; it is not read";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        Ok(())
    }
}
