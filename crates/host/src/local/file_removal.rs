//! Removes files and empty folders, and moves files, all beneath the opened folders.

use std::ffi::{OsStr, OsString};
use std::io;

use super::file_open::file_stamp;
use super::similar_paths;
use crate::WorkspacePath;
use crate::files::{MoveFile, RemoveFile, WritePrecondition};
use crate::workspace::FolderHandle;
use punie_core::content_hash::hash_content;
use punie_core::failpoint::reach_of;
use punie_core::ids::to_hex;
use punie_tool::{ErrorCode, ToolError};

pub(super) fn remove_regular_file(request: &RemoveFile) -> Result<(), ToolError> {
    let (folder, name) = open_checked_file(&request.path, &request.only_if)?;
    folder
        .remove_file_entry(&name)
        .and_then(|()| folder.fsync_folder())
        .map_err(|cause| removal_error(&request.path, cause))
}

pub(super) fn move_regular_file(request: &MoveFile) -> Result<(), ToolError> {
    let (from, name) = open_checked_file(&request.from, &request.only_if)?;
    request.to.check_writable()?;
    let (to, new_name) = request
        .to
        .open_parent_folder(true)
        .map_err(|cause| removal_error(&request.to, cause))?;
    from.move_without_replacing(&name, &to, &new_name)
        .map_err(|cause| match cause.kind() {
            io::ErrorKind::AlreadyExists => stale_path_error(&request.to, "exists already"),
            _ => removal_error(&request.to, cause),
        })?;
    reach_of("rename.after", &request.from.display_text());
    // The new name is synced first: after a crash between the two, the file still has a name.
    to.fsync_folder()
        .and_then(|()| from.fsync_folder())
        .map_err(|cause| removal_error(&request.to, cause))
}

/// Removes a folder if it is empty, and returns whether it did.
pub(super) fn remove_empty_folder(path: &WorkspacePath) -> Result<bool, ToolError> {
    let (folder, name) = path
        .open_parent_folder(false)
        .map_err(|cause| removal_error(path, cause))?;
    match folder.remove_folder_entry(&name) {
        Ok(()) => folder
            .fsync_folder()
            .map(|()| true)
            .map_err(|cause| removal_error(path, cause)),
        Err(cause) if cause.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
        Err(cause) => Err(removal_error(path, cause)),
    }
}

/// Opens the folder of a regular file that meets the precondition, and returns it with the file's name.
fn open_checked_file(
    path: &WorkspacePath,
    only_if: &WritePrecondition,
) -> Result<(FolderHandle, OsString), ToolError> {
    let shown = path.display_text();
    path.check_writable()?;
    let (folder, name) = path
        .open_parent_folder(false)
        .map_err(|cause| removal_error(path, cause))?;
    let metadata = folder
        .entry_metadata(&name)
        .map_err(|cause| removal_error(path, cause))?;
    if metadata.is_dir() {
        return Err(ToolError::new(
            ErrorCode::IsDirectory,
            format!("{shown} is a folder, not a file."),
        ));
    }
    if !metadata.is_file() {
        let text =
            format!("{shown} is not a regular file. Only regular files are moved or removed.");
        return Err(ToolError::new(ErrorCode::PermissionDenied, text));
    }
    let holds = match only_if {
        WritePrecondition::None => true,
        WritePrecondition::Absent => false,
        WritePrecondition::AsLoaded(stamp) => file_stamp(&metadata) == *stamp,
        WritePrecondition::Content(sha256) => {
            let is = hash_file(&folder, &name).map_err(|cause| removal_error(path, cause))?;
            is.eq_ignore_ascii_case(sha256)
        }
    };
    if holds {
        Ok((folder, name))
    } else {
        Err(stale_path_error(
            path,
            "was changed by somebody else meanwhile",
        ))
    }
}

pub(super) fn hash_file(folder: &FolderHandle, name: &OsStr) -> io::Result<String> {
    Ok(to_hex(&hash_content(folder.open_entry_file(name)?)?))
}

fn removal_error(path: &WorkspacePath, cause: io::Error) -> ToolError {
    match cause.kind() {
        io::ErrorKind::NotFound => similar_paths::missing_path_error(path),
        io::ErrorKind::IsADirectory => ToolError::new(
            ErrorCode::IsDirectory,
            format!("{} is a workspace folder.", path.display_text()),
        ),
        _ => path.access_error(cause),
    }
}

fn stale_path_error(path: &WorkspacePath, what: &str) -> ToolError {
    ToolError::new(ErrorCode::Stale, format!("{} {what}.", path.display_text()))
}
