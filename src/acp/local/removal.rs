//! Removes files and empty folders, and moves files, all beneath the opened folders. Not here: writing a file's
//! content (atomic_write).

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _};

use sha2::{Digest, Sha256};

use super::near_names;
use super::text_window::stamp_of;
use crate::acp::WorkspacePath;
use crate::acp::files::{MoveFile, Precondition, RemoveFile};
use crate::acp::workspace::{Folder, in_words};
use crate::failpoint::reach_of;
use crate::ids::hex;
use crate::tool::{ErrorCode, ToolError};

pub(super) fn remove(request: &RemoveFile) -> Result<(), ToolError> {
    let (folder, name) = regular(&request.path, &request.only_if)?;
    folder.remove(&name).and_then(|()| folder.sync()).map_err(|cause| failed(&request.path, cause))
}

pub(super) fn rename(request: &MoveFile) -> Result<(), ToolError> {
    let (from, name) = regular(&request.from, &request.only_if)?;
    if let Some(protection) = request.to.protection() {
        return Err(protection.denied(&request.to.shown()));
    }
    let (to, new_name) = request.to.open_parent(true).map_err(|cause| failed(&request.to, cause))?;
    from.move_new(&name, &to, &new_name).map_err(|cause| match cause.kind() {
        io::ErrorKind::AlreadyExists => stale(&request.to, "exists already"),
        _ => failed(&request.to, cause),
    })?;
    reach_of("rename.after", &request.from.shown());
    // The new name is synced first: after a crash between the two, the file still has a name.
    to.sync().and_then(|()| from.sync()).map_err(|cause| failed(&request.to, cause))
}

/// Removes a folder if it is empty, and returns whether it did.
pub(super) fn remove_empty_folder(path: &WorkspacePath) -> Result<bool, ToolError> {
    let (folder, name) = path.open_parent(false).map_err(|cause| failed(path, cause))?;
    match folder.remove_folder(&name) {
        Ok(()) => folder.sync().map(|()| true).map_err(|cause| failed(path, cause)),
        Err(cause) if cause.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
        Err(cause) => Err(failed(path, cause)),
    }
}

/// Opens the folder of a regular file that meets the precondition, and returns it with the file's name.
fn regular(path: &WorkspacePath, only_if: &Precondition) -> Result<(Folder, OsString), ToolError> {
    let shown = path.shown();
    if let Some(protection) = path.protection() {
        return Err(protection.denied(&shown));
    }
    let (folder, name) = path.open_parent(false).map_err(|cause| failed(path, cause))?;
    let metadata = folder.metadata(&name).map_err(|cause| failed(path, cause))?;
    if metadata.is_dir() {
        return Err(ToolError::new(ErrorCode::IsDirectory, format!("{shown} is a folder, not a file.")));
    }
    if !metadata.is_file() {
        let text = format!("{shown} is not a regular file. Only regular files are moved or removed.");
        return Err(ToolError::new(ErrorCode::PermissionDenied, text));
    }
    let holds = match only_if {
        Precondition::None => true,
        Precondition::Absent => false,
        Precondition::AsLoaded(stamp) => stamp_of(&metadata) == *stamp,
        Precondition::Content(sha256) => {
            let is = hash(&folder, &name).map_err(|cause| failed(path, cause))?;
            is.eq_ignore_ascii_case(sha256)
        }
    };
    if holds { Ok((folder, name)) } else { Err(stale(path, "was changed by somebody else meanwhile")) }
}

pub(super) fn hash(folder: &Folder, name: &OsStr) -> io::Result<String> {
    let mut file = folder.open_file(name)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        let n = file.read(&mut buffer)?;
        if n == 0 {
            return Ok(hex(&hasher.finalize()));
        }
        hasher.update(&buffer[..n]);
    }
}

fn failed(path: &WorkspacePath, cause: io::Error) -> ToolError {
    match cause.kind() {
        io::ErrorKind::NotFound => near_names::missing(path),
        io::ErrorKind::IsADirectory => {
            ToolError::new(ErrorCode::IsDirectory, format!("{} is a workspace folder.", path.shown()))
        }
        _ => ToolError::io(path.shown(), &in_words(cause)),
    }
}

fn stale(path: &WorkspacePath, what: &str) -> ToolError {
    ToolError::new(ErrorCode::Stale, format!("{} {what}.", path.shown()))
}
