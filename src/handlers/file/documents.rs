//! Read of what is not plain text: which format is shown how, on a thread of its own that is not waited for longer
//! than a reader would. Not here: the formats, one file each.

use std::io::Read as _;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::pdf::{self, PdfWorker};
use super::pdf_pages::PageRange;
use super::rendered_page::LineSelection;
use super::{archive, image, notebook};
use crate::acp::file_content::{BinaryContent, BinaryFormat};
use crate::acp::files::OpenedFile;
use crate::acp::{FileClient, WorkspacePath};
use crate::output::{SecretBoundaries, number_format};
use crate::tool::{ErrorCode, ToolContext, ToolError, ToolReply};
use crate::worker::WorkerProgram;

/// No format is worked on longer than this.
const READ_TIME_LIMIT: Duration = Duration::from_secs(20);
/// Bigger notebooks are shown as the text that they are.
const MAX_NOTEBOOK_BYTES: u64 = 16 << 20;
/// A stack for parsers that follow how deep a document nests.
const PARSER_STACK_BYTES: usize = 16 << 20;

/// What of a document to show.
#[derive(Debug, Clone)]
pub(super) struct DocumentQuery {
    pub lines: LineSelection,
    /// The offset and the limit as they were given.
    pub offset: Option<i64>,
    pub limit: Option<u64>,
    pub pages: Option<Vec<PageRange>>,
}

/// Says whether there is time left.
#[derive(Debug, Clone)]
pub(super) struct ReadDeadline {
    until: Instant,
    stopped: Arc<AtomicBool>,
}

impl ReadDeadline {
    pub(super) fn start_deadline() -> Self {
        Self {
            until: Instant::now() + READ_TIME_LIMIT,
            stopped: Arc::new(AtomicBool::new(false)),
        }
    }

    /// Whether to go on.
    pub(super) fn has_time_left(&self) -> bool {
        !self.stopped.load(Ordering::Relaxed) && Instant::now() < self.until
    }
}

/// Whether a file of this name is shown as a notebook.
pub(super) fn has_notebook_name(path: &WorkspacePath) -> bool {
    path.absolute_path()
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("ipynb"))
}

/// The cells of a notebook, or why it is to be shown as text.
pub(super) async fn read_notebook(
    cx: &ToolContext,
    client: &dyn FileClient,
    path: &WorkspacePath,
    ask: DocumentQuery,
) -> Result<Result<ToolReply, String>, ToolError> {
    let opened = client.open_file(cx, path.clone()).await?;
    if opened.content.is_err() {
        return Ok(Err("it is not text".to_owned()));
    }
    if opened.size > MAX_NOTEBOOK_BYTES {
        return Ok(Err(format!(
            "it is over {}",
            number_format::format_size(MAX_NOTEBOOK_BYTES)
        )));
    }
    let (shown, uncut) = (path.display_text(), cx.secret_boundaries.clone());
    run_on_thread(cx, &path.display_text(), move |_| {
        let mut bytes = Vec::new();
        if let Err(cause) = opened
            .bytes
            .take(MAX_NOTEBOOK_BYTES)
            .read_to_end(&mut bytes)
        {
            return Ok(Err(cause.to_string()));
        }
        Ok(notebook::render_notebook(&shown, &bytes)
            .map(|rendered| rendered.show_lines(ask.lines, &uncut)))
    })
    .await
}

