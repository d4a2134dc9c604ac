//! Read of binary documents: dispatches each format to its reader.

use std::time::Duration;

use tokio::task::spawn_blocking;

use super::super::rendered_page::LineSelection;
use super::document_protocol::{DocumentContent, DocumentWork, Packing, TIME_LIMIT};
use super::document_query::DocumentQuery;
use super::document_reader::{DocumentReader, DocumentSource, describe_failure};
use super::{image_answer, pdf_answer};
use punie_host::file_content::BinaryFormat;
use punie_host::files::OpenedFile;
use punie_host::worker::{WorkerFailure, WorkerProgram};
use punie_host::{FileClient, WorkspacePath};
use punie_text::output::SecretBoundaries;
use punie_text::output::number_format::format_size;
use punie_tool::time_limit::wait_for_limit;
use punie_tool::{ErrorCode, ToolContext, ToolError, ToolReply};

/// Larger notebooks are shown as text.
const MAX_NOTEBOOK_BYTES: u64 = 16 << 20;
/// The most entries of an archive in one answer.
const MAX_SHOWN_ENTRIES: u64 = 500;
/// The time after the worker's limit for its end and for reading its answer.
const GRACE: Duration = Duration::from_secs(5);
/// The advice for a document that cannot be read.
const PDF_ADVICE: &str = "Try Bash, for example `pdftotext` or `qpdf`.";
const NOTEBOOK_ADVICE: &str = "Look into it with Bash, for example `file`.";

/// Answers with the cells of a notebook. The inner error is the reason to show it as text.
pub(in super::super) async fn read_notebook(
    cx: &ToolContext,
    client: &dyn FileClient,
    path: &WorkspacePath,
    query: DocumentQuery,
    worker: &WorkerProgram,
) -> Result<Result<ToolReply, String>, ToolError> {
    let opened = client.open_file(cx, path.clone()).await?;
    if opened.content.is_err() {
        return Ok(Err("it is not text".to_owned()));
    }
    if opened.size > MAX_NOTEBOOK_BYTES {
        return Ok(Err(format!(
            "it is over {}",
            format_size(MAX_NOTEBOOK_BYTES)
        )));
    }
    let source = DocumentSource {
        shown: path.head_text(),
        size: opened.size,
        kind: "a notebook",
        advice: NOTEBOOK_ADVICE,
    };
    let uncut = cx.secret_boundaries.clone();
    read_in_worker(cx, worker, source, move |source, reader| {
        let content = reader.read_document(source, opened.bytes, DocumentWork::Notebook)?;
        Ok(content.and_then(|content| match content {
            DocumentContent::Page(page) => Ok(page.show_lines(query.lines, &uncut)),
            _ => Err("it was not read".to_owned()),
        }))
    })
    .await
}

/// Answers for a binary file; returns `refusal` if nothing can be shown.
pub(in super::super) async fn show_document(
    cx: &ToolContext,
    client: &dyn FileClient,
    path: &WorkspacePath,
    query: DocumentQuery,
    refusal: ToolError,
    worker: &WorkerProgram,
) -> Result<ToolReply, ToolError> {
    let Ok(opened) = client.open_file(cx, path.clone()).await else {
        return Err(refusal);
    };
    let Err(binary) = opened.content else {
        return Err(refusal);
    };
    let shown = path.head_text();
    if query.pages.is_some() && binary.format != BinaryFormat::Pdf {
        return Err(ToolError::invalid_args(format!(
            "pages is for PDF documents; {shown} is {}. Leave it out.",
            binary.kind
        )));
    }
    if binary.format == BinaryFormat::Other {
        return Err(refusal);
    }
    let source = DocumentSource {
        shown,
        size: opened.size,
        kind: binary.kind,
        advice: if binary.format == BinaryFormat::Pdf {
            PDF_ADVICE
        } else {
            binary.hint
        },
    };
    let uncut = cx.secret_boundaries.clone();
    read_in_worker(cx, worker, source, move |source, reader| {
        show_opened_document(source, opened, binary.format, &query, &uncut, reader)
    })
    .await
}

