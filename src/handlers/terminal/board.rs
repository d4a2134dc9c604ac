//! The terminals that outlive the call that started them, each bound to its conversation. Not here: their processes
//! (the terminal client), and Bash's shells.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::acp::terminals::{OpenTerminal, OutputQuery, TerminalOutput};
use crate::acp::{TerminalClient, TerminalId};
use crate::ids::ConversationId;
use crate::tool::{ErrorCode, ToolError};

/// The largest number of terminals. The ones that ended longest ago are evicted first.
pub(super) const MOST: usize = 100;

/// A terminal that outlives its call.
#[derive(Debug, Clone)]
pub(super) struct Lasting {
    /// Its id for the conversation: `term-0`, counted over all conversations.
    pub name: TerminalId,
    /// Its process id, if known.
    pub pid: Option<u32>,
    conversation: ConversationId,
    /// Its id for the client, which also counts terminals of single calls.
    pub terminal: TerminalId,
}

/// All lasting terminals of this runner process, oldest first.
#[derive(Debug, Default)]
pub struct TerminalBoard {
    listed: Mutex<Listed>,
}

#[derive(Debug, Default)]
struct Listed {
    terminals: Vec<Lasting>,
    given: u64,
}

impl TerminalBoard {
    /// Adds a terminal of a conversation and gives it an id.
    pub(super) fn admit(&self, conversation: &ConversationId, open: OpenTerminal) -> Lasting {
        let mut listed = self.listed();
        let name = TerminalId::nth(listed.given);
        listed.given += 1;
        let lasting = Lasting { name, pid: open.pid, conversation: conversation.clone(), terminal: open.id };
        listed.terminals.push(lasting.clone());
        lasting
    }

    /// Returns the conversation's terminal with this id.
    pub(super) fn find(&self, conversation: &ConversationId, name: &str) -> Result<Lasting, ToolError> {
        let listed = self.listed();
        let own = || listed.terminals.iter().filter(|terminal| terminal.conversation == *conversation);
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

    /// Removes a terminal. Returns whether it was listed; only the caller that gets true must release it.
    pub(super) fn forget(&self, lasting: &Lasting) -> bool {
        let mut listed = self.listed();
        let before = listed.terminals.len();
        listed.terminals.retain(|other| other.name != lasting.name);
        listed.terminals.len() < before
    }

    /// Evicts ended terminals until one more fits.
    ///
    /// # Errors
    /// `busy` if all of them run.
    pub(super) async fn make_room(&self, client: &dyn TerminalClient) -> Result<(), ToolError> {
        let all = self.listed().terminals.clone();
        let mut surplus = (all.len() + 1).saturating_sub(MOST);
        for lasting in all {
            if surplus == 0 {
                break;
            }
            let over = look(client, &lasting, Some(u64::MAX)).await.map_or(true, |now| !is_alive(&now));
            if over && self.forget(&lasting) {
                client.abandon_terminal(lasting.terminal);
                surplus -= 1;
            }
        }
        if surplus == 0 {
            return Ok(());
        }
        let text =
            format!("{MOST} terminals run already. Nothing was run; end one with release_terminal first.");
        Err(ToolError::new(ErrorCode::Busy, text))
    }

    fn listed(&self) -> MutexGuard<'_, Listed> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the output and state of a terminal.
pub(super) async fn look(
    client: &dyn TerminalClient,
    lasting: &Lasting,
    since: Option<u64>,
) -> Result<TerminalOutput, ToolError> {
    client.terminal_output(OutputQuery { id: lasting.terminal.clone(), since }).await
}

/// Returns whether the command, or a process that it left, still runs or holds the output open.
pub(super) fn is_alive(output: &TerminalOutput) -> bool {
    output.exit.as_ref().is_none_or(|exit| exit.output_open) || !output.left.is_empty()
}
