//! The state of a path of a workspace when an undo is planned. Not here: the plan (undo).

use std::io;

use super::before_images::permission_bits;
use super::content_store::hash_file;
use super::display_path;
use crate::acp::WorkspacePath;

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
    pub fn read_path_state(path: &WorkspacePath) -> Self {
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

/// Shows a path in a line of text.
pub(super) fn display_workspace_path(path: &WorkspacePath) -> String {
    display_path(path.absolute_path())
}
