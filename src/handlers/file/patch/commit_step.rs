//! The steps by which one file of a patch changes: a prepared write, a rename, or both.

use std::sync::Arc;

use super::apply_hunks::ContentEdit;
use super::plan::{PlannedAction, PlannedChange};
use crate::file::FileDeps;
use punie_core::durable::temp_name;
use punie_core::file_metadata::is_executable;
use punie_host::files::{LoadedFile, NewContent, WritePrecondition, WriteTextFile};
use punie_host::prepared_write::PreparedWrite;
use punie_host::{RawPath, WorkspacePath};
use punie_tool::{CallIntent, ErrorCode, ToolContext, ToolError};

/// The prepared steps for one file.
#[derive(Default)]
pub(super) struct CommitStep {
    pub(super) write: Option<Box<dyn PreparedWrite>>,
    /// The file's previous executable bit, if it changes.
    pub(super) was_executable: Option<bool>,
    pub(super) rename: Option<FileRename>,
}

/// A rename of a file: to its new name, or to a temporary one until its removal.
pub(super) struct FileRename {
    pub(super) from: WorkspacePath,
    pub(super) to: WorkspacePath,
    pub(super) is_removal: bool,
    /// The hash of its content, if known.
    pub(super) sha256: Option<String>,
}

/// Checks a change and prepares its steps; changes nothing.
pub(super) async fn prepare_commit_step(
    cx: &ToolContext,
    deps: &FileDeps,
    change: &PlannedChange,
) -> Result<CommitStep, ToolError> {
    let path = &change.path;
    let loaded_sha256 = || change.loaded.as_ref().map(LoadedFile::bytes_sha256);
    let rename = |to: WorkspacePath, is_removal: bool, sha256: Option<String>| {
        Some(FileRename {
            from: path.clone(),
            to,
            is_removal,
            sha256,
        })
    };
    match &change.action {
        PlannedAction::Unchanged(_) => Ok(CommitStep::default()),
        PlannedAction::Add {
            content,
            executable,
        } => {
            let request = WriteTextFile {
                path: path.clone(),
                content: NewContent::Text(content.clone()),
                only_if: WritePrecondition::Absent,
                create_folders: true,
                executable: *executable,
            };
            let write = Some(deps.client.prepare_file(cx, request).await?);
            Ok(CommitStep {
                write,
                ..CommitStep::default()
            })
        }
        PlannedAction::Delete => {
            let rename = rename(temporary_sibling(deps, path)?, true, loaded_sha256());
            Ok(CommitStep {
                rename,
                ..CommitStep::default()
            })
        }
        PlannedAction::Update {
            edit,
            executable,
            move_to,
        } => {
            let written = change
                .loaded
                .as_ref()
                .filter(|_| !edit.splices.is_empty() || executable.is_some());
            let mut step = CommitStep::default();
            if let Some(loaded) = written {
                let request = update_request(path, loaded, edit, *executable);
                step.write = Some(deps.client.prepare_file(cx, request).await?);
            }
            step.was_executable =
                executable.and_then(|_| is_executable(&path.file_metadata().ok()?));
            if let Some(to) = move_to {
                let sha256 = match step.write.as_ref().and_then(|write| write.next_intent()) {
                    Some(CallIntent::File { after, .. }) => after,
                    _ => loaded_sha256(),
                };
                step.rename = rename(to.clone(), false, sha256);
            }
            Ok(step)
        }
    }
}

fn update_request(
    path: &WorkspacePath,
    loaded: &LoadedFile,
    edit: &ContentEdit,
    executable: Option<bool>,
) -> WriteTextFile {
    WriteTextFile {
        path: path.clone(),
        content: NewContent::Spliced {
            old: Arc::clone(&loaded.bytes),
            splices: edit.stored.clone(),
        },
        only_if: WritePrecondition::AsLoaded(loaded.stamp),
        create_folders: false,
        executable,
    }
}

impl CommitStep {
    /// The declarations of its effects.
    pub(super) fn intents(&self) -> Vec<CallIntent> {
        let mut intents: Vec<CallIntent> = self
            .write
            .iter()
            .filter_map(|write| write.next_intent())
            .collect();
        // A staged rename changes no real file, so there is nothing to finish after a crash.
        let renamed = self.rename.iter().filter(|rename| !rename.from.is_staged());
        intents.extend(renamed.map(FileRename::intent));
        intents
    }
}

impl FileRename {
    fn intent(&self) -> CallIntent {
        let from = self.from.absolute_path().to_str();
        let to = self.to.absolute_path().to_str();
        let from = from.map(str::to_owned);
        let to = to.map(str::to_owned);
        let sha256 = self.sha256.clone();
        match (from, to) {
            (Some(path), Some(temp)) if self.is_removal => CallIntent::File {
                path,
                before: sha256,
                after: None,
                executable: None,
                temp,
            },
            (Some(from), Some(to)) => CallIntent::Move { from, to, sha256 },
            _ if self.is_removal => CallIntent::Vague {
                what: format!("remove {}", self.from.display_text()),
            },
            _ => CallIntent::Vague {
                what: format!(
                    "move {} to {}",
                    self.from.display_text(),
                    self.to.display_text()
                ),
            },
        }
    }
}

/// Returns an unpredictable name beside a file.
fn temporary_sibling(deps: &FileDeps, path: &WorkspacePath) -> Result<WorkspacePath, ToolError> {
    let name = temp_name(path.absolute_path().file_name().unwrap_or_default())
        .map_err(|cause| ToolError::internal(format!("No random bytes: {cause}")))?;
    let aside = path.absolute_path().with_file_name(name);
    let aside = aside.to_str().ok_or_else(|| {
        ToolError::new(
            ErrorCode::Io,
            format!(
                "{}: a folder's name is not UTF-8. Remove it with Bash.",
                path.display_text()
            ),
        )
    })?;
    deps.workspace.resolve_inside(&RawPath::from(aside))
}