/// Runs a closure on a thread that may wait for a worker. Dropping the call cancels the worker; a
/// thread that hangs in the system is left behind.
async fn read_in_worker<T: Send + 'static>(
    cx: &ToolContext,
    worker: &WorkerProgram,
    source: DocumentSource,
    read: impl FnOnce(&DocumentSource, &DocumentReader) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let cancel = cx.cancel.child_token();
    let _cancel_on_drop = cancel.clone().drop_guard();
    let reader = DocumentReader {
        program: worker.clone(),
        request: cx.request.clone(),
        cancel,
    };
    let on_thread = source.clone();
    let reading = spawn_blocking(move || read(&on_thread, &reader));
    let failure = tokio::select! {
        biased;
        read = reading => return read.unwrap_or_else(|_| {
            Err(source.unreadable_error("it is damaged in a way that its reader gave up on"))
        }),
        () = cx.wait_for_cancel() => WorkerFailure::Cancelled,
        () = wait_for_limit(TIME_LIMIT + GRACE) => WorkerFailure::TimedOut,
    };
    Err(describe_failure(&source, &failure))
}

fn show_opened_document(
    source: &DocumentSource,
    opened: OpenedFile,
    format: BinaryFormat,
    query: &DocumentQuery,
    uncut: &SecretBoundaries,
    reader: &DocumentReader,
) -> Result<ToolReply, ToolError> {
    if let Some(mime_type) = image_answer::image_mime_type(format) {
        let budget = query.image_budget;
        return image_answer::show_image(source, opened, format, mime_type, budget, reader);
    }
    let work = match format {
        BinaryFormat::Pdf => {
            return pdf_answer::show_pdf(source, opened.bytes, query, uncut, reader);
        }
        BinaryFormat::Zip => DocumentWork::Zip,
        BinaryFormat::Gzip => DocumentWork::Packed(Packing::Gzip),
        BinaryFormat::Bzip2 => DocumentWork::Packed(Packing::Bzip2),
        BinaryFormat::Xz => DocumentWork::Packed(Packing::Xz),
        BinaryFormat::Zstd => DocumentWork::Packed(Packing::Zstd),
        _ => DocumentWork::Tar,
    };
    let unlisted = |why: String| {
        let DocumentSource {
            shown,
            kind,
            advice,
            ..
        } = source;
        let size = format_size(source.size);
        let text =
            format!("{shown} begins like {kind} ({size}), but cannot be listed: {why}. {advice}");
        ToolError::new(ErrorCode::NotText, text)
    };
    match reader.read_document(source, opened.bytes, work)? {
        Ok(DocumentContent::Page(page)) => {
            let mut lines = query.lines;
            if page.is_listing() {
                lines = LineSelection {
                    limit: query
                        .limit
                        .map_or(MAX_SHOWN_ENTRIES, |limit| limit.min(MAX_SHOWN_ENTRIES)),
                    ..lines
                };
            }
            Ok(page.show_lines(lines, uncut))
        }
        Ok(_) => Err(unlisted("it was not read".to_owned())),
        Err(why) => Err(unlisted(why)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use punie_core::ids::RequestId;

    async fn read_with(
        cx: &ToolContext,
        read: impl FnOnce() + Send + 'static,
    ) -> Result<(), ToolError> {
        let worker = WorkerProgram {
            program: "worker".into(),
            temp_root: "temp".into(),
            time_zone: None,
        };
        let source = DocumentSource {
            shown: "a.pdf".to_owned(),
            size: 9,
            kind: "a PDF document",
            advice: PDF_ADVICE,
        };
        read_in_worker(cx, &worker, source, move |_, _| {
            read();
            Ok(())
        })
        .await
    }

    #[tokio::test]
    async fn a_panic_is_a_document_that_cannot_be_read() {
        let cx = ToolContext::for_detached_call(RequestId::new());
        let error = read_with(&cx, || panic!("no such table")).await;
        let error = error.unwrap_err();
        assert_eq!(error.stable_code(), ErrorCode::NotText, "{error}");
        assert!(
            error.model_text().contains("a.pdf is a PDF document"),
            "{error}"
        );
    }

    /// The error of a call whose thread hangs, once this much time is over.
    async fn hanging_call(cx: &ToolContext, time: Duration) -> ErrorCode {
        let (_hang, end) = mpsc::channel::<()>();
        let hanging = read_with(cx, move || while end.recv().is_ok() {});
        let later = async {
            tokio::time::advance(time).await;
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            result = hanging => result.unwrap_err().stable_code(),
            () = later => panic!("the call still waits for its thread"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_thread_that_hangs_holds_up_no_call() {
        let cx = ToolContext::for_detached_call(RequestId::new());
        let code = hanging_call(&cx, TIME_LIMIT + GRACE).await;
        assert_eq!(code, ErrorCode::Timeout);
        cx.cancel.cancel();
        let code = hanging_call(&cx, Duration::ZERO).await;
        assert_eq!(code, ErrorCode::Cancelled);
    }
}
