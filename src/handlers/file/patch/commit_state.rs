//! The state of a patch during its commit, and the messages for its first fault.

use crate::file::FileDeps;
use punie_host::WorkspacePath;
use punie_host::files::LoadedFile;
use punie_tool::{ToolContext, ToolError};

/// A patch during its commit.
pub(super) struct PatchCommit {
    pub(super) cx: ToolContext,
    /// The call's own context, used for its declarations.
    pub(super) declaring_cx: ToolContext,
    pub(super) deps: FileDeps,
    /// The undo of each step taken.
    pub(super) undos: Vec<PatchUndo>,
    /// Folders created for new files, inner ones first.
    pub(super) folders: Vec<WorkspacePath>,
}

/// The undo of one step.
pub(super) enum PatchUndo {
    /// The file's content was replaced; these are its previous bytes and executable bit.
    WriteBack {
        path: WorkspacePath,
        before: LoadedFile,
        executable: Option<bool>,
        after: String,
    },
    /// The file was created.
    Remove { path: WorkspacePath, after: String },
    /// The file was moved, and these folders were created for it, or it was renamed until it is
    /// removed.
    RenameBack {
        from: WorkspacePath,
        to: WorkspacePath,
        folders: Vec<WorkspacePath>,
        is_removal: bool,
    },
}

/// The first fault of a patch, before any change.
pub(super) fn unchanged_fault(path: &WorkspacePath, fault: &ToolError) -> ToolError {
    let text = format!(
        "{}\nNo file was changed before it.",
        describe_file_fault(path, fault)
    );
    ToolError::new(fault.stable_code(), text).with_meta(fault.error_meta().clone())
}

/// Describes the fault of a file. If the file may have been changed, its own message states that.
pub(super) fn describe_file_fault(path: &WorkspacePath, fault: &ToolError) -> String {
    if fault.error_meta().may_have_run {
        return fault.model_text().to_owned();
    }
    format!(
        "{} could not be changed: {}",
        path.display_text(),
        fault.model_text()
    )
}
