//! The commands beside calls, as the runner ends them for the owner: background shells and lasting terminals.

use std::sync::Arc;

use super::host::HostBase;
use punie_core::ids::RequestId;
use punie_engine::runner::{BackgroundCommands, EndedCommands, EndingCommands, TrialCommand};
use punie_handlers::shell::{self, ShellList};
use punie_handlers::terminal::{self, TerminalList};
use punie_host::local::local_terminals::LocalTerminals;
use punie_host::local::process_kill::end_request_processes;
use punie_host::terminals::StopSequence;

/// The commands beside calls of one host.
pub(super) struct HostCommands {
    shells: Arc<ShellList>,
    lasting: Arc<TerminalList>,
    terminals: LocalTerminals,
}

impl HostCommands {
    pub(super) fn from_host(host: &HostBase) -> Self {
        Self {
            shells: Arc::clone(&host.shells),
            lasting: Arc::clone(&host.lasting),
            terminals: host.terminals.clone(),
        }
    }
}

impl BackgroundCommands for HostCommands {
    fn end_commands<'a>(&'a self, only: Option<&'a str>) -> EndingCommands<'a> {
        Box::pin(async move {
            let (shells, terminals) = tokio::join!(
                shell::end_shells(&self.shells, &self.terminals, only),
                terminal::end_terminals(&self.lasting, &self.terminals, only)
            );
            let mut outcome = EndedCommands::default();
            for command in shells.into_iter().chain(terminals) {
                match command {
                    Ok(id) => outcome.ended.push(id),
                    Err(left) => outcome.left.push(left),
                }
            }
            outcome
        })
    }

    fn kill_processes(&self, request: &RequestId) -> Vec<String> {
        let stopped = end_request_processes(request, &StopSequence::kill_at_once());
        stopped.survivors.iter().map(ToString::to_string).collect()
    }

    fn run_trial_command(&self) -> TrialCommand<'_> {
        Box::pin(self.terminals.run_trial_command())
    }
}
