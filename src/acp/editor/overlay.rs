//! This machine as the client of the tools, with connected editors before it. A call that an editor follows uses the
//! editor for the methods that it serves, and this machine for all others. Without an attached editor it costs one
//! lock. Not here: the editor's methods (files, writes, terminals).

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::shown::ShownCall;
use super::terminals::{EditorTerminals, NotThere};
use super::turns::Editors;
use super::{files, writes};
use crate::acp::apps::{AppClient, AppRequest, OpenedApp};
use crate::acp::files::{
    FileClient, FolderListing, ListFolder, LoadedFile, MoveFile, OpenedFile, ReadTextFile, RemoveFile,
    TextWindow, WriteTextFile, Written,
};
use crate::acp::local::files::make;
use crate::acp::prepared::PreparedWrite;
use crate::acp::terminals::{
    CreateTerminal, Ladder, OpenTerminal, OutputQuery, Stopped, Stroke, TerminalClient, TerminalExit,
    TerminalId, TerminalOutput, Typed,
};
use crate::acp::{Answer, LocalClient, WorkspacePath};
use crate::ids::RequestId;
use crate::tool::{ToolCx, ToolError};

/// Connected editors over this machine. Clones share all state.
#[derive(Clone)]
pub struct Overlay {
    editors: Editors,
    local: LocalClient,
    terminals: EditorTerminals,
    /// The reasons why commands that were meant for an editor run on this machine.
    instead: Arc<Mutex<HashMap<TerminalId, String>>>,
}

impl Overlay {
    /// Puts these editors before this machine. Scripts for their terminals are written into this private folder.
    pub fn new(editors: Editors, local: LocalClient, scripts: PathBuf) -> Self {
        let terminals = EditorTerminals::new(local.clone(), scripts);
        Self { editors, local, terminals, instead: Arc::default() }
    }

    /// Returns the call, if its editor serves reads of this file.
    fn reader(&self, request: &RequestId, path: &WorkspacePath) -> Option<Arc<ShownCall>> {
        self.editors.call(request).filter(|call| call.session().reads(path))
    }

    /// Returns the call, if this command should run in its editor's terminal.
    fn runner(&self, request: &CreateTerminal) -> Option<Arc<ShownCall>> {
        let lasts = request.background || request.outlives_call || request.mounted.is_some();
        let plain = request.tty.is_none() && !lasts && request.stdin.is_none();
        // The script is written for bash.
        let call = self.editors.call(&request.request).filter(|_| plain && cfg!(unix))?;
        call.session().runs().then_some(call)
    }

    fn instead(&self) -> MutexGuard<'_, HashMap<TerminalId, String>> {
        self.instead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn create(&self, request: CreateTerminal) -> Result<OpenTerminal, ToolError> {
        let Some(call) = self.runner(&request) else { return self.local.create_terminal(request).await };
        let why = match self.terminals.create(&call, &request).await {
            Ok(open) => {
                call.sent_to_editor();
                return Ok(open);
            }
            Err(NotThere::Refused(fault)) => {
                call.sent_to_editor();
                return Err(fault);
            }
            Err(NotThere::Local(why)) => why,
        };
        let open = self.local.create_terminal(request).await?;
        let text = format!("It ran on this machine and not in the editor's terminal: {why}.");
        self.instead().insert(open.id.clone(), text);
        Ok(open)
    }
}

impl FileClient for Overlay {
    fn read_text_file<'a>(&'a self, cx: &'a ToolCx, request: ReadTextFile) -> Answer<'a, TextWindow> {
        match self.reader(&cx.request, &request.path) {
            None => self.local.read_text_file(cx, request),
            Some(call) => {
                Box::pin(async move { files::read(&self.local, cx, call.session(), request).await })
            }
        }
    }

    fn write_text_file<'a>(&'a self, cx: &'a ToolCx, request: WriteTextFile) -> Answer<'a, Written> {
        match self.editors.call(&cx.request) {
            None => self.local.write_text_file(cx, request),
            Some(call) => Box::pin(async move {
                let write = writes::prepare(&self.local, cx, call, request).await?;
                make(cx, write).await
            }),
        }
    }

