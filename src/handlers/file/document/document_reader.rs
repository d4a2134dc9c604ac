//! The runner's side of reading a document: asks a worker and formats its errors.

use std::any::Any;
use std::fs::File;
use std::io;
use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::document_protocol::{
    ADDRESS_SPACE, DOCUMENT_JOB, DocumentAnswer, DocumentQuestion, DocumentWork, TIME_LIMIT,
};
use punie_core::ids::RequestId;
use punie_host::files::OpenedBytes;
use punie_host::worker::{WorkerCall, WorkerFailure, WorkerProgram};
use punie_text::output::number_format::format_size;
use punie_tool::{ErrorCode, ToolError};

/// A document as described in errors.
#[derive(Debug, Clone)]
pub(super) struct DocumentSource {
    /// The path to show.
    pub(super) shown: String,
    pub(super) size: u64,
    /// The format with its article: `a PDF document`.
    pub(super) kind: &'static str,
    /// Advice on other tools, as a sentence.
    pub(super) advice: &'static str,
}

impl DocumentSource {
    /// Builds the error for a document that cannot be read for this reason.
    pub(super) fn unreadable_error(&self, why: &str) -> ToolError {
        let Self {
            shown,
            kind,
            advice,
            ..
        } = self;
        let size = format_size(self.size);
        ToolError::new(
            ErrorCode::NotText,
            format!("{shown} is {kind} ({size}), but {why}. {advice}"),
        )
    }

    /// Builds the error for a document that is too large; `why` ends the sentence.
    pub(super) fn too_large_error(&self, why: &str) -> ToolError {
        let Self {
            shown,
            kind,
            advice,
            ..
        } = self;
        let size = format_size(self.size);
        ToolError::new(
            ErrorCode::TooLarge,
            format!("{shown} is {kind} of {size}{why}. {advice}"),
        )
    }
}

/// Reads documents in a worker process.
pub(super) struct DocumentReader {
    pub(super) program: WorkerProgram,
    pub(super) request: RequestId,
    pub(super) cancel: CancellationToken,
}

impl DocumentReader {
    /// Asks a worker. Blocks. The inner error is the worker's reason, as the end of a sentence.
    ///
    /// # Errors
    /// The worker did not finish.
    pub(super) fn read_document(
        &self,
        source: &DocumentSource,
        file: Box<dyn OpenedBytes>,
        work: DocumentWork,
    ) -> Result<DocumentAnswer, ToolError> {
        let failed = |cause: &io::Error| ToolError::from_io(&source.shown, cause);
        let file = (file as Box<dyn Any>)
            .downcast::<File>()
            .map_err(|_| failed(&io::ErrorKind::Unsupported.into()))?;
        let question = DocumentQuestion {
            shown: source.shown.clone(),
            size: source.size,
            work,
        };
        let call = WorkerCall {
            request: &self.request,
            job: DOCUMENT_JOB,
            folder: Path::new("/"),
            question: &question,
            file: Some(&file),
            needs_temp: false,
            time_limit: TIME_LIMIT,
            cancel: &self.cancel,
        };
        self.program
            .call(&call)
            .map_err(|failure| describe_failure(source, &failure))
    }
}

/// Builds the error for a worker that did not finish.
pub(super) fn describe_failure(source: &DocumentSource, failure: &WorkerFailure) -> ToolError {
    let shown = &source.shown;
    match failure {
        WorkerFailure::Cancelled => ToolError::call_cancelled(format!(
            "Reading {shown} was cancelled. Nothing was changed."
        )),
        WorkerFailure::TimedOut => ToolError::new(
            ErrorCode::Timeout,
            format!(
                "{shown} could not be read within {} s; it may be damaged. Look into it with Bash.",
                TIME_LIMIT.as_secs()
            ),
        ),
        WorkerFailure::NotStarted(cause) => {
            ToolError::from_io("The process that reads documents", cause)
        }
        failure if failure.is_abort() => source.too_large_error(&format!(
            ", but reading it takes more than {} of memory",
            format_size(ADDRESS_SPACE)
        )),
        _ => source.unreadable_error("it is damaged in a way that its reader gave up on"),
    }
}
