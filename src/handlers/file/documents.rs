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
use super::rendered::Lines;
use super::{archive, image, notebook};
use crate::acp::content::{Binary, Format};
use crate::acp::files::OpenedFile;
use crate::acp::{FileClient, WorkspacePath};
use crate::output::{Uncut, figures};
use crate::tool::{ErrorCode, Reply, ToolCx, ToolError};
use crate::worker::WorkerProgram;

/// No format is worked on longer than this.
const LONGEST: Duration = Duration::from_secs(20);
/// Bigger notebooks are shown as the text that they are.
const NOTEBOOK: u64 = 16 << 20;
/// A stack for parsers that follow how deep a document nests.
const STACK: usize = 16 << 20;

/// What of a document to show.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub lines: Lines,
    /// The offset and the limit as they were given.
    pub offset: Option<i64>,
    pub limit: Option<u64>,
    pub pages: Option<Vec<PageRange>>,
}

/// Says whether there is time left.
#[derive(Debug, Clone)]
pub(super) struct Clock {
    until: Instant,
    stopped: Arc<AtomicBool>,
}

impl Clock {
    pub(super) fn start() -> Self {
        Self { until: Instant::now() + LONGEST, stopped: Arc::new(AtomicBool::new(false)) }
    }

    /// Whether to go on.
    pub(super) fn runs(&self) -> bool {
        !self.stopped.load(Ordering::Relaxed) && Instant::now() < self.until
    }
}

/// Whether a file of this name is shown as a notebook.
pub(super) fn is_notebook(path: &WorkspacePath) -> bool {
    path.absolute().extension().is_some_and(|extension| extension.eq_ignore_ascii_case("ipynb"))
}

/// The cells of a notebook, or why it is to be shown as text.
pub(super) async fn notebook(
    cx: &ToolCx,
    client: &dyn FileClient,
    path: &WorkspacePath,
    ask: Ask,
) -> Result<Result<Reply, String>, ToolError> {
    let opened = client.open_file(cx, path.clone()).await?;
    if opened.content.is_err() {
        return Ok(Err("it is not text".to_owned()));
    }
    if opened.size > NOTEBOOK {
        return Ok(Err(format!("it is over {}", figures::size(NOTEBOOK))));
    }
    let (shown, uncut) = (path.shown(), cx.uncut.clone());
    on_a_thread(cx, &path.shown(), move |_| {
        let mut bytes = Vec::new();
        if let Err(cause) = opened.bytes.take(NOTEBOOK).read_to_end(&mut bytes) {
            return Ok(Err(cause.to_string()));
        }
        Ok(notebook::render(&shown, &bytes).map(|rendered| rendered.show(ask.lines, &uncut)))
    })
    .await
}

/// The answer for a file that is not text; `refusal` where there is nothing to show of it.
pub(super) async fn show(
    cx: &ToolCx,
    client: &dyn FileClient,
    path: &WorkspacePath,
    ask: Ask,
    refusal: ToolError,
    worker: &WorkerProgram,
) -> Result<Reply, ToolError> {
    let Ok(opened) = client.open_file(cx, path.clone()).await else { return Err(refusal) };
    let Err(binary) = opened.content else { return Err(refusal) };
    if ask.pages.is_some() && binary.format != Format::Pdf {
        return Err(ToolError::invalid_args(format!(
            "pages is for PDF documents; {} is {}. Leave it out.",
            path.shown(),
            binary.kind
        )));
    }
    let shown = path.shown();
    if binary.format == Format::Other {
        return Err(refusal);
    }
    let uncut = cx.uncut.clone();
    if binary.format == Format::Pdf {
        // A call that is dropped is cancelled, too.
        let cancel = cx.cancel.child_token();
        let _cancel_on_drop = cancel.clone().drop_guard();
        let worker = PdfWorker { program: worker.clone(), request: cx.request.clone(), cancel };
        let read =
            tokio::task::spawn_blocking(move || pdf::show(&shown, opened, &ask, &uncut, &worker)).await;
        return read.unwrap_or_else(|fault| Err(ToolError::internal(format!("Reading broke off: {fault}"))));
    }
    on_a_thread(cx, &path.shown(), move |clock| of_format(&shown, opened, binary, &ask, clock, &uncut)).await
}

fn of_format(
    shown: &str,
    mut opened: OpenedFile,
    binary: Binary,
    ask: &Ask,
    clock: &Clock,
    uncut: &Uncut,
) -> Result<Reply, ToolError> {
    if let Some(mime_type) = image::mime_type(binary.format) {
        return image::show(shown, opened, binary.format, mime_type);
    }
    let lines = Lines { limit: archive::page(ask.limit), ..ask.lines };
    match archive::render(shown, &mut opened, binary.format, &|| clock.runs()) {
        Ok(rendered) => Ok(rendered.show(lines, uncut)),
        Err(cause) => {
            let kind = binary.kind;
            let size = figures::size(opened.size);
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
async fn on_a_thread<T: Send + 'static>(
    cx: &ToolCx,
    shown: &str,
    work: impl FnOnce(&Clock) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let clock = Clock::start();
    let (done, answer) = oneshot::channel();
    let of_thread = clock.clone();
    let started =
        std::thread::Builder::new().name("document".to_owned()).stack_size(STACK).spawn(move || {
            let made = std::panic::catch_unwind(AssertUnwindSafe(|| work(&of_thread)));
            // Nobody may be waiting any more.
            let _ = done.send(made);
        });
    if let Err(cause) = started {
        return Err(ToolError::io(shown, &cause));
    }
    let ended = tokio::select! {
        made = answer => made.ok(),
        () = cx.cancelled() => {
            clock.stopped.store(true, Ordering::Relaxed);
            return Err(ToolError::cancelled(format!("Reading {shown} was cancelled. Nothing was changed.")));
        }
        () = tokio::time::sleep(LONGEST + Duration::from_secs(2)) => {
            clock.stopped.store(true, Ordering::Relaxed);
            let text = format!("{shown} could not be read within {} s; it may be damaged. Look into it with Bash.", LONGEST.as_secs());
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
