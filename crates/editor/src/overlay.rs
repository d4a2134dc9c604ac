//! This machine as the client of the tools, with connected editors before it. A call that an editor follows uses the
//! editor for the methods that it serves, and this machine for all others. Without an attached editor it costs one
//! lock.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

use super::attached_editors::AttachedEditors;
use super::editor_terminals::{EditorCreateError, EditorTerminals};
use super::tool_call_view::ShownCall;
use super::{file_reads, write_routing};
use punie_core::ids::RequestId;
use punie_host::FileClient;
use punie_host::files::{
    FolderListing, ListFolder, LoadedFile, MoveFile, OpenedFile, ReadTextFile, RemoveFile,
    TextWindow, WriteReport, WriteTextFile,
};
use punie_host::local::local_files::{LocalFiles, run_prepared_write};
use punie_host::local::local_terminals::LocalTerminals;
use punie_host::prepared_write::PreparedWrite;
use punie_host::terminals::{
    CreateTerminal, OpenTerminal, OutputQuery, StopReport, StopSequence, TerminalClient,
    TerminalExit, TerminalId, TerminalInput, TerminalOutput, TypedBytes,
};
use punie_host::{ToolFuture, WorkspacePath};
use punie_tool::{ToolContext, ToolError};

/// Connected editors over this machine. Clones share all state.
#[derive(Clone)]
pub struct EditorOverlay {
    editors: AttachedEditors,
    files: LocalFiles,
    local_terminals: LocalTerminals,
    editor_terminals: EditorTerminals,
    /// The reasons why commands that were meant for an editor run on this machine.
    fallback_reasons: Arc<Mutex<HashMap<TerminalId, String>>>,
}

impl EditorOverlay {
    /// Puts these editors before the files and terminals of this machine. Scripts for the editors' terminals are
    /// written into this private folder.
    pub fn new(
        editors: AttachedEditors,
        files: LocalFiles,
        local_terminals: LocalTerminals,
        scripts: PathBuf,
    ) -> Self {
        Self {
            editors,
            files,
            editor_terminals: EditorTerminals::new(local_terminals.clone(), scripts),
            local_terminals,
            fallback_reasons: Arc::default(),
        }
    }

    /// Returns the call, if its editor serves reads of this file.
    fn call_with_reads(&self, request: &RequestId, path: &WorkspacePath) -> Option<Arc<ShownCall>> {
        self.editors
            .find_shown_call(request)
            .filter(|call| call.editor_session().serves_reads_of(path))
    }

    /// Returns the call, if this command should run in its editor's terminal.
    fn call_with_terminal(&self, request: &CreateTerminal) -> Option<Arc<ShownCall>> {
        let lasts = request.background || request.outlives_call || request.mounted.is_some();
        // Nothing narrows a command there to the folders of its session.
        let is_wide = request.folders.is_none();
        let plain = request.tty.is_none() && !lasts && request.stdin.is_none() && is_wide;
        // The script is written for bash.
        let call = self
            .editors
            .find_shown_call(&request.request)
            .filter(|_| plain && cfg!(unix))?;
        call.editor_session().serves_commands().then_some(call)
    }

    async fn create_routed_terminal(
        &self,
        request: CreateTerminal,
    ) -> Result<OpenTerminal, ToolError> {
        let Some(call) = self.call_with_terminal(&request) else {
            return self.local_terminals.create_terminal(request).await;
        };
        let why = match self.editor_terminals.create(&call, &request).await {
            Ok(open) => {
                call.mark_sent_to_editor();
                return Ok(open);
            }
            Err(EditorCreateError::DoNotRun(fault)) => {
                call.mark_sent_to_editor();
                return Err(fault);
            }
            Err(EditorCreateError::RunLocally(why)) => why,
        };
        let open = self.local_terminals.create_terminal(request).await?;
        let text = format!("It ran on this machine and not in the editor's terminal: {why}.");
        self.fallback_reasons.lock().insert(open.id.clone(), text);
        Ok(open)
    }
}

