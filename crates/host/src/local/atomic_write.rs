//! Replaces a file in one step: writes a new file beside it, syncs it and renames it over the target, all beneath the
//! opened folder. A hard link elsewhere keeps the old content.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::file_content_writer::{self, FilledFile, NewBytes};
use super::file_form::preserve_form;
use super::file_open::file_stamp;
use super::mode_and_owner::{copy_mode_and_owner, has_wanted_mode};
use super::old_file::{
    OldFile, check_old_file, inspect_old_file, stale_write_error, write_cancelled_error,
};
use super::similar_paths;
use super::temp_file::TempFile;
use crate::WorkspacePath;
use crate::files::{NewContent, TextSource, WritePrecondition, WriteReport, WriteTextFile};
use crate::prepared_write::PreparedWrite;
use crate::workspace::FolderHandle;
use punie_core::durable::temp_name;
use punie_core::failpoint::reach_of;
use punie_tool::{CallIntent, ErrorCode, ToolError};

/// A write that passed its checks, with the names that it will use.
pub(super) struct AtomicWrite {
    request: WriteTextFile,
    /// The folder and the file's name in it, or `None` if the folder is still to be created.
    target: Option<TargetEntry>,
    old: Option<OldFile>,
    /// The bytes, if the request gives the whole content.
    whole: Vec<u8>,
    /// The report of the write. `None` until staging, if the content is hashed while it is written.
    outcome: Option<WriteReport>,
    unchanged: bool,
    warnings: Vec<String>,
    temp_name: OsString,
    staged: Option<TempFile>,
    cancel: CancellationToken,
}

type TargetEntry = (Arc<FolderHandle>, OsString);

pub(super) fn prepare_write(
    request: WriteTextFile,
    cancel: &CancellationToken,
) -> Result<AtomicWrite, ToolError> {
    let shown = request.path.display_text();
    request.path.check_writable()?;
    let target = match open_target_folder(&request, false) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound && request.create_folders => None,
        found => Some(found.map_err(|cause| explain_missing_folder(&request.path, cause))?),
    };
    let old = match &target {
        Some((folder, name)) => inspect_old_file(folder, name, &request, cancel)?,
        None => None,
    };
    check_old_file(&request, old.as_ref(), &shown)?;
    let (whole, warnings) = match (&request.content, &old) {
        (NewContent::Text(text), Some(old)) => preserve_form(text, &old.bytes, old.invalid),
        (NewContent::Text(text), None) => (text.as_bytes().to_vec(), Vec::new()),
        _ => (Vec::new(), Vec::new()),
    };
    let is_whole = matches!(request.content, NewContent::Text(_));
    let unchanged = is_whole
        && old.as_ref().is_some_and(|old| {
            old.whole && old.bytes == whole && has_wanted_mode(&old.metadata, request.executable)
        });
    if cancel.is_cancelled() && !unchanged {
        return Err(write_cancelled_error(&shown));
    }
    let name = request.path.absolute_path().file_name().unwrap_or_default();
    let temp_name = temp_name(name).map_err(|cause| ToolError::from_io(&shown, &cause))?;
    let mut prepared = AtomicWrite {
        request,
        target,
        old,
        whole,
        outcome: None,
        unchanged,
        warnings: if unchanged { Vec::new() } else { warnings },
        temp_name,
        staged: None,
        cancel: cancel.clone(),
    };
    prepared.outcome = prepared
        .hash_ahead()
        .map(|filled| prepared.to_report(filled));
    // From here on, only the old file's metadata and location are needed.
    if let Some(old) = &mut prepared.old {
        old.bytes = Vec::new();
    }
    Ok(prepared)
}

impl AtomicWrite {
    fn content_bytes(&self) -> NewBytes<'_> {
        match (&self.request.content, &self.old) {
            (NewContent::Spliced { old, splices }, _) => NewBytes::Spliced(old, splices),
            _ => NewBytes::Whole(&self.whole),
        }
    }

    fn old_sha256(&self) -> Option<&str> {
        self.old.as_ref().and_then(|old| old.sha256.as_deref())
    }

    fn hash_ahead(&self) -> Option<FilledFile> {
        file_content_writer::hash_before_writing(&self.content_bytes(), self.old_sha256())
    }

    fn to_report(&self, filled: FilledFile) -> WriteReport {
        let FilledFile {
            before,
            after,
            size,
        } = filled;
        WriteReport {
            created: self.old.is_none(),
            unchanged: self.unchanged,
            before: before.filter(|_| self.old.is_some()),
            after,
            size,
            warnings: Vec::new(),
            by: TextSource::Disk,
        }
    }

    /// Fills the temporary file and syncs it.
    fn fill_temp_file(
        &self,
        file: &mut File,
        warnings: &mut Vec<String>,
    ) -> io::Result<Option<FilledFile>> {
        let old = self.old.as_ref().map(|old| (&old.file, &old.metadata));
        let sync = |file: &File| {
            copy_mode_and_owner(file, old, self.request.executable, warnings)?;
            file.sync_all()
        };
        if self.outcome.is_some() {
            file_content_writer::write_and_sync(file, &self.content_bytes(), sync).map(|()| None)
        } else {
            file_content_writer::write_with_hashes(
                file,
                &self.content_bytes(),
                self.old_sha256(),
                sync,
            )
            .map(Some)
        }
    }
}

