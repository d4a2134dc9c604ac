//! The client on this machine: its file system and its processes.

pub(in crate::acp) mod argument_limit;
mod atomic_write;
pub mod child_log;
#[cfg(unix)]
mod child_process;
#[cfg(unix)]
mod child_tracking;
#[cfg(unix)]
mod command_capture;
#[cfg(unix)]
mod command_checks;
pub mod command_environment;
#[cfg(unix)]
mod command_plan;
#[cfg(unix)]
mod command_terminal;
pub mod confinement;
#[cfg(unix)]
mod control_group;
pub mod descriptor_limit;
pub mod desktop_apps;
#[cfg(unix)]
mod disk_copy;
#[cfg(unix)]
pub(in crate::acp) mod editor_commands;
#[cfg(not(unix))]
#[path = "editor_commands_elsewhere.rs"]
pub(in crate::acp) mod editor_commands;
#[cfg(target_os = "linux")]
mod enter_sandbox;
#[cfg(unix)]
mod extended_attributes;
mod file_content_writer;
mod file_form;
mod file_open;
mod file_removal;
mod folder_listing;
#[cfg(unix)]
mod folder_scan;
#[cfg(unix)]
mod git_config;
#[cfg(unix)]
pub mod group_limits;
#[cfg(unix)]
mod input_wait;
pub mod intent_recovery;
#[cfg(unix)]
mod known_repositories;
#[cfg(unix)]
mod launch;
#[cfg(unix)]
pub(crate) mod limit_mark;
#[cfg(unix)]
mod listening_sockets;
pub mod local_client_tools;
pub mod local_files;
#[cfg(unix)]
pub mod local_terminals;
#[cfg(not(unix))]
#[path = "local_terminals_elsewhere.rs"]
pub mod local_terminals;
#[cfg(unix)]
mod login_environment;
mod mode_and_owner;
#[cfg(unix)]
mod oom_kills;
pub mod other_processes;
#[cfg(unix)]
mod persistent_commands;
#[cfg(unix)]
pub(crate) mod process_attachment;
pub mod process_identity;
#[cfg(unix)]
pub mod process_kill;
#[cfg(target_os = "linux")]
mod process_tags;
#[cfg(unix)]
mod process_tree;
#[cfg(unix)]
mod protected_path_watch;
#[cfg(unix)]
mod protected_paths;
#[cfg(unix)]
mod pty;
#[cfg(unix)]
mod pump;
mod recent_indexes;
#[cfg(unix)]
mod recent_output;
pub(in crate::acp) mod script_file;
#[cfg(unix)]
mod self_test_run;
mod session_terminals;
mod similar_paths;
mod stream_decoder;
#[cfg(unix)]
mod temp_cleanup;
mod temp_file;
#[cfg(target_os = "linux")]
pub mod terminal_holder;
mod text_detection;
mod text_lines;
mod text_window;

use std::sync::Arc;

use super::apps::{AppClient, AppRequest, OpenedApp};
use super::files::{
    FileClient, FolderListing, ListFolder, LoadedFile, MoveFile, OpenedFile, ReadTextFile,
    RemoveFile, TextWindow, WriteReport, WriteTextFile,
};
use super::prepared_write::PreparedWrite;
use super::terminals::{
    CreateTerminal, OpenTerminal, OutputQuery, StopReport, StopSequence, TerminalClient,
    TerminalExit, TerminalId, TerminalInput, TerminalOutput, TypedBytes,
};
use super::{ToolFuture, Workspace, WorkspacePath};
pub(crate) use crate::sandbox::is_absent;
use crate::tool::ToolContext;
use local_client_tools::{ClientServiceState, LocalPolicy};
use local_files::LocalFiles;
use local_terminals::LocalTerminals;

/// Serves the client tools on this machine: its files and its terminals, as one client.
#[derive(Clone)]
pub struct LocalClient {
    files: LocalFiles,
    terminals: LocalTerminals,
    workspace: Workspace,
    serving: Arc<ClientServiceState>,
}

