//! Read and documents in a build without the part that reads them: a notebook is text, and nothing is shown of the others.

use super::rendered_page::LineSelection;
use punie_host::worker::WorkerProgram;
use punie_host::{FileClient, WorkspacePath};
use punie_tool::{ToolContext, ToolError, ToolReply};

const LEFT_OUT: &str = "this program was built without the part `documents`";

/// The requested part of a document.
#[derive(Clone)]
pub(super) struct DocumentQuery;

impl DocumentQuery {
    pub(super) fn new(
        _lines: LineSelection,
        _asked: (Option<i64>, Option<u64>),
        _pages: Option<&str>,
        _has_budget: bool,
    ) -> Result<Self, ToolError> {
        Ok(Self)
    }
}

/// Says why a notebook is shown as text.
#[expect(clippy::unused_async, reason = "as where documents are read")]
pub(super) async fn read_notebook(
    _cx: &ToolContext,
    _client: &dyn FileClient,
    _path: &WorkspacePath,
    _query: DocumentQuery,
    _worker: &WorkerProgram,
) -> Result<Result<ToolReply, String>, ToolError> {
    Ok(Err(LEFT_OUT.to_owned()))
}

/// Returns `refusal` with the reason why no document is read.
#[expect(clippy::unused_async, reason = "as where documents are read")]
pub(super) async fn show_document(
    _cx: &ToolContext,
    _client: &dyn FileClient,
    _path: &WorkspacePath,
    _query: DocumentQuery,
    refusal: ToolError,
    _worker: &WorkerProgram,
) -> Result<ToolReply, ToolError> {
    let text = format!("{} No document is shown: {LEFT_OUT}.", refusal.model_text());
    Err(ToolError::new(refusal.stable_code(), text).with_meta(refusal.error_meta().clone()))
}