/// The answer for a file that is not text; `refusal` where there is nothing to show of it.
pub(super) async fn show_document(
    cx: &ToolContext,
    client: &dyn FileClient,
    path: &WorkspacePath,
    ask: DocumentQuery,
    refusal: ToolError,
    worker: &WorkerProgram,
) -> Result<ToolReply, ToolError> {
    let Ok(opened) = client.open_file(cx, path.clone()).await else {
        return Err(refusal);
    };
    let Err(binary) = opened.content else {
        return Err(refusal);
    };
    if ask.pages.is_some() && binary.format != BinaryFormat::Pdf {
        return Err(ToolError::invalid_args(format!(
            "pages is for PDF documents; {} is {}. Leave it out.",
            path.display_text(),
            binary.kind
        )));
    }
    let shown = path.display_text();
    if binary.format == BinaryFormat::Other {
        return Err(refusal);
    }
    let uncut = cx.secret_boundaries.clone();
    if binary.format == BinaryFormat::Pdf {
        // A call that is dropped is cancelled, too.
        let cancel = cx.cancel.child_token();
        let _cancel_on_drop = cancel.clone().drop_guard();
        let worker = PdfWorker {
            program: worker.clone(),
            request: cx.request.clone(),
            cancel,
        };
        let read = tokio::task::spawn_blocking(move || {
            pdf::show_pdf(&shown, opened, &ask, &uncut, &worker)
        })
        .await;
        return read.unwrap_or_else(|fault| {
            Err(ToolError::internal_error(format!(
                "Reading broke off: {fault}"
            )))
        });
    }
    run_on_thread(cx, &path.display_text(), move |clock| {
        show_binary_format(&shown, opened, binary, &ask, clock, &uncut)
    })
    .await
}

fn show_binary_format(
    shown: &str,
    mut opened: OpenedFile,
    binary: BinaryContent,
    ask: &DocumentQuery,
    clock: &ReadDeadline,
    uncut: &SecretBoundaries,
) -> Result<ToolReply, ToolError> {
    if let Some(mime_type) = image::image_mime_type(binary.format) {
        return image::show_image(shown, opened, binary.format, mime_type);
    }
    let lines = LineSelection {
        limit: archive::archive_page_size(ask.limit),
        ..ask.lines
    };
    match archive::render_archive(shown, &mut opened, binary.format, &|| clock.has_time_left()) {
        Ok(rendered) => Ok(rendered.show_lines(lines, uncut)),
        Err(cause) => {
            let kind = binary.kind;
            let size = number_format::format_size(opened.size);
            let text = format!(
                "{shown} begins like {kind} ({size}), but cannot be listed: {cause}. {}",
                binary.hint
            );
            Err(ToolError::new(ErrorCode::NotText, text))
        }
    }
}

/// Runs this on a thread of its own. A parser that panics, or that does not come to an end, is an error; the thread of
/// the latter is left to itself and holds up nothing.
async fn run_on_thread<T: Send + 'static>(
    cx: &ToolContext,
    shown: &str,
    work: impl FnOnce(&ReadDeadline) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let clock = ReadDeadline::start_deadline();
    let (done, answer) = oneshot::channel();
    let of_thread = clock.clone();
    let started = std::thread::Builder::new()
        .name("document".to_owned())
        .stack_size(PARSER_STACK_BYTES)
        .spawn(move || {
            let made = std::panic::catch_unwind(AssertUnwindSafe(|| work(&of_thread)));
            // Nobody may be waiting any more.
            let _ = done.send(made);
        });
    if let Err(cause) = started {
        return Err(ToolError::from_io(shown, &cause));
    }
    let ended = tokio::select! {
        made = answer => made.ok(),
        () = cx.wait_for_cancel() => {
            clock.stopped.store(true, Ordering::Relaxed);
            return Err(ToolError::call_cancelled(format!("Reading {shown} was cancelled. Nothing was changed.")));
        }
        () = tokio::time::sleep(READ_TIME_LIMIT + Duration::from_secs(2)) => {
            clock.stopped.store(true, Ordering::Relaxed);
            let text = format!("{shown} could not be read within {} s; it may be damaged. Look into it with Bash.", READ_TIME_LIMIT.as_secs());
            return Err(ToolError::new(ErrorCode::Timeout, text));
        }
    };
    match ended {
        Some(Ok(made)) => made,
        _ => Err(ToolError::new(
            ErrorCode::NotText,
            format!(
                "{shown} is damaged in a way that its reader gave up on. Look into it with Bash, for example `file`."
            ),
        )),
    }
}