impl FileClient for EditorOverlay {
    fn read_text_file<'a>(
        &'a self,
        cx: &'a ToolContext,
        request: ReadTextFile,
    ) -> ToolFuture<'a, TextWindow> {
        match self.call_with_reads(&cx.request, &request.path) {
            None => self.files.read_text_file(cx, request),
            Some(call) => Box::pin(async move {
                file_reads::read_editor_window(&self.files, cx, call.editor_session(), request)
                    .await
            }),
        }
    }

    fn write_text_file<'a>(
        &'a self,
        cx: &'a ToolContext,
        request: WriteTextFile,
    ) -> ToolFuture<'a, WriteReport> {
        match self.editors.find_shown_call(&cx.request) {
            None => self.files.write_text_file(cx, request),
            Some(call) => Box::pin(async move {
                let write =
                    write_routing::prepare_editor_write(&self.files, cx, call, request).await?;
                run_prepared_write(cx, write).await
            }),
        }
    }

    fn prepare_file<'a>(
        &'a self,
        cx: &'a ToolContext,
        request: WriteTextFile,
    ) -> ToolFuture<'a, Box<dyn PreparedWrite>> {
        match self.editors.find_shown_call(&cx.request) {
            None => self.files.prepare_file(cx, request),
            Some(call) => Box::pin(async move {
                write_routing::prepare_editor_write(&self.files, cx, call, request).await
            }),
        }
    }

    fn load_file<'a>(
        &'a self,
        cx: &'a ToolContext,
        path: WorkspacePath,
        max_bytes: u64,
    ) -> ToolFuture<'a, LoadedFile> {
        match self.call_with_reads(&cx.request, &path) {
            None => self.files.load_file(cx, path, max_bytes),
            Some(call) => Box::pin(async move {
                file_reads::load_editor_file(
                    &self.files,
                    cx,
                    call.editor_session(),
                    path,
                    max_bytes,
                )
                .await
            }),
        }
    }

    fn open_file<'a>(
        &'a self,
        cx: &'a ToolContext,
        path: WorkspacePath,
    ) -> ToolFuture<'a, OpenedFile> {
        self.files.open_file(cx, path)
    }

    fn remove_file<'a>(&'a self, cx: &'a ToolContext, request: RemoveFile) -> ToolFuture<'a, ()> {
        self.files.remove_file(cx, request)
    }

    fn move_file<'a>(&'a self, cx: &'a ToolContext, request: MoveFile) -> ToolFuture<'a, ()> {
        self.files.move_file(cx, request)
    }

    fn remove_empty_folder<'a>(
        &'a self,
        cx: &'a ToolContext,
        path: WorkspacePath,
    ) -> ToolFuture<'a, bool> {
        self.files.remove_empty_folder(cx, path)
    }

    fn list_folder<'a>(
        &'a self,
        cx: &'a ToolContext,
        request: ListFolder,
    ) -> ToolFuture<'a, FolderListing> {
        self.files.list_folder(cx, request)
    }
}

impl TerminalClient for EditorOverlay {
    fn create_terminal(&self, request: CreateTerminal) -> ToolFuture<'_, OpenTerminal> {
        Box::pin(self.create_routed_terminal(request))
    }

    fn terminal_output(&self, query: OutputQuery) -> ToolFuture<'_, TerminalOutput> {
        Box::pin(async move {
            if let Some(command) = self.editor_terminals.find_command(&query.id) {
                return command
                    .read_output(&self.local_terminals, query.since)
                    .await;
            }
            let why = self.fallback_reasons.lock().get(&query.id).cloned();
            let mut output = self.local_terminals.terminal_output(query).await?;
            output.warnings.extend(why);
            Ok(output)
        })
    }

    fn wait_for_terminal_output<'a>(&'a self, id: &'a TerminalId, seen: u64) -> ToolFuture<'a, ()> {
        match self.editor_terminals.find_command(id) {
            // An editor does not report new output; its commands always run in the foreground.
            Some(command) => Box::pin(async move { command.wait_for_exit().await.map(drop) }),
            None => self.local_terminals.wait_for_terminal_output(id, seen),
        }
    }

    fn write_terminal<'a>(
        &'a self,
        id: &'a TerminalId,
        strokes: Vec<TerminalInput>,
    ) -> ToolFuture<'a, TypedBytes> {
        if self.editor_terminals.find_command(id).is_none() {
            return self.local_terminals.write_terminal(id, strokes);
        }
        let text = "The command runs in an editor's terminal, where only the person there types.";
        Box::pin(std::future::ready(Err(ToolError::invalid_args(text))))
    }

    fn wait_for_terminal_exit<'a>(&'a self, id: &'a TerminalId) -> ToolFuture<'a, TerminalExit> {
        match self.editor_terminals.find_command(id) {
            Some(command) => Box::pin(async move { command.wait_for_exit().await }),
            None => self.local_terminals.wait_for_terminal_exit(id),
        }
    }

    fn kill_terminal<'a>(
        &'a self,
        id: &'a TerminalId,
        sequence: StopSequence,
    ) -> ToolFuture<'a, StopReport> {
        match self.editor_terminals.find_command(id) {
            Some(command) => Box::pin(async move { command.kill().await }),
            None => self.local_terminals.kill_terminal(id, sequence),
        }
    }

    fn terminal_listeners<'a>(&'a self, id: &'a TerminalId) -> ToolFuture<'a, Vec<String>> {
        match self.editor_terminals.find_command(id) {
            Some(_) => Box::pin(std::future::ready(Ok(Vec::new()))),
            None => self.local_terminals.terminal_listeners(id),
        }
    }

    fn release_terminal<'a>(&'a self, id: &'a TerminalId) -> ToolFuture<'a, ()> {
        self.fallback_reasons.lock().remove(id);
        match self.editor_terminals.take_command(id) {
            Some(command) => Box::pin(async move {
                command.release_terminal().await;
                Ok(())
            }),
            None => self.local_terminals.release_terminal(id),
        }
    }

    fn abandon_terminal(&self, id: TerminalId) {
        self.fallback_reasons.lock().remove(&id);
        match self.editor_terminals.take_command(&id) {
            Some(command) => self.editor_terminals.release_in_background(command),
            None => self.local_terminals.abandon_terminal(id),
        }
    }
}
