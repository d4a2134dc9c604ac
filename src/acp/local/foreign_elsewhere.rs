//! The same where processes are not looked after yet: no command runs in an editor's terminal either. Not here: any
//! command.

use super::terminals::LocalTerminals;
use crate::acp::terminals::{CreateTerminal, TerminalId, TerminalOutput};
use crate::ids::RequestId;
use crate::output::{Budget, OutputHandle};
use crate::tool::{ErrorCode, ToolError};

/// What an editor's terminal has printed.
pub(in crate::acp) struct Foreign {
    /// The request whose command it is.
    pub request: RequestId,
    /// Which of the request's outputs.
    pub number: u32,
    /// How much text is wanted back.
    pub budget: Budget,
    /// Keep escape sequences and progress lines.
    pub raw: bool,
    /// All of it.
    pub text: String,
    /// Nothing more comes.
    pub over: bool,
    /// Only what came after this cursor.
    pub since: Option<u64>,
}

impl LocalTerminals {
    /// There is none to name.
    pub(in crate::acp) fn next_id(&self) -> TerminalId {
        TerminalId::nth(0)
    }

    /// Nothing keeps them: every command is refused.
    pub(in crate::acp) fn keeps_commands_here(&self) -> Option<String> {
        None
    }

    /// Refuses every command.
    ///
    /// # Errors
    /// `policy_denied`.
    pub(in crate::acp) async fn admit_elsewhere(
        &self,
        _request: &CreateTerminal,
    ) -> Result<Vec<(String, String)>, ToolError> {
        let text = "Commands are not supported on this system yet. Nothing was run.";
        Err(ToolError::new(ErrorCode::PolicyDenied, text))
    }

    /// Nothing is kept.
    ///
    /// # Errors
    /// None here.
    pub(super) async fn kept_end(
        &self,
        _handle: OutputHandle,
        _most: u64,
    ) -> Result<(Vec<u8>, bool), ToolError> {
        Ok((Vec::new(), false))
    }

    /// Nothing was printed.
    pub(in crate::acp) fn foreign_output(&self, foreign: Foreign) -> TerminalOutput {
        TerminalOutput { text: foreign.text, in_editor: true, ..TerminalOutput::default() }
    }
}
