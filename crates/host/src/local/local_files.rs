//! Serves ACP's file methods from this machine's file system. Every call works on a blocking thread and stops when its
//! request is cancelled.

use std::io::Seek as _;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::file_form::preserve_form;
use super::file_open::{file_stamp, open_to_read, sha256_hex};
use super::recent_indexes::LineIndexCache;
use super::text_detection::require_text_encoding;
use super::{atomic_write, file_removal, folder_listing, text_window};
use crate::file_content;
use crate::files::{
    FileEncoding, FolderListing, ListFolder, LoadedFile, MoveFile, OpenedFile, ReadTextFile,
    RemoveFile, TextSource, TextWindow, WriteReport, WriteTextFile,
};
use crate::prepared_write::PreparedWrite;
use crate::{FileClient, ToolFuture, WorkspacePath};
use punie_home::shell_word;
use punie_text::output::line_index::read_at_offset;
use punie_text::output::number_format;
use punie_tool::{CallIntent, ErrorCode, ToolContext, ToolError};

/// Serves the file methods on this machine. Clones share the line indexes of big files.
#[derive(Debug, Clone, Default)]
pub struct LocalFiles {
    indexes: Arc<LineIndexCache>,
}

impl LocalFiles {
    /// Creates a client that has read no file yet.
    pub fn new() -> Self {
        Self::default()
    }
}

impl FileClient for LocalFiles {
    fn read_text_file<'a>(
        &'a self,
        cx: &'a ToolContext,
        request: ReadTextFile,
    ) -> ToolFuture<'a, TextWindow> {
        let indexes = Arc::clone(&self.indexes);
        let uncut = cx.secret_boundaries.clone();
        run_file_work(cx, move |cancel| {
            text_window::read_window(&request, &uncut, &indexes, cancel)
        })
    }

    fn write_text_file<'a>(
        &'a self,
        cx: &'a ToolContext,
        request: WriteTextFile,
    ) -> ToolFuture<'a, WriteReport> {
        let making = WriteRunner::from_context(cx);
        run_file_work(cx, move |cancel| {
            making.execute(Box::new(atomic_write::prepare_write(request, cancel)?))
        })
    }

    fn prepare_file<'a>(
        &'a self,
        cx: &'a ToolContext,
        request: WriteTextFile,
    ) -> ToolFuture<'a, Box<dyn PreparedWrite>> {
        run_file_work(cx, move |cancel| {
            Ok(Box::new(atomic_write::prepare_write(request, cancel)?) as Box<dyn PreparedWrite>)
        })
    }

    fn load_file<'a>(
        &'a self,
        cx: &'a ToolContext,
        path: WorkspacePath,
        max_bytes: u64,
    ) -> ToolFuture<'a, LoadedFile> {
        run_file_work(cx, move |_| load_whole_file(&path, max_bytes))
    }

    fn open_file<'a>(
        &'a self,
        cx: &'a ToolContext,
        path: WorkspacePath,
    ) -> ToolFuture<'a, OpenedFile> {
        run_file_work(cx, move |_| {
            let failed = |cause| path.access_error(cause);
            let (mut file, metadata) = open_to_read(&path)?;
            let mut head = vec![0; file_content::SNIFFED_BYTES];
            let n = read_at_offset(&file, 0, &mut head).map_err(failed)?;
            file.rewind().map_err(failed)?;
            let content = file_content::classify_content(&head[..n], metadata.len() == n as u64);
            let stamp = file_stamp(&metadata);
            Ok(OpenedFile {
                bytes: Box::new(file),
                size: stamp.size,
                stamp,
                content,
            })
        })
    }

    fn remove_file<'a>(&'a self, cx: &'a ToolContext, request: RemoveFile) -> ToolFuture<'a, ()> {
        run_file_work(cx, move |_| file_removal::remove_regular_file(&request))
    }

    fn move_file<'a>(&'a self, cx: &'a ToolContext, request: MoveFile) -> ToolFuture<'a, ()> {
        run_file_work(cx, move |_| file_removal::move_regular_file(&request))
    }

    fn remove_empty_folder<'a>(
        &'a self,
        cx: &'a ToolContext,
        path: WorkspacePath,
    ) -> ToolFuture<'a, bool> {
        run_file_work(cx, move |_| file_removal::remove_empty_folder(&path))
    }

    fn list_folder<'a>(
        &'a self,
        cx: &'a ToolContext,
        request: ListFolder,
    ) -> ToolFuture<'a, FolderListing> {
        run_file_work(cx, move |cancel| {
            folder_listing::list_folder_entries(&request, cancel)
        })
    }
}

