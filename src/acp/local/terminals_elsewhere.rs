//! Terminals on systems without support for commands: every call is rejected. Not here: any process.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::children::ChildLog;
use super::environment::{ForCommands, TellWithheld, without_refused};
use crate::acp::Answer;
use crate::acp::terminals::{
    CommandTrace, CreateTerminal, Ladder, OpenTerminal, OutputQuery, Stopped, Stroke, TerminalClient,
    TerminalExit, TerminalId, TerminalOutput, Typed,
};
use crate::output::{FilterFactory, OutputStore};
use crate::tool::{ErrorCode, ToolError};

/// The parts that this machine's terminals would need.
pub struct LocalSetup {
    /// The runner's own environment.
    pub base_env: Vec<(String, String)>,
    /// The store of outputs.
    pub store: OutputStore,
    /// Creates the filters that mask secrets in them.
    pub filters: FilterFactory,
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
    pub(in crate::acp) async fn search_path(&self) -> String {
        self.base_env
            .iter()
            .find(|(name, _)| name == "PATH")
            .map_or_else(String::new, |(_, path)| path.clone())
    }

    /// Creates the terminals.
    ///
    /// # Errors
    /// None here.
    pub fn new(setup: LocalSetup) -> io::Result<Self> {
        Ok(Self { base_env: setup.base_env.into() })
    }

    /// Returns the environment of a desktop application.
    pub(super) async fn app_environment(&self) -> BTreeMap<String, String> {
        without_refused(&self.base_env)
    }

    /// Does nothing.
    pub fn give(&self, _ours: Arc<dyn ForCommands>) {}

    /// Does nothing: no environment is captured.
    pub fn tell_withheld(&self, _told: TellWithheld) {}

    /// Does nothing.
    pub fn outlive_in(&self, _folder: PathBuf) {}

    /// Returns `None`: no command was left running.
    ///
    /// # Errors
    /// None here.
    pub fn adopt(&self, _left: &CommandTrace) -> Result<Option<OpenTerminal>, ToolError> {
        Ok(None)
    }

    /// Returns 0: nothing runs.
    pub fn leave_running(&self) -> usize {
        0
    }

    /// Does nothing.
    pub async fn warm_up(&self) {}

    /// Does nothing.
    pub async fn tidy(&self) {}

    /// Does nothing.
    pub async fn stop_all(&self, _ladder: Ladder) {}
}

fn refuse<T: Send + 'static>() -> Answer<'static, T> {
    let text = "Commands are not supported on this system yet. Nothing was run.";
    Box::pin(async move { Err(ToolError::new(ErrorCode::PolicyDenied, text)) })
}

impl TerminalClient for LocalTerminals {
    fn create_terminal(&self, _request: CreateTerminal) -> Answer<'_, OpenTerminal> {
        refuse()
    }
    fn terminal_output(&self, _query: OutputQuery) -> Answer<'_, TerminalOutput> {
        refuse()
    }
    fn wait_for_terminal_output<'a>(&'a self, _id: &'a TerminalId, _seen: u64) -> Answer<'a, ()> {
        refuse()
    }
    fn write_terminal<'a>(&'a self, _id: &'a TerminalId, _strokes: Vec<Stroke>) -> Answer<'a, Typed> {
        refuse()
    }
    fn wait_for_terminal_exit<'a>(&'a self, _id: &'a TerminalId) -> Answer<'a, TerminalExit> {
        refuse()
    }
    fn kill_terminal<'a>(&'a self, _id: &'a TerminalId, _ladder: Ladder) -> Answer<'a, Stopped> {
        refuse()
    }
    fn release_terminal<'a>(&'a self, _id: &'a TerminalId) -> Answer<'a, ()> {
        refuse()
    }
    fn abandon_terminal(&self, _id: TerminalId) {}
}