    fn prepare_file<'a>(
        &'a self,
        cx: &'a ToolCx,
        request: WriteTextFile,
    ) -> Answer<'a, Box<dyn PreparedWrite>> {
        match self.editors.call(&cx.request) {
            None => self.local.prepare_file(cx, request),
            Some(call) => Box::pin(async move { writes::prepare(&self.local, cx, call, request).await }),
        }
    }

    fn stage_file<'a>(
        &'a self,
        cx: &'a ToolCx,
        write: Box<dyn PreparedWrite>,
    ) -> Answer<'a, Box<dyn PreparedWrite>> {
        self.local.stage_file(cx, write)
    }

    fn place_file<'a>(&'a self, cx: &'a ToolCx, write: Box<dyn PreparedWrite>) -> Answer<'a, Written> {
        self.local.place_file(cx, write)
    }

    fn load_file<'a>(
        &'a self,
        cx: &'a ToolCx,
        path: WorkspacePath,
        max_bytes: u64,
    ) -> Answer<'a, LoadedFile> {
        match self.reader(&cx.request, &path) {
            None => self.local.load_file(cx, path, max_bytes),
            Some(call) => {
                Box::pin(async move { files::load(&self.local, cx, call.session(), path, max_bytes).await })
            }
        }
    }

    fn open_file<'a>(&'a self, cx: &'a ToolCx, path: WorkspacePath) -> Answer<'a, OpenedFile> {
        self.local.open_file(cx, path)
    }

    fn remove_file<'a>(&'a self, cx: &'a ToolCx, request: RemoveFile) -> Answer<'a, ()> {
        self.local.remove_file(cx, request)
    }

    fn move_file<'a>(&'a self, cx: &'a ToolCx, request: MoveFile) -> Answer<'a, ()> {
        self.local.move_file(cx, request)
    }

    fn remove_empty_folder<'a>(&'a self, cx: &'a ToolCx, path: WorkspacePath) -> Answer<'a, bool> {
        self.local.remove_empty_folder(cx, path)
    }

    fn list_folder<'a>(&'a self, cx: &'a ToolCx, request: ListFolder) -> Answer<'a, FolderListing> {
        self.local.list_folder(cx, request)
    }
}

impl AppClient for Overlay {
    fn open_app(&self, request: AppRequest) -> Answer<'_, OpenedApp> {
        self.local.open_app(request)
    }
}

impl TerminalClient for Overlay {
    fn create_terminal(&self, request: CreateTerminal) -> Answer<'_, OpenTerminal> {
        Box::pin(self.create(request))
    }

    fn terminal_output(&self, query: OutputQuery) -> Answer<'_, TerminalOutput> {
        Box::pin(async move {
            if self.terminals.has(&query.id) {
                return self.terminals.output(query).await;
            }
            let why = self.instead().get(&query.id).cloned();
            let mut output = self.local.terminal_output(query).await?;
            output.warnings.extend(why);
            Ok(output)
        })
    }

    fn wait_for_terminal_output<'a>(&'a self, id: &'a TerminalId, seen: u64) -> Answer<'a, ()> {
        if self.terminals.has(id) {
            // An editor does not report new output; its commands always run in the foreground.
            return Box::pin(async move { self.terminals.wait(id).await.map(drop) });
        }
        self.local.wait_for_terminal_output(id, seen)
    }

    fn write_terminal<'a>(&'a self, id: &'a TerminalId, strokes: Vec<Stroke>) -> Answer<'a, Typed> {
        if self.terminals.has(id) {
            let text = "The command runs in an editor's terminal, where only the person there types.";
            return Box::pin(std::future::ready(Err(ToolError::invalid_args(text))));
        }
        self.local.write_terminal(id, strokes)
    }

    fn wait_for_terminal_exit<'a>(&'a self, id: &'a TerminalId) -> Answer<'a, TerminalExit> {
        if self.terminals.has(id) {
            return Box::pin(self.terminals.wait(id));
        }
        self.local.wait_for_terminal_exit(id)
    }

    fn kill_terminal<'a>(&'a self, id: &'a TerminalId, ladder: Ladder) -> Answer<'a, Stopped> {
        if self.terminals.has(id) {
            return Box::pin(self.terminals.kill(id));
        }
        self.local.kill_terminal(id, ladder)
    }

    fn terminal_listeners<'a>(&'a self, id: &'a TerminalId) -> Answer<'a, Vec<String>> {
        if self.terminals.has(id) {
            return Box::pin(std::future::ready(Ok(Vec::new())));
        }
        self.local.terminal_listeners(id)
    }

    fn release_terminal<'a>(&'a self, id: &'a TerminalId) -> Answer<'a, ()> {
        self.instead().remove(id);
        if self.terminals.has(id) {
            return Box::pin(self.terminals.release(id));
        }
        self.local.release_terminal(id)
    }

    fn abandon_terminal(&self, id: TerminalId) {
        self.instead().remove(&id);
        if self.terminals.has(&id) {
            return self.terminals.abandon(&id);
        }
        self.local.abandon_terminal(id);
    }
}
