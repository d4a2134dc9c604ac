//! Terminals on systems without support for commands: every call is rejected.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::child_log::ChildLog;
use super::command_environment::{RequestEnvironment, WithheldObserver, without_refused_names};
use crate::ToolFuture;
use crate::terminals::{
    CommandTrace, CreateTerminal, OpenTerminal, OutputQuery, StopReport, StopSequence,
    TerminalClient, TerminalExit, TerminalId, TerminalInput, TerminalOutput, TypedBytes,
};
use punie_text::output::OutputStore;
use punie_text::redact::Redactor;
use punie_tool::{ErrorCode, ToolError};

/// The parts that this machine's terminals would need.
pub struct LocalTerminalSetup {
    /// The runner's own environment.
    pub base_env: Vec<(String, String)>,
    pub store: OutputStore,
    /// Masks secrets in them.
    pub redactor: Redactor,
    /// Records every process.
    pub log: Arc<dyn ChildLog>,
    /// The confinement of commands.
    pub confinement: super::confinement::Confinement,
}

/// The terminals of this machine: none. Applications can still be opened.
#[derive(Clone)]
pub struct LocalTerminals {
    base_env: Arc<[(String, String)]>,
}

impl LocalTerminals {
    /// Returns the PATH that commands would have.
    #[expect(clippy::unused_async, reason = "the same as where commands run")]
    pub(crate) async fn search_path(&self) -> String {
        self.base_env
            .iter()
            .find(|(name, _)| name == "PATH")
            .map_or_else(String::new, |(_, path)| path.clone())
    }

    /// Creates the terminals.
    ///
    /// # Errors
    /// None here.
    pub fn new(setup: LocalTerminalSetup) -> io::Result<Self> {
        Ok(Self {
            base_env: setup.base_env.into(),
        })
    }

    /// Returns the environment of a desktop application.
    pub(super) async fn app_environment(&self) -> BTreeMap<String, String> {
        without_refused_names(&self.base_env)
    }

    /// Returns the environment that the programs of a request would have.
    #[expect(clippy::unused_async, reason = "the same as where commands run")]
    pub(super) async fn environment_of_request(
        &self,
        _request: &CreateTerminal,
    ) -> Result<RequestEnvironment, ToolError> {
        Ok(RequestEnvironment {
            variables: without_refused_names(&self.base_env),
            temp: None,
            network: None,
        })
    }

    /// Does nothing: no environment is captured.
    pub fn set_withheld_observer(&self, _told: WithheldObserver) {}

    /// Does nothing.
    pub fn enable_persistence(&self, _folder: PathBuf) {}

    /// Returns `None`: no command was left running.
    ///
    /// # Errors
    /// None here.
    pub fn adopt_command(&self, _left: &CommandTrace) -> Result<Option<OpenTerminal>, ToolError> {
        Ok(None)
    }

    /// Returns 0: nothing runs.
    pub fn leave_all_running(&self) -> usize {
        0
    }

    /// Does nothing.
    pub async fn warm_up(&self) {}

    /// Refuses, like every command here.
    ///
    /// # Errors
    /// Always.
    pub async fn run_trial_command(&self) -> Result<(), ToolError> {
        refuse_command().await
    }

    /// Does nothing.
    pub async fn remove_old_temp_files(&self, _now: std::time::SystemTime) {}

    /// Does nothing.
    pub async fn stop_all_commands(&self, _ladder: StopSequence) {}
}

fn refuse_command<T: Send + 'static>() -> ToolFuture<'static, T> {
    let text = "Commands are not supported on this system yet. Nothing was run.";
    Box::pin(async move { Err(ToolError::new(ErrorCode::PolicyDenied, text)) })
}

impl TerminalClient for LocalTerminals {
    fn create_terminal(&self, _request: CreateTerminal) -> ToolFuture<'_, OpenTerminal> {
        refuse_command()
    }
    fn terminal_output(&self, _query: OutputQuery) -> ToolFuture<'_, TerminalOutput> {
        refuse_command()
    }
    fn wait_for_terminal_output<'a>(
        &'a self,
        _id: &'a TerminalId,
        _seen: u64,
    ) -> ToolFuture<'a, ()> {
        refuse_command()
    }
    fn write_terminal<'a>(
        &'a self,
        _id: &'a TerminalId,
        _strokes: Vec<TerminalInput>,
    ) -> ToolFuture<'a, TypedBytes> {
        refuse_command()
    }
    fn wait_for_terminal_exit<'a>(&'a self, _id: &'a TerminalId) -> ToolFuture<'a, TerminalExit> {
        refuse_command()
    }
    fn kill_terminal<'a>(
        &'a self,
        _id: &'a TerminalId,
        _ladder: StopSequence,
    ) -> ToolFuture<'a, StopReport> {
        refuse_command()
    }
    fn release_terminal<'a>(&'a self, _id: &'a TerminalId) -> ToolFuture<'a, ()> {
        refuse_command()
    }
    fn abandon_terminal(&self, _id: TerminalId) {}
}
