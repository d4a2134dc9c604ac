//! Serves ACP's file methods from this machine's file system. Every call works on a blocking thread and stops when
//! its request is cancelled. Not here: the work itself, in one file for each task beside this one.

use std::io::Seek as _;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::opening::{open, stamp_of};
use super::recent_indexes::LineIndexes;
use super::reshaping::kept_as_it_was;
use super::sniff::encoding_of;
use super::{atomic_write, folder_listing, removal, text_window};
use crate::acp::content;
use crate::acp::files::{
    Encoding, FolderListing, ListFolder, LoadedFile, MoveFile, OpenedFile, ReadTextFile, RemoveFile, Source,
    TextWindow, WriteTextFile, Written,
};
use crate::acp::prepared::PreparedWrite;
use crate::acp::workspace::in_words;
use crate::acp::{Answer, FileClient, WorkspacePath};
use crate::output::figures;
use crate::output::line_index::read_at;
use crate::tool::{ErrorCode, Intent, ToolCx, ToolError};

/// Serves the file methods on this machine. Clones share the line indexes of big files.
#[derive(Debug, Clone, Default)]
pub struct LocalFiles {
    indexes: Arc<LineIndexes>,
}

impl LocalFiles {
    /// Creates a client that has read no file yet.
    pub fn new() -> Self {
        Self::default()
    }
}

impl FileClient for LocalFiles {
    fn read_text_file<'a>(&'a self, cx: &'a ToolCx, request: ReadTextFile) -> Answer<'a, TextWindow> {
        let (indexes, uncut) = (Arc::clone(&self.indexes), cx.uncut.clone());
        blocking(cx, move |cancel| text_window::read(&request, &uncut, &indexes, cancel))
    }

    fn write_text_file<'a>(&'a self, cx: &'a ToolCx, request: WriteTextFile) -> Answer<'a, Written> {
        let making = Making::of(cx);
        blocking(cx, move |cancel| making.make(Box::new(atomic_write::prepare(request, cancel)?)))
    }

    fn prepare_file<'a>(
        &'a self,
        cx: &'a ToolCx,
        request: WriteTextFile,
    ) -> Answer<'a, Box<dyn PreparedWrite>> {
        blocking(cx, move |cancel| {
            Ok(Box::new(atomic_write::prepare(request, cancel)?) as Box<dyn PreparedWrite>)
        })
    }

    fn stage_file<'a>(
        &'a self,
        cx: &'a ToolCx,
        mut write: Box<dyn PreparedWrite>,
    ) -> Answer<'a, Box<dyn PreparedWrite>> {
        blocking(cx, move |_| write.stage().map(|()| write))
    }

    fn place_file<'a>(&'a self, cx: &'a ToolCx, write: Box<dyn PreparedWrite>) -> Answer<'a, Written> {
        blocking(cx, move |_| write.place())
    }

    fn load_file<'a>(
        &'a self,
        cx: &'a ToolCx,
        path: WorkspacePath,
        max_bytes: u64,
    ) -> Answer<'a, LoadedFile> {
        blocking(cx, move |_| load(&path, max_bytes))
    }

    fn open_file<'a>(&'a self, cx: &'a ToolCx, path: WorkspacePath) -> Answer<'a, OpenedFile> {
        blocking(cx, move |_| {
            let failed = |cause| ToolError::io(path.shown(), &in_words(cause));
            let (mut file, metadata) = open(&path)?;
            let mut head = vec![0; content::HEAD];
            let n = read_at(&file, 0, &mut head).map_err(failed)?;
            file.rewind().map_err(failed)?;
            let content = content::classify(&head[..n], metadata.len() == n as u64);
            let stamp = stamp_of(&metadata);
            Ok(OpenedFile { bytes: Box::new(file), size: stamp.size, stamp, content })
        })
    }

    fn remove_file<'a>(&'a self, cx: &'a ToolCx, request: RemoveFile) -> Answer<'a, ()> {
        blocking(cx, move |_| removal::remove(&request))
    }

    fn move_file<'a>(&'a self, cx: &'a ToolCx, request: MoveFile) -> Answer<'a, ()> {
        blocking(cx, move |_| removal::rename(&request))
    }

    fn remove_empty_folder<'a>(&'a self, cx: &'a ToolCx, path: WorkspacePath) -> Answer<'a, bool> {
        blocking(cx, move |_| removal::remove_empty_folder(&path))
    }

    fn list_folder<'a>(&'a self, cx: &'a ToolCx, request: ListFolder) -> Answer<'a, FolderListing> {
        blocking(cx, move |cancel| folder_listing::list(&request, cancel))
    }
}

