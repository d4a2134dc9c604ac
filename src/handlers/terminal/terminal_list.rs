//! The terminals that outlive the call that started them, each bound to its conversation.

use std::path::PathBuf;

use parking_lot::Mutex;

use punie_core::ids::ConversationId;
use punie_host::terminals::{OpenTerminal, OutputQuery, TerminalOutput};
use punie_host::{TerminalClient, TerminalId};
use punie_tool::{ErrorCode, ToolContext, ToolError};

/// The largest number of terminals. The ones that ended longest ago are evicted first.
pub(super) const MAX_TERMINALS: usize = 100;

/// A terminal that outlives its call.
#[derive(Debug, Clone)]
pub(super) struct LastingTerminal {
    /// Its id for the conversation: `term-0`, counted over all conversations.
    pub name: TerminalId,
    /// Its process id, if known.
    pub pid: Option<u32>,
    conversation: ConversationId,
    /// The folders of the session that it is narrowed to.
    session_folders: Option<Vec<PathBuf>>,
    /// Its id for the client, which also counts terminals of single calls.
    pub terminal: TerminalId,
}

/// All lasting terminals of this runner process, oldest first.
#[derive(Debug, Default)]
pub struct TerminalList {
    listed: Mutex<TerminalListState>,
}

#[derive(Debug, Default)]
struct TerminalListState {
    terminals: Vec<LastingTerminal>,
    given: u64,
}

impl TerminalList {
    /// Adds a terminal of a conversation and gives it an id.
    pub(super) fn add(&self, cx: &ToolContext, open: OpenTerminal) -> LastingTerminal {
        let mut listed = self.listed.lock();
        let name = TerminalId::from_number(listed.given);
        listed.given += 1;
        let lasting = LastingTerminal {
            name,
            pid: open.pid,
            conversation: cx.conversation.clone(),
            session_folders: cx.session_folders(),
            terminal: open.id,
        };
        listed.terminals.push(lasting.clone());
        lasting
    }

    /// Returns the terminal with this id of the call's conversation, with the same folders.
    pub(super) fn find_terminal(
        &self,
        cx: &ToolContext,
        name: &str,
    ) -> Result<LastingTerminal, ToolError> {
        let listed = self.listed.lock();
        let own = || {
            let terminals = listed.terminals.iter();
            terminals.filter(|terminal| {
                terminal.conversation == cx.conversation
                    && terminal.session_folders == cx.session_folders()
            })
        };
        if let Some(found) = own().find(|terminal| terminal.name.as_str() == name.trim()) {
            return Ok(found.clone());
        }
        let known: Vec<&str> = own().map(|terminal| terminal.name.as_str()).collect();
        let hint = if known.is_empty() {
            "This conversation has none; run_command with background=true starts one.".to_owned()
        } else {
            format!("This conversation has: {}.", known.join(", "))
        };
        Err(ToolError::not_found(format!(
            "There is no terminal {name:?}: it was released, or belongs to another conversation or an earlier run. {hint}"
        )))
    }

    /// Returns all terminals, of all conversations.
    pub(super) fn all(&self) -> Vec<LastingTerminal> {
        self.listed.lock().terminals.clone()
    }

    /// Removes a terminal. Returns whether it was listed; only the caller that gets true must release it.
    pub(super) fn remove(&self, lasting: &LastingTerminal) -> bool {
        let mut listed = self.listed.lock();
        let before = listed.terminals.len();
        listed.terminals.retain(|other| other.name != lasting.name);
        listed.terminals.len() < before
    }

    /// Evicts ended terminals until one more fits.
    ///
    /// # Errors
    /// `busy` if all of them run.
    pub(super) async fn evict_finished(
        &self,
        client: &dyn TerminalClient,
    ) -> Result<(), ToolError> {
        let all = self.all();
        let mut surplus = (all.len() + 1).saturating_sub(MAX_TERMINALS);
        for lasting in all {
            if surplus == 0 {
                break;
            }
            let query = OutputQuery::state_only(&lasting.terminal);
            let state = client.terminal_output(query).await;
            if !state.is_ok_and(|now| has_live_output(&now)) && self.remove(&lasting) {
                client.abandon_terminal(lasting.terminal);
                surplus -= 1;
            }
        }
        if surplus == 0 {
            return Ok(());
        }
        let text = format!(
            "{MAX_TERMINALS} terminals run already. Nothing was run; end one with release_terminal first."
        );
        Err(ToolError::new(ErrorCode::Busy, text))
    }
}

/// Returns whether the command, or a process that it left, still runs or holds the output open.
pub(super) fn has_live_output(output: &TerminalOutput) -> bool {
    output.exit.as_ref().is_none_or(|exit| exit.output_open) || !output.left.is_empty()
}
