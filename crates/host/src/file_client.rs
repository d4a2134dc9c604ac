//! ACP's file methods as one interface, with those that the tools of this machine need beyond them.

use super::files::{
    LoadedFile, MoveFile, OpenedFile, ReadTextFile, RemoveFile, TextWindow, WriteReport,
    WriteTextFile,
};
use super::folders::{FolderListing, ListFolder};
use super::prepared_write::PreparedWrite;
use super::{ToolFuture, WorkspacePath};
use punie_tool::ToolContext;

/// Reads and writes text files inside the workspace.
///
/// The first two methods are the protocol's, and a connected editor can serve them too. The others are for the tools of
/// this machine.
pub trait FileClient: Send + Sync + 'static {
    /// Returns a resolved path as this call finds it. Clients that stage changes know more than the disk.
    fn find_for_call<'a>(
        &'a self,
        _cx: &'a ToolContext,
        path: WorkspacePath,
    ) -> ToolFuture<'a, WorkspacePath> {
        Box::pin(async move { Ok(path) })
    }

    /// Reads some lines of a text file.
    ///
    /// Fails with `is_directory`, `not_text`, `not_found` (with similar names), `too_large` if the lines cannot be
    /// reached in bounded time, `cancelled`.
    fn read_text_file<'a>(
        &'a self,
        cx: &'a ToolContext,
        request: ReadTextFile,
    ) -> ToolFuture<'a, TextWindow>;

    /// Replaces or creates a file: readers see the old content or the new one, never a part. It is declared before the
    /// file is changed.
    ///
    /// Fails with `policy_denied`, `stale` when the [`WritePrecondition`](super::files::WritePrecondition) does not hold, `is_directory`.
    fn write_text_file<'a>(
        &'a self,
        cx: &'a ToolContext,
        request: WriteTextFile,
    ) -> ToolFuture<'a, WriteReport>;

    /// Checks a write without making it, so that several writes can be declared and made together. Fails like
    /// `write_text_file`.
    fn prepare_file<'a>(
        &'a self,
        cx: &'a ToolContext,
        request: WriteTextFile,
    ) -> ToolFuture<'a, Box<dyn PreparedWrite>>;

    /// Loads a whole file's bytes, for editing. Fails like `read_text_file`, and with `too_large` above `max_bytes`.
    fn load_file<'a>(
        &'a self,
        cx: &'a ToolContext,
        path: WorkspacePath,
        max_bytes: u64,
    ) -> ToolFuture<'a, LoadedFile>;

    /// Opens a file's raw bytes, for formats that are not text. Fails like `read_text_file`, but for `not_text` where
    /// it is a regular file.
    fn open_file<'a>(
        &'a self,
        cx: &'a ToolContext,
        path: WorkspacePath,
    ) -> ToolFuture<'a, OpenedFile>;
    /// Removes a file. Fails with `policy_denied`, `not_found`, `stale`, `is_directory`.
    fn remove_file<'a>(&'a self, cx: &'a ToolContext, request: RemoveFile) -> ToolFuture<'a, ()>;

    /// Moves a file to a path that does not exist yet. Fails with `policy_denied`, `not_found`, `stale`.
    fn move_file<'a>(&'a self, cx: &'a ToolContext, request: MoveFile) -> ToolFuture<'a, ()>;

    /// Removes a folder if it is empty. Returns whether it was.
    fn remove_empty_folder<'a>(
        &'a self,
        cx: &'a ToolContext,
        path: WorkspacePath,
    ) -> ToolFuture<'a, bool>;

    /// Lists a folder.
    fn list_folder<'a>(
        &'a self,
        cx: &'a ToolContext,
        request: ListFolder,
    ) -> ToolFuture<'a, FolderListing>;
}