/// Runs a prepared write. It waits on its blocking thread, so that a declared write is completed even if the call is
/// dropped.
struct Making {
    cx: ToolCx,
    runtime: tokio::runtime::Handle,
}

impl Making {
    fn of(cx: &ToolCx) -> Self {
        Self { cx: cx.clone(), runtime: tokio::runtime::Handle::current() }
    }

    /// Declares the write and makes it.
    fn make(&self, mut write: Box<dyn PreparedWrite>) -> Result<Written, ToolError> {
        if let Some(intent) = write.intent() {
            self.runtime.block_on(self.cx.declare(vec![intent]))?;
        }
        let announced = matches!(write.intent(), Some(Intent::Beside { .. }));
        write.stage()?;
        if let Some(intent) = write.intent().filter(|_| announced) {
            self.runtime.block_on(self.cx.declare(vec![intent]))?;
        }
        write.place()
    }
}

/// Makes a write that another client prepared, in the same way as one of this machine's own.
pub(in crate::acp) fn make(cx: &ToolCx, write: Box<dyn PreparedWrite>) -> Answer<'_, Written> {
    let making = Making::of(cx);
    blocking(cx, move |_| making.make(write))
}

/// Reads a window of a text in memory, as if it were a file on disk.
pub(in crate::acp) fn window_of(
    cx: &ToolCx,
    request: ReadTextFile,
    bytes: Arc<Vec<u8>>,
) -> Answer<'_, TextWindow> {
    let uncut = cx.uncut.clone();
    blocking(cx, move |_| {
        let encoding = Encoding::Utf8.in_file(&bytes);
        let mut window = text_window::in_memory(&request, &uncut, &bytes, encoding, false)?;
        window.sha256 = Some(text_window::sha256_hex(&bytes));
        Ok(window)
    })
}

/// Gives this text the encoding and line endings of the file with these bytes, as a write would, and returns the
/// warnings.
pub(in crate::acp) fn shaped(text: &str, old: &[u8]) -> (Vec<u8>, Vec<String>) {
    kept_as_it_was(text, old, 0)
}

fn blocking<T: Send + 'static>(
    cx: &ToolCx,
    work: impl FnOnce(&CancellationToken) -> Result<T, ToolError> + Send + 'static,
) -> Answer<'_, T> {
    let cancel = cx.cancel.clone();
    Box::pin(async move {
        let done = tokio::task::spawn_blocking(move || {
            if cancel.is_cancelled() {
                return Err(ToolError::cancelled("The call was cancelled before anything was done."));
            }
            work(&cancel)
        });
        done.await.unwrap_or_else(|fault| Err(ToolError::internal(format!("File work broke off: {fault}"))))
    })
}

fn load(path: &WorkspacePath, max_bytes: u64) -> Result<LoadedFile, ToolError> {
    let (file, metadata) = open(path)?;
    let stamp = stamp_of(&metadata);
    if stamp.size > max_bytes {
        let text = format!(
            "{} is {}; files are edited up to {}. Change it with Bash, for example `sed -i`.",
            path.shown(),
            figures::size(stamp.size),
            figures::size(max_bytes)
        );
        return Err(ToolError::new(ErrorCode::TooLarge, text));
    }
    let mut bytes = vec![0; usize::try_from(stamp.size).unwrap_or_default()];
    let n = read_at(&file, 0, &mut bytes).map_err(|cause| ToolError::io(path.shown(), &in_words(cause)))?;
    bytes.truncate(n);
    let encoding = encoding_of(path, &bytes, stamp.size, true)?;
    Ok(LoadedFile { bytes: Arc::new(bytes), encoding, stamp, source: Source::Disk })
}
