//! The state of a path of a workspace when an undo is planned.

use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

use super::content_store::hash_file;
use super::display_path;
use super::manifest::ManifestPath;
use super::snapshot::{PathContent, UncoveredReason};
use punie_core::file_metadata::permission_bits;
use punie_host::WorkspacePath;

/// A path as it is now.
pub(super) enum PathState {
    Absent,
    File {
        sha256: String,
        mode: Option<u32>,
    },
    /// Something that no tool of ours left there, in words.
    Other(String),
}

impl PathState {
    /// Looks at a path beneath its workspace.
    pub fn read(path: &WorkspacePath) -> Self {
        let read = path.file_metadata().and_then(|metadata| {
            if !metadata.is_file() {
                return Ok(Self::Other("is no regular file any more".to_owned()));
            }
            let (sha256, _) = hash_file(&mut path.open_for_reading()?)?;
            Ok(Self::File {
                sha256,
                mode: permission_bits(&metadata),
            })
        });
        read.unwrap_or_else(|cause| match cause.kind() {
            io::ErrorKind::NotFound => Self::Absent,
            _ => Self::from_read_error(&cause),
        })
    }

    pub fn from_read_error(cause: &io::Error) -> Self {
        // The kernel refuses to follow a link.
        Self::Other(match cause.raw_os_error() {
            Some(libc::ELOOP) => "is a link now, or lies behind one".to_owned(),
            _ => format!("cannot be read ({cause})"),
        })
    }
}

/// Reads a path of a workspace as a snapshot sees it; `None` if there is nothing.
pub(super) fn read_path_content(path: &WorkspacePath) -> io::Result<Option<PathContent>> {
    let found = path.open_parent_folder(false).and_then(|(folder, name)| {
        let metadata = folder.entry_metadata(&name)?;
        let hash = || Ok(hash_file(&mut folder.open_entry_file(&name)?)?.0);
        describe_content(&metadata, hash, || folder.entry_link_target(&name))
    });
    match found {
        Ok(found) => Ok(Some(found)),
        // A folder on the way may be gone, or something else.
        Err(cause)
            if matches!(
                cause.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) || cause.raw_os_error() == Some(libc::ELOOP) =>
        {
            Ok(None)
        }
        Err(cause) => Err(cause),
    }
}

/// Reads something in the trash in the same way, or what is about to go there.
pub(super) fn read_item_content(path: &Path) -> Option<PathContent> {
    let metadata = path.symlink_metadata().ok()?;
    let hash = || Ok(hash_file(&mut std::fs::File::open(path)?)?.0);
    describe_content(&metadata, hash, || std::fs::read_link(path)).ok()
}

fn describe_content(
    metadata: &Metadata,
    hash: impl FnOnce() -> io::Result<String>,
    target: impl FnOnce() -> io::Result<PathBuf>,
) -> io::Result<PathContent> {
    let mode = permission_bits(metadata).unwrap_or_default();
    Ok(if metadata.is_symlink() {
        PathContent::Link {
            target: ManifestPath(target()?),
        }
    } else if metadata.is_dir() {
        PathContent::Folder { mode }
    } else if metadata.is_file() {
        PathContent::File {
            sha256: hash()?,
            size: metadata.len(),
            mode,
        }
    } else {
        PathContent::Uncovered {
            why: UncoveredReason::Special,
            stamp: None,
        }
    })
}

/// Shows a path in a line of text.
pub(super) fn display_workspace_path(path: &WorkspacePath) -> String {
    display_path(path.absolute_path())
}
