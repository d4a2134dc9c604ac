//! File tools: read a text window or a document, write a file, edit a place, apply a patch, list a folder.

mod after_edit;
mod apply_patch;
mod block_search;
#[cfg_attr(not(feature = "documents"), path = "no_documents.rs")]
mod document;
mod edit;
mod edit_plan;
mod edit_report;
mod edit_sequence;
mod first_line_difference;
mod folder_view;
mod format_check;
#[cfg(any(fuzzing, debug_assertions))]
pub mod fuzzing;
mod line_diff_hint;
mod line_numbers;
mod list_files;
mod mask_guard;
mod match_tier;
mod multi_edit;
mod no_match_hint;
mod notebook_edit;
mod patch;
mod placeholder;
mod preserve_unchanged;
mod quote_search;
mod read;
mod read_file;
mod reindent;
mod rendered_page;
mod requested_edit;
mod seen_files;
mod text_transcoding;
mod text_window;
mod unified_diff;
mod write;
mod write_file;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use seen_files::SeenFiles;

use punie_host::files::WriteReport;
use punie_host::worker::WorkerProgram;
use punie_host::{FileClient, RawPath, Workspace, WorkspacePath};
use punie_tool::{
    FileChange, ResultMeta, ToolContext, ToolDeps, ToolEntry, ToolError, ToolReply, ToolSet,
};

pub use after_edit::{CommandJudge, EditCheckers};
#[cfg(feature = "documents")]
pub use document::{DOCUMENT_JOB, serve_document_questions};

/// The dependencies of the file tools.
#[derive(Clone)]
pub struct FileDeps {
    /// Reads and writes files.
    pub client: Arc<dyn FileClient>,
    /// Resolves paths.
    pub workspace: Workspace,
    /// Starts the process that reads documents.
    pub worker: WorkerProgram,
    /// The owner's checkers of edited files.
    checkers: EditCheckers,
    /// The files that each conversation has read or written.
    seen: SeenFiles,
}

impl ToolDeps for FileDeps {
    fn narrowed_to(&self, folders: &[PathBuf]) -> Result<Self, ToolError> {
        Ok(Self {
            workspace: self.workspace.narrowed_to(folders)?,
            ..self.clone()
        })
    }
}

impl FileDeps {
    /// Creates the dependencies.
    pub fn new(client: Arc<dyn FileClient>, workspace: Workspace, worker: WorkerProgram) -> Self {
        Self {
            client,
            workspace,
            worker,
            checkers: EditCheckers::default(),
            seen: SeenFiles::default(),
        }
    }

    /// Checks edited files with these.
    #[must_use]
    pub fn with_checkers(self, checkers: EditCheckers) -> Self {
        Self { checkers, ..self }
    }

    /// Adds to the answer of an edit what the owner's checkers say of the changed files.
    pub(super) async fn check_changed(&self, cx: &ToolContext, reply: ToolReply) -> ToolReply {
        self.checkers
            .check_changed(cx, &self.workspace, reply)
            .await
    }

    /// Resolves the path of a file that a call may change.
    pub(super) async fn resolve_for_call(
        &self,
        cx: &ToolContext,
        path: &RawPath,
    ) -> Result<WorkspacePath, ToolError> {
        let path = self.workspace.resolve_inside(path)?;
        self.client.find_for_call(cx, path).await
    }
}

impl fmt::Debug for FileDeps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileDeps")
            .field("workspace", &self.workspace)
            .finish_non_exhaustive()
    }
}

/// The file tools.
pub fn tools(deps: FileDeps) -> Vec<ToolEntry> {
    let note = deps.checkers.catalog_note();
    ToolSet::new("file", deps)
        .with_tool::<read::Read>()
        .with_tool::<write::Write>()
        .with_device_note(&note)
        .with_tool::<edit::Edit>()
        .with_device_note(&note)
        .with_tool::<multi_edit::MultiEdit>()
        .with_device_note(&note)
        .with_tool::<apply_patch::ApplyPatch>()
        .with_device_note(&note)
        .with_tool::<read_file::ReadFile>()
        .with_tool::<write_file::WriteFile>()
        .with_device_note(&note)
        .with_tool::<list_files::ListFiles>()
        .into_entries()
}

/// The metadata of a write: the file with its hashes before and after.
fn written_file_meta(path: &WorkspacePath, written: WriteReport) -> ResultMeta {
    let mut meta = ResultMeta {
        sha256: Some(written.after.clone()),
        source: written.by.label(),
        warnings: written.warnings,
        ..ResultMeta::default()
    };
    // A staged write has not changed the file.
    if !written.unchanged && !path.is_staged() {
        meta.files = vec![FileChange {
            path: path.display_text(),
            before: written.before,
            after: Some(written.after),
        }];
    }
    meta
}
