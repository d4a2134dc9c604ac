//! Putting back a protected file that changed: the changed one is kept in the trash, as if a file tool had made the
//! change that puts it back, so that undoing brings it in its place again.
#![cfg(unix)]

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::inventory::UndoLogLine;
use super::{BeforeImageStore, Trash};
use punie_core::durable::temp_name;
use punie_core::ids::{RequestId, to_hex};
use punie_host::local::protected_path_records::FileContent;
use punie_host::workspace::FolderHandle;
use punie_tool::CallIntent;

/// The name in place of a tool.
const TOOL: &str = "protected-paths";

impl BeforeImageStore {
    /// Moves a file to the trash, unless an entry `kept` has it already, and puts this content in its place, or
    /// nothing. Returns the entry; `None` if the file was not kept or there was none.
    ///
    /// # Errors
    /// The system's; the file may be where it was then.
    pub fn put_back(
        &self,
        path: &Path,
        content: Option<&FileContent>,
        kept: Option<&RequestId>,
    ) -> io::Result<Option<RequestId>> {
        let outside = || io::Error::other("it lies in no workspace");
        let target = self.workspace.path_if_inside(path).ok_or_else(outside)?;
        let (folder, name) = target.open_parent_folder(false)?;
        let found = folder.entry_metadata(&name).ok();
        let is_file = found.as_ref().is_some_and(std::fs::Metadata::is_file);
        let changed = (kept.is_none() && is_file).then(|| folder.open_entry_file(&name).ok());
        // First of all, since a program of the owner's may be about to use the file.
        match content {
            Some(content) => place_content(&folder, &name, content)?,
            None if found.is_some() => folder.remove_file_entry(&name)?,
            None => {}
        }
        folder.fsync_folder()?;
        let (Some(changed), Some(text)) = (changed.flatten(), path.to_str()) else {
            return Ok(kept.cloned());
        };
        let request = RequestId::new();
        let change = CallIntent::File {
            path: text.to_owned(),
            before: None,
            after: content.map(|content| to_hex(&Sha256::digest(&content.bytes))),
            executable: None,
            temp: String::new(),
        };
        let remarks = self.store(&request, TOOL, &[change], Some(changed));
        let is_kept = remarks.is_empty();
        for remark in remarks {
            tracing::warn!(path = %path.display(), "{remark}");
        }
        Ok(is_kept.then_some(request))
    }
}

/// Replaces a file by one with this content.
fn place_content(folder: &FolderHandle, name: &OsStr, content: &FileContent) -> io::Result<()> {
    let temp = temp_name(name)?;
    let mut file = folder.create_new_file(&temp, 0o600)?;
    let mode = std::fs::Permissions::from_mode(content.mode);
    let placed = file
        .write_all(&content.bytes)
        .and_then(|()| file.set_permissions(mode))
        .and_then(|()| folder.rename_entry(&temp, name));
    if placed.is_err() {
        let _ = folder.remove_file_entry(&temp);
        return placed;
    }
    file.sync_all()
}

impl Trash {
    /// Returns whether an undo of this request was begun.
    pub fn is_undone(&self, request: &RequestId) -> bool {
        let is_it = |undo: &UndoLogLine| undo.request == *request;
        self.read_undo_log()
            .is_ok_and(|undos| undos.iter().any(is_it))
    }
}
