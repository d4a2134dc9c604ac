//! The terminals that outlive the call that started them, each bound to its conversation. Not here: the processes
//! behind them (the terminal client), and the shells of Bash.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::acp::terminals::{OpenTerminal, OutputQuery, TerminalOutput};
use crate::acp::{TerminalClient, TerminalId};
use crate::ids::ConversationId;
use crate::tool::{ErrorCode, ToolError};

/// How many terminals there may be; those that ended longest ago are forgotten to make room.
pub(super) const MOST: usize = 100;

/// One terminal that lasts.
#[derive(Debug, Clone)]
pub(super) struct Lasting {
    /// Its name for the conversation: `term-0`, counted over all of them.
    pub name: TerminalId,
    /// Its process id, where this is known.
    pub pid: Option<u32>,
    conversation: ConversationId,
    /// Its name for the client, which counts terminals of single calls too.
    pub terminal: TerminalId,
}

/// All terminals of this process life that last, oldest first.
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
    /// Names a terminal for a conversation.
    pub(super) fn admit(&self, conversation: &ConversationId, open: OpenTerminal) -> Lasting {
        let mut listed = self.listed();
        let name = TerminalId::nth(listed.given);
        listed.given += 1;
        let lasting = Lasting { name, pid: open.pid, conversation: conversation.clone(), terminal: open.id };
        listed.terminals.push(lasting.clone());
        lasting
    }

    /// The conversation's terminal of this name.
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

    /// Forgets a terminal. Whoever is told that it was there has to release it, and nobody else.
    pub(super) fn forget(&self, lasting: &Lasting) -> bool {
        let mut listed = self.listed();
        let before = listed.terminals.len();
        listed.terminals.retain(|other| other.name != lasting.name);
        listed.terminals.len() < before
    }

    /// Makes room for one more.
    ///
    /// # Errors
    /// `busy` when all run.
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

/// What a terminal says now.
pub(super) async fn look(
    client: &dyn TerminalClient,
    lasting: &Lasting,
    since: Option<u64>,
) -> Result<TerminalOutput, ToolError> {
    client.terminal_output(OutputQuery { id: lasting.terminal.clone(), since }).await
}

/// Whether the command runs, or something it left behind.
pub(super) fn is_alive(output: &TerminalOutput) -> bool {
    output.exit.as_ref().is_none_or(|exit| exit.output_open) || !output.left.is_empty()
}
