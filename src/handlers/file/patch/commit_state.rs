//! The state of a patch while it is written, and the words for its first fault. Not here: writing it (commit) and taking
//! it back (undo).

use crate::acp::WorkspacePath;
use crate::acp::files::LoadedFile;
use crate::handlers::file::FileDeps;
use crate::tool::{ToolContext, ToolError};

/// A patch while it is written.
pub(super) struct PatchCommit {
    pub(super) cx: ToolContext,
    /// The call's own context, by which it declares.
    pub(super) declaring_cx: ToolContext,
    pub(super) deps: FileDeps,
    /// The way back from each step that was taken.
    pub(super) undos: Vec<PatchUndo>,
    /// Folders that were made for new files, inner ones first.
    pub(super) folders: Vec<WorkspacePath>,
}

/// The way back from one step.
pub(super) enum PatchUndo {
    /// The file's content was replaced; it had these bytes and this right to be executed.
    WriteBack {
        path: WorkspacePath,
        before: LoadedFile,
        executable: Option<bool>,
        after: String,
    },
    /// It was made.
    Remove { path: WorkspacePath, after: String },
    /// It got another path, and these folders were made for that; or another name until it is removed.
    RenameBack {
        from: WorkspacePath,
        to: WorkspacePath,
        folders: Vec<WorkspacePath>,
        is_removal: bool,
    },
}

/// The first fault of a patch, before which nothing was done.
pub(super) fn unchanged_fault(path: &WorkspacePath, fault: &ToolError) -> ToolError {
    let text = format!(
        "{}\nNo file was changed before it.",
        describe_file_fault(path, fault)
    );
    ToolError::new(fault.stable_code(), text).with_meta(fault.error_meta().clone())
}

/// Describes the fault of a file. Of one that may have been changed its own words say how it stands.
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
