//! The client on this machine: its file system and its processes.

pub mod aftermath;
pub mod apps;
pub(in crate::acp) mod arguments;
mod atomic_write;
#[cfg(unix)]
mod attributes;
#[cfg(unix)]
mod capture;
pub mod children;
pub mod client_tools;
#[cfg(unix)]
mod command;
pub mod confinement;
#[cfg(unix)]
mod control_group;
mod decoding;
pub mod descriptors;
#[cfg(unix)]
mod entries;
pub mod environment;
#[cfg(unix)]
mod family;
pub mod files;
mod filling;
mod folder_listing;
#[cfg(unix)]
mod follow;
#[cfg(unix)]
pub(in crate::acp) mod foreign;
#[cfg(not(unix))]
#[path = "foreign_elsewhere.rs"]
pub(in crate::acp) mod foreign;
#[cfg(unix)]
mod git_config;
#[cfg(unix)]
pub mod group_limits;
#[cfg(unix)]
mod guarded;
pub mod identity;
#[cfg(unix)]
mod input_wait;
#[cfg(unix)]
mod kept_copy;
#[cfg(unix)]
pub mod kill;
#[cfg(unix)]
mod launch;
mod lent;
#[cfg(unix)]
pub(crate) mod limit_mark;
#[cfg(unix)]
mod listeners;
#[cfg(unix)]
mod login;
mod modes;
mod near_names;
pub mod neighbours;
mod opening;
#[cfg(unix)]
mod out_of_memory;
#[cfg(unix)]
mod outliving;
#[cfg(unix)]
mod planning;
#[cfg(unix)]
mod process;
#[cfg(unix)]
mod protected_paths;
#[cfg(unix)]
mod pty;
#[cfg(unix)]
mod pump;
mod recent_indexes;
mod removal;
#[cfg(unix)]
mod repositories;
mod reshaping;
pub(in crate::acp) mod script_file;
#[cfg(unix)]
mod self_test;
#[cfg(target_os = "linux")]
mod shut_in;
mod sniff;
mod temp_file;
#[cfg(unix)]
mod temporary;
#[cfg(unix)]
mod terminal;
#[cfg(target_os = "linux")]
pub mod terminal_holder;
#[cfg(unix)]
pub mod terminals;
#[cfg(not(unix))]
#[path = "terminals_elsewhere.rs"]
pub mod terminals;
mod text_lines;
mod text_window;
#[cfg(unix)]
mod ties;
#[cfg(target_os = "linux")]
mod traces;
#[cfg(unix)]
pub(crate) mod tying;

use std::sync::Arc;

use super::apps::{AppClient, AppRequest, OpenedApp};
use super::files::{
    FileClient, FolderListing, ListFolder, LoadedFile, MoveFile, OpenedFile, ReadTextFile, RemoveFile,
    TextWindow, WriteTextFile, Written,
};
use super::prepared::PreparedWrite;
use super::terminals::{
    CreateTerminal, Ladder, OpenTerminal, OutputQuery, Stopped, Stroke, TerminalClient, TerminalExit,
    TerminalId, TerminalOutput, Typed,
};
use super::{Answer, Workspace, WorkspacePath};
pub(crate) use crate::sandbox::is_absent;
use crate::tool::ToolCx;
use client_tools::{LocalPolicy, Serving};
use files::LocalFiles;
use terminals::LocalTerminals;

/// Serves the client tools on this machine: its files and its terminals, as one client.
#[derive(Clone)]
pub struct LocalClient {
    files: LocalFiles,
    terminals: LocalTerminals,
    workspace: Workspace,
    serving: Arc<Serving>,
}

impl LocalClient {
    /// Creates a client with these terminals that has read no file yet. The ACP methods that it serves stay in the
    /// workspace and follow the policy.
    pub fn new(terminals: LocalTerminals, workspace: Workspace, policy: LocalPolicy) -> Self {
        let serving = Arc::new(Serving { policy, ..Serving::default() });
        Self { files: LocalFiles::new(), terminals, workspace, serving }
    }

    /// Returns the terminals of this machine.
    pub(in crate::acp) fn terminals(&self) -> &LocalTerminals {
        &self.terminals
    }
}