impl LocalClient {
    /// Creates a client with these terminals that has read no file yet. The ACP methods that it serves stay in the
    /// workspace and follow the policy.
    pub fn new(terminals: LocalTerminals, workspace: Workspace, policy: LocalPolicy) -> Self {
        let serving = Arc::new(ClientServiceState {
            policy,
            ..ClientServiceState::default()
        });
        Self {
            files: LocalFiles::new(),
            terminals,
            workspace,
            serving,
        }
    }

    /// Returns the terminals of this machine.
    pub(in crate::acp) fn local_terminals(&self) -> &LocalTerminals {
        &self.terminals
    }
}

impl FileClient for LocalClient {
    fn read_text_file<'a>(
        &'a self,
        cx: &'a ToolContext,
        request: ReadTextFile,
    ) -> ToolFuture<'a, TextWindow> {
        self.files.read_text_file(cx, request)
    }

    fn write_text_file<'a>(
        &'a self,
        cx: &'a ToolContext,
        request: WriteTextFile,
    ) -> ToolFuture<'a, WriteReport> {
        self.files.write_text_file(cx, request)
    }

    fn prepare_file<'a>(
        &'a self,
        cx: &'a ToolContext,
        request: WriteTextFile,
    ) -> ToolFuture<'a, Box<dyn PreparedWrite>> {
        self.files.prepare_file(cx, request)
    }

    fn stage_file<'a>(
        &'a self,
        cx: &'a ToolContext,
        write: Box<dyn PreparedWrite>,
    ) -> ToolFuture<'a, Box<dyn PreparedWrite>> {
        self.files.stage_file(cx, write)
    }

    fn place_file<'a>(
        &'a self,
        cx: &'a ToolContext,
        write: Box<dyn PreparedWrite>,
    ) -> ToolFuture<'a, WriteReport> {
        self.files.place_file(cx, write)
    }

    fn load_file<'a>(
        &'a self,
        cx: &'a ToolContext,
        path: WorkspacePath,
        max_bytes: u64,
    ) -> ToolFuture<'a, LoadedFile> {
        self.files.load_file(cx, path, max_bytes)
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

impl AppClient for LocalClient {
    fn open_app(&self, request: AppRequest) -> ToolFuture<'_, OpenedApp> {
        self.terminals.open_app(request)
    }
}

impl TerminalClient for LocalClient {
    fn create_terminal(&self, request: CreateTerminal) -> ToolFuture<'_, OpenTerminal> {
        self.terminals.create_terminal(request)
    }

    fn terminal_output(&self, query: OutputQuery) -> ToolFuture<'_, TerminalOutput> {
        self.terminals.terminal_output(query)
    }

    fn wait_for_terminal_output<'a>(&'a self, id: &'a TerminalId, seen: u64) -> ToolFuture<'a, ()> {
        self.terminals.wait_for_terminal_output(id, seen)
    }

    fn write_terminal<'a>(
        &'a self,
        id: &'a TerminalId,
        strokes: Vec<TerminalInput>,
    ) -> ToolFuture<'a, TypedBytes> {
        self.terminals.write_terminal(id, strokes)
    }

    fn wait_for_terminal_exit<'a>(&'a self, id: &'a TerminalId) -> ToolFuture<'a, TerminalExit> {
        self.terminals.wait_for_terminal_exit(id)
    }

    fn kill_terminal<'a>(
        &'a self,
        id: &'a TerminalId,
        ladder: StopSequence,
    ) -> ToolFuture<'a, StopReport> {
        self.terminals.kill_terminal(id, ladder)
    }

    fn terminal_listeners<'a>(&'a self, id: &'a TerminalId) -> ToolFuture<'a, Vec<String>> {
        self.terminals.terminal_listeners(id)
    }

    fn release_terminal<'a>(&'a self, id: &'a TerminalId) -> ToolFuture<'a, ()> {
        self.terminals.release_terminal(id)
    }

    fn abandon_terminal(&self, id: TerminalId) {
        self.terminals.abandon_terminal(id);
    }
}