impl PreparedWrite for AtomicWrite {
    fn next_intent(&self) -> Option<CallIntent> {
        if self.unchanged {
            return None;
        }
        let path = self.request.path.absolute_path();
        let temp = path.with_file_name(&self.temp_name);
        Some(match (path.to_str(), temp.to_str(), &self.outcome) {
            (Some(path), Some(temp), Some(outcome)) => CallIntent::File {
                path: path.to_owned(),
                before: outcome.before.clone(),
                after: Some(outcome.after.clone()),
                executable: self.request.executable,
                temp: temp.to_owned(),
            },
            (Some(_), Some(temp), None) => CallIntent::Beside {
                temp: temp.to_owned(),
            },
            _ => CallIntent::Vague {
                what: format!("write {}", self.request.path.display_text()),
            },
        })
    }

    fn stage_content(&mut self) -> Result<(), ToolError> {
        if self.unchanged {
            return Ok(());
        }
        let shown = self.request.path.display_text();
        let failed = |cause: io::Error| self.request.path.access_error(cause);
        let (folder, name) = match self.target.take() {
            Some(target) => target,
            None => open_target_folder(&self.request, self.request.create_folders)
                .map_err(|cause| explain_missing_folder(&self.request.path, cause))?,
        };
        let mut temp = TempFile::create(Arc::clone(&folder), &self.temp_name, self.old.is_none())
            .map_err(failed)?;
        self.target = Some((folder, name));
        let mut warnings = std::mem::take(&mut self.warnings);
        let filled =
            self.fill_temp_file(&mut temp.file, &mut warnings)
                .map_err(|cause| match cause.kind() {
                    _ if self.cancel.is_cancelled() => write_cancelled_error(&shown),
                    io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                        stale_write_error(&shown, "was changed meanwhile")
                    }
                    _ => failed(cause),
                })?;
        self.warnings = warnings;
        if let Some(filled) = filled {
            self.outcome = Some(self.to_report(filled));
        }
        self.staged = Some(temp);
        reach_of("temp.written", &shown);
        Ok(())
    }

    fn place_content(mut self: Box<Self>) -> Result<WriteReport, ToolError> {
        let shown = self.request.path.display_text();
        let failed = |cause: io::Error| self.request.path.access_error(cause);
        let Some(outcome) = self.outcome.take() else {
            return Err(ToolError::internal(format!("{shown} was not staged.")));
        };
        let outcome = WriteReport {
            warnings: std::mem::take(&mut self.warnings),
            ..outcome
        };
        if self.unchanged {
            return Ok(outcome);
        }
        let (Some(mut temp), Some((folder, name))) = (self.staged.take(), &self.target) else {
            return Err(ToolError::internal(format!("{shown} was not staged.")));
        };
        // Other files of the same call may be there by now.
        self.request.path.check_writable()?;
        if let Some(old) = &self.old {
            let now = folder
                .entry_metadata(name)
                .map(|metadata| file_stamp(&metadata));
            if self.request.only_if != WritePrecondition::None && now.ok() != Some(old.stamp) {
                return Err(stale_write_error(
                    &shown,
                    "was changed by somebody else just now",
                ));
            }
            temp.replace_target(name).map_err(failed)?;
        } else {
            temp.rename_to_new(name)
                .map_err(|cause| match cause.kind() {
                    io::ErrorKind::AlreadyExists => {
                        stale_write_error(&shown, "was made by somebody else just now")
                    }
                    _ => failed(cause),
                })?;
        }
        reach_of("rename.after", &shown);
        folder.fsync_folder().map_err(failed)?;
        Ok(outcome)
    }
}

/// Opens the file's folder, and returns it with the file's name.
fn open_target_folder(request: &WriteTextFile, create: bool) -> io::Result<TargetEntry> {
    if request.path.names_folder() {
        return Err(io::Error::new(
            io::ErrorKind::NotADirectory,
            "names a folder",
        ));
    }
    request
        .path
        .open_parent_folder(create)
        .map(|(folder, name)| (Arc::new(folder), name))
}

fn explain_missing_folder(path: &WorkspacePath, cause: io::Error) -> ToolError {
    let shown = path.display_text();
    let code = ErrorCode::IsDirectory;
    match cause.kind() {
        _ if path.names_folder() => ToolError::new(
            code,
            format!("{shown}/ names a folder. Give the path of a file."),
        ),
        io::ErrorKind::NotFound => similar_paths::missing_path_error(path),
        io::ErrorKind::IsADirectory => ToolError::new(
            code,
            format!("{shown} is a workspace folder. Give the path of a file."),
        ),
        _ => path.access_error(cause),
    }
}