impl FileClient for LocalClient {
    fn read_text_file<'a>(&'a self, cx: &'a ToolCx, request: ReadTextFile) -> Answer<'a, TextWindow> {
        self.files.read_text_file(cx, request)
    }

    fn write_text_file<'a>(&'a self, cx: &'a ToolCx, request: WriteTextFile) -> Answer<'a, Written> {
        self.files.write_text_file(cx, request)
    }

    fn prepare_file<'a>(
        &'a self,
        cx: &'a ToolCx,
        request: WriteTextFile,
    ) -> Answer<'a, Box<dyn PreparedWrite>> {
        self.files.prepare_file(cx, request)
    }

    fn stage_file<'a>(
        &'a self,
        cx: &'a ToolCx,
        write: Box<dyn PreparedWrite>,
    ) -> Answer<'a, Box<dyn PreparedWrite>> {
        self.files.stage_file(cx, write)
    }

    fn place_file<'a>(&'a self, cx: &'a ToolCx, write: Box<dyn PreparedWrite>) -> Answer<'a, Written> {
        self.files.place_file(cx, write)
    }

    fn load_file<'a>(
        &'a self,
        cx: &'a ToolCx,
        path: WorkspacePath,
        max_bytes: u64,
    ) -> Answer<'a, LoadedFile> {
        self.files.load_file(cx, path, max_bytes)
    }

    fn open_file<'a>(&'a self, cx: &'a ToolCx, path: WorkspacePath) -> Answer<'a, OpenedFile> {
        self.files.open_file(cx, path)
    }

    fn remove_file<'a>(&'a self, cx: &'a ToolCx, request: RemoveFile) -> Answer<'a, ()> {
        self.files.remove_file(cx, request)
    }

    fn move_file<'a>(&'a self, cx: &'a ToolCx, request: MoveFile) -> Answer<'a, ()> {
        self.files.move_file(cx, request)
    }

    fn remove_empty_folder<'a>(&'a self, cx: &'a ToolCx, path: WorkspacePath) -> Answer<'a, bool> {
        self.files.remove_empty_folder(cx, path)
    }

    fn list_folder<'a>(&'a self, cx: &'a ToolCx, request: ListFolder) -> Answer<'a, FolderListing> {
        self.files.list_folder(cx, request)
    }
}

impl AppClient for LocalClient {
    fn open_app(&self, request: AppRequest) -> Answer<'_, OpenedApp> {
        self.terminals.open_app(request)
    }
}

impl TerminalClient for LocalClient {
    fn create_terminal(&self, request: CreateTerminal) -> Answer<'_, OpenTerminal> {
        self.terminals.create_terminal(request)
    }

    fn terminal_output(&self, query: OutputQuery) -> Answer<'_, TerminalOutput> {
        self.terminals.terminal_output(query)
    }

    fn wait_for_terminal_output<'a>(&'a self, id: &'a TerminalId, seen: u64) -> Answer<'a, ()> {
        self.terminals.wait_for_terminal_output(id, seen)
    }

    fn write_terminal<'a>(&'a self, id: &'a TerminalId, strokes: Vec<Stroke>) -> Answer<'a, Typed> {
        self.terminals.write_terminal(id, strokes)
    }

    fn wait_for_terminal_exit<'a>(&'a self, id: &'a TerminalId) -> Answer<'a, TerminalExit> {
        self.terminals.wait_for_terminal_exit(id)
    }

    fn kill_terminal<'a>(&'a self, id: &'a TerminalId, ladder: Ladder) -> Answer<'a, Stopped> {
        self.terminals.kill_terminal(id, ladder)
    }

    fn terminal_listeners<'a>(&'a self, id: &'a TerminalId) -> Answer<'a, Vec<String>> {
        self.terminals.terminal_listeners(id)
    }

    fn release_terminal<'a>(&'a self, id: &'a TerminalId) -> Answer<'a, ()> {
        self.terminals.release_terminal(id)
    }

    fn abandon_terminal(&self, id: TerminalId) {
        self.terminals.abandon_terminal(id);
    }
}