/// Runs a prepared write. It waits on its blocking thread, so that a declared write is completed even if the call is
/// dropped.
struct WriteRunner {
    cx: ToolContext,
    runtime: tokio::runtime::Handle,
}

impl WriteRunner {
    fn from_context(cx: &ToolContext) -> Self {
        Self {
            cx: cx.clone(),
            runtime: tokio::runtime::Handle::current(),
        }
    }

    /// Declares the write and makes it.
    fn execute(&self, mut write: Box<dyn PreparedWrite>) -> Result<WriteReport, ToolError> {
        if let Some(intent) = write.next_intent() {
            self.runtime
                .block_on(self.cx.declare_intents(vec![intent]))?;
        }
        let announced = matches!(write.next_intent(), Some(CallIntent::Beside { .. }));
        write.stage_content()?;
        if let Some(intent) = write.next_intent().filter(|_| announced) {
            self.runtime
                .block_on(self.cx.declare_intents(vec![intent]))?;
        }
        write.place_content()
    }
}

/// Makes a write that another client prepared, in the same way as one of this machine's own.
pub fn run_prepared_write(
    cx: &ToolContext,
    write: Box<dyn PreparedWrite>,
) -> ToolFuture<'_, WriteReport> {
    let making = WriteRunner::from_context(cx);
    run_file_work(cx, move |_| making.execute(write))
}

/// Writes the content of a prepared and declared write beside its file.
pub fn stage_prepared_write(
    cx: &ToolContext,
    mut write: Box<dyn PreparedWrite>,
) -> ToolFuture<'_, Box<dyn PreparedWrite>> {
    run_file_work(cx, move |_| write.stage_content().map(|()| write))
}

/// Replaces the file with staged content. Fails with `stale`.
pub fn place_staged_write(
    cx: &ToolContext,
    write: Box<dyn PreparedWrite>,
) -> ToolFuture<'_, WriteReport> {
    run_file_work(cx, move |_| write.place_content())
}

/// Reads a window of a text in memory, as if it were a file on disk.
pub fn read_window_in_memory(
    cx: &ToolContext,
    request: ReadTextFile,
    bytes: Arc<Vec<u8>>,
) -> ToolFuture<'_, TextWindow> {
    let uncut = cx.secret_boundaries.clone();
    run_file_work(cx, move |_| {
        let encoding = FileEncoding::Utf8.with_bom_of(&bytes);
        let mut window = text_window::window_in_memory(&request, &uncut, &bytes, encoding, false)?;
        window.sha256 = Some(sha256_hex(&bytes));
        Ok(window)
    })
}

/// Gives this text the encoding and line endings of the file with these bytes, as a write would, and returns the
/// warnings.
pub fn shape_like_file(text: &str, old: &[u8]) -> (Vec<u8>, Vec<String>) {
    preserve_form(text, old, 0)
}

fn run_file_work<T: Send + 'static>(
    cx: &ToolContext,
    work: impl FnOnce(&CancellationToken) -> Result<T, ToolError> + Send + 'static,
) -> ToolFuture<'_, T> {
    let cancel = cx.cancel.clone();
    Box::pin(async move {
        let done = tokio::task::spawn_blocking(move || {
            if cancel.is_cancelled() {
                return Err(ToolError::call_cancelled(
                    "The call was cancelled before anything was done.",
                ));
            }
            work(&cancel)
        });
        done.await.unwrap_or_else(|fault| {
            Err(ToolError::internal(format!("File work broke off: {fault}")))
        })
    })
}

fn load_whole_file(path: &WorkspacePath, max_bytes: u64) -> Result<LoadedFile, ToolError> {
    let (file, metadata) = open_to_read(path)?;
    let stamp = file_stamp(&metadata);
    if stamp.size > max_bytes {
        let text = format!(
            "{} is {}; files are edited up to {}. Change it with Bash: sed -i 's/old/new/' {}",
            path.display_text(),
            number_format::format_size(stamp.size),
            number_format::format_size(max_bytes),
            shell_word(&path.absolute_path().to_string_lossy())
        );
        return Err(ToolError::new(ErrorCode::TooLarge, text));
    }
    let mut bytes = vec![0; usize::try_from(stamp.size).unwrap_or_default()];
    let n = read_at_offset(&file, 0, &mut bytes).map_err(|cause| path.access_error(cause))?;
    bytes.truncate(n);
    let encoding = require_text_encoding(path, &bytes, stamp.size, true)?;
    Ok(LoadedFile {
        bytes: Arc::new(bytes),
        encoding,
        stamp,
        source: TextSource::Disk,
    })
}
