//! The real files below the root: their present state, a comparison with the expected one, and the replacement of one
//! file.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use super::current_file::set_permission_bits;
use super::pending_changes::conflict_error;
use super::self_mod_area::{SelfModArea, content_error};
use punie_core::content_hash::copy_hashed;
use punie_core::durable::{allow_missing, temp_name};
use punie_core::file_metadata::permission_bits;
use punie_home::{AppliedFile, FileState, PendingStep};
use punie_host::WorkspacePath;
use punie_host::local::copy_mode_and_owner;
use punie_tool::{CallIntent, FileChange, ToolError};

/// Reads the present state of a file; `None` if there is none.
pub(super) fn read_present_state(path: &WorkspacePath) -> io::Result<Option<FileState>> {
    let Some(mut file) = allow_missing(path.open_for_reading())? else {
        return Ok(None);
    };
    let mode = permission_bits(&file.metadata()?);
    let (sha256, size) = copy_hashed(&mut file, &mut io::sink())?;
    Ok(Some(FileState { sha256, size, mode }))
}

/// Returns whether two states have the same content, or are both no file.
pub(super) fn has_same_content(one: Option<&FileState>, other: Option<&FileState>) -> bool {
    one.map(|state| &state.sha256) == other.map(|state| &state.sha256)
}

/// Returns the execute permission that a change sets or clears; `None` if it stays.
pub(super) fn changed_executable(file: &AppliedFile) -> Option<bool> {
    let is_executable = |state: &Option<FileState>| Some(state.as_ref()?.mode? & 0o100 != 0);
    let after = is_executable(&file.after)?;
    (is_executable(&file.before)? != after).then_some(after)
}

/// Compares a real file with the expected state: returns the present one, or the difference in words.
pub(super) fn check_present_state(
    path: &WorkspacePath,
    rel: &str,
    expected: Option<&FileState>,
) -> Result<Option<FileState>, String> {
    let present = match read_present_state(path) {
        Ok(present) => present,
        Err(cause) => return Err(format!("{rel}: {cause}")),
    };
    match (expected, &present) {
        _ if has_same_content(expected, present.as_ref()) => Ok(present),
        (_, None) => Err(format!("{rel}: it does not exist any more")),
        (None, Some(_)) => Err(format!("{rel}: it exists now")),
        (Some(_), Some(_)) => Err(format!("{rel}: its content is another one now")),
    }
}

impl SelfModArea {
    /// Builds the step that brings a file from one state to another.
    pub(super) fn plan_step(
        &self,
        rel: &str,
        before: Option<FileState>,
        after: Option<FileState>,
        made_folders: Vec<String>,
    ) -> Result<PendingStep, ToolError> {
        let path = self.real_path(rel)?;
        path.check_writable()?;
        let name = path.absolute_path().file_name().unwrap_or_default();
        let temp = temp_name(name).map_err(|cause| ToolError::from_io(rel, &cause))?;
        Ok(PendingStep {
            file: AppliedFile {
                path: rel.to_owned(),
                before,
                after,
                made_folders,
            },
            temp: temp.to_string_lossy().into_owned(),
        })
    }

    /// Returns the folders that a new file needs and that do not exist, inner ones first.
    pub(super) fn missing_folders(&self, rel: &str) -> Vec<String> {
        let parents = Path::new(rel).ancestors().skip(1);
        parents
            .filter_map(Path::to_str)
            .filter(|parent| !parent.is_empty())
            .take_while(|parent| {
                self.real_path(parent)
                    .is_ok_and(|path| !path.existed_when_resolved())
            })
            .map(str::to_owned)
            .collect()
    }

