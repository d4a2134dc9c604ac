//! Plans a command that a caller requests: its arguments, its environment, its confinement, and the marks that track
//! its processes. Not here: starting it (process), and processing its output (terminals).

use std::path::Path;
use std::sync::Arc;

use super::children::call_mark;
use super::command::{check_command, check_folder, command_of};
use super::descriptors;
use super::environment::{Beginning, give_secrets};
use super::guarded::Watch;
use super::process::Plan;
use super::pty;
use super::self_test::led_by;
use super::terminals::LocalTerminals;
use super::ties::Ties;
use crate::acp::terminals::CreateTerminal;
use crate::home::Mounted;
use crate::ids::RequestId;
use crate::output::OutputStore;
use crate::sandbox::Cage;
use crate::tool::ToolError;

/// A command that can be started.
pub(super) struct Planned {
    pub plan: Plan,
    pub bonds: Ties,
    /// The mark by which its processes are found.
    pub mark: String,
    /// The protected paths of the workspaces.
    pub watch: Option<Watch>,
}

impl LocalTerminals {
    /// Plans a command, or returns why it must not run.
    pub(super) async fn planned(&self, request: &CreateTerminal) -> Result<Planned, ToolError> {
        let mut env = self.environment().await.for_command(&request.env)?;
        if !descriptors::are_to_be_had() {
            return Err(descriptors::no_descriptors());
        }
        check_command(&request.launch)?;
        check_folder(&request.cwd)?;
        let words = self.shared.setup.confinement.words_before(&request.cwd).await?;
        let (program, args) = command_of(&request.launch)?;
        let mounted = request.mounted.as_deref();
        mounted.map_or(Ok(()), |mounted| give_secrets(&mut env, mounted))?;
        let (program, args) = led_by(words, program, args);
        let watch = self.shared.setup.confinement.watch(&request.cwd).await;
        let cage = self.confined(watch.as_ref(), mounted.and_then(Mounted::folder)).await?;
        self.shared.setup.confinement.set_temp(&mut env, &request.env);
        self.shared.setup.confinement.set_retries(&mut env);
        let mark = call_mark(&request.request, request.output_number);
        if let Some((name, value)) = mark.split_once('=') {
            env.insert(name.to_owned(), value.to_owned());
        }
        if let Some(beginning) = self.beginning(&request.request).await {
            beginning.put_into(&mut env);
        }
        if request.tty.is_some() {
            env.insert("TERM".to_owned(), pty::TERM.to_owned());
        }
        let mut ties = Ties::of_command(&mark, request.background);
        // A command with secrets must not keep them while no runner supervises it.
        if request.background
            && mounted.is_none()
            && let Some(folder) = self.shared.fifos.get()
        {
            let name = OutputStore::handle(&request.request, request.output_number);
            ties.fifo = Some(folder.join(name.as_str()));
        }
        let bonds = ties.clone();
        let (cwd, stdin, tty) = (request.cwd.clone(), request.stdin.clone(), request.tty);
        let plan = Plan { program, args, env, cwd, stdin, tty, ties, cage };
        Ok(Planned { plan, bonds, mark, watch })
    }

    #[cfg(target_os = "linux")]
    async fn confined(&self, watch: Option<&Watch>, shown: Option<&Path>) -> Result<Option<Cage>, ToolError> {
        self.shared.setup.confinement.cage(watch, shown).await
    }

    #[cfg(not(target_os = "linux"))]
    async fn confined(
        &self,
        _watch: Option<&Watch>,
        _shown: Option<&Path>,
    ) -> Result<Option<Cage>, ToolError> {
        Ok(None)
    }

    /// Finds the folder for the command's PATH. May access the disk.
    async fn beginning(&self, request: &RequestId) -> Option<Beginning> {
        let (ours, request) = (Arc::clone(self.shared.ours.get()?), request.clone());
        tokio::task::spawn_blocking(move || ours.beginning(&request)).await.ok().flatten()
    }
}