    /// Writes the new content of a step beside its file, durably. It gets owner and mode of the file that it replaces.
    pub(super) fn write_beside(&self, step: &PendingStep) -> Result<(), ToolError> {
        let rel = step.file.path.as_str();
        let Some(after) = &step.file.after else {
            return Ok(());
        };
        let mut content = self
            .store
            .open_content(&after.sha256)
            .map_err(content_error(rel))?;
        let path = self.real_path(rel)?;
        let written = path.open_parent_folder(true).and_then(|(folder, _)| {
            let mut file = folder.create_new_file(OsStr::new(&step.temp), 0o600)?;
            let (sha256, _) = copy_hashed(&mut content, &mut file)?;
            if sha256 != after.sha256 {
                let text = format!("the stored content of {rel} is damaged");
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            if step.file.before.is_some() {
                let old = path.open_for_reading()?;
                let metadata = old.metadata()?;
                let executable = changed_executable(&step.file);
                // The owner's folder decides; the agent could not change that.
                let mut warnings = Vec::new();
                copy_mode_and_owner(&file, Some((&old, &metadata)), executable, &mut warnings)?;
            } else {
                set_permission_bits(&file, after.mode)?;
            }
            file.sync_all()
        });
        written.map_err(|cause| ToolError::from_io(path.display_text(), &cause))
    }

    /// Writes the new content of a step beside its file unless it is there already, whole.
    pub(super) fn complete_beside(&self, step: &PendingStep) -> Result<(), ToolError> {
        let Some(after) = &step.file.after else {
            return Ok(());
        };
        let temp = Path::new(&step.file.path).with_file_name(&step.temp);
        let present = self
            .real_path(&temp.to_string_lossy())
            .map(|temp| read_present_state(&temp));
        if present.is_ok_and(|state| {
            state.is_ok_and(|state| has_same_content(state.as_ref(), Some(after)))
        }) {
            return Ok(());
        }
        self.remove_beside(step);
        self.write_beside(step)
    }

    /// Removes what a step wrote beside its file, with the folders that were made for it if they are empty. What cannot
    /// be removed stays, and is logged: it holds up no other change.
    pub(super) fn remove_beside(&self, step: &PendingStep) {
        let Ok(path) = self.real_path(&step.file.path) else {
            return;
        };
        let removed = path.open_parent_folder(false).and_then(|(folder, _)| {
            folder.remove_file_entry(OsStr::new(&step.temp))?;
            folder.fsync_folder()
        });
        if let Err(cause) = allow_missing(removed) {
            tracing::warn!(file = %step.file.path, %cause, "an unfinished file beside it could not be removed");
        }
        self.remove_made_folders(&step.file);
    }

    /// Replaces the file with the content beside it, or removes it. The file is compared once more before.
    pub(super) fn place_step(&self, step: &PendingStep) -> Result<(), ToolError> {
        let path = self.real_path(&step.file.path)?;
        let failed = |cause: io::Error| ToolError::from_io(path.display_text(), &cause);
        // A file that this change has just made may be a part of a repository.
        path.check_writable()?;
        let before = step.file.before.as_ref();
        check_present_state(&path, &step.file.path, before)
            .map_err(|conflict| conflict_error(&[conflict]))?;
        let (folder, name) = path
            .open_parent_folder(step.file.after.is_some())
            .map_err(failed)?;
        let temp = OsStr::new(&step.temp);
        match (before, &step.file.after) {
            (_, None) => folder.remove_file_entry(&name),
            (None, Some(_)) => folder.rename_without_replacing(temp, &name),
            (Some(_), Some(_)) => folder.rename_entry(temp, &name),
        }
        .and_then(|()| folder.fsync_folder())
        .map_err(failed)?;
        drop(folder);
        if step.file.after.is_none() {
            self.remove_made_folders(&step.file);
        }
        Ok(())
    }

    /// Removes folders that were made for a file. One with other files stays.
    fn remove_made_folders(&self, file: &AppliedFile) {
        for folder in &file.made_folders {
            let removed = self.real_path(folder).and_then(|path| {
                let opened = path.open_parent_folder(false);
                opened
                    .and_then(|(parent, name)| parent.remove_folder_entry(&name))
                    .map_err(|cause| ToolError::from_io(folder, &cause))
            });
            if removed.is_err() {
                return;
            }
        }
    }

    /// Returns the declaration of a step, for the record of the call.
    pub(super) fn step_intent(&self, step: &PendingStep) -> CallIntent {
        let path = self.root.join(&step.file.path);
        let temp = path.with_file_name(&step.temp);
        let hash = |state: &Option<FileState>| state.as_ref().map(|state| state.sha256.clone());
        CallIntent::File {
            path: path.to_string_lossy().into_owned(),
            before: hash(&step.file.before),
            after: hash(&step.file.after),
            executable: changed_executable(&step.file),
            temp: temp.to_string_lossy().into_owned(),
        }
    }

    /// Returns the change of a file for the facts of an answer.
    pub(super) fn to_file_change(&self, file: &AppliedFile) -> FileChange {
        let hash = |state: &Option<FileState>| state.as_ref().map(|state| state.sha256.clone());
        FileChange {
            path: self.root.join(&file.path).to_string_lossy().into_owned(),
            before: hash(&file.before),
            after: hash(&file.after),
        }
    }
}
