//! Starts a planned command: its process, its marks, and the terminal that reads its output.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::child_process::SpawnedProcess;
use super::child_tracking::ChildTracking;
use super::command_checks::explain_start_failure;
use super::command_plan::PlannedCommand;
use super::command_terminal::{CommandTerminal, OutputOrigin, StartedCommand};
use super::local_terminals::LocalTerminals;
use super::output_pipe::OutputPipe;
use super::process_tree::ProcessTree;
use super::pty::TerminalKeyboard;
use super::self_test_run::capture_output;
use crate::terminals::{CommandLaunch, CommandTrace, CreateTerminal, OpenTerminal};
use punie_core::ids::RequestId;
use punie_tool::{ErrorCode, ResultMeta, ToolError};

impl LocalTerminals {
    /// Runs a program that does nothing but print a word, in the same way as a command.
    ///
    /// # Errors
    /// It was refused, did not start, or did not print the word.
    pub async fn run_trial_command(&self) -> Result<(), ToolError> {
        const WORD: &str = "ran";
        let launch = CommandLaunch::Program {
            command: "echo".to_owned(),
            args: vec![WORD.to_owned()],
        };
        let request = CreateTerminal::new(&RequestId::new(), launch, PathBuf::from("/"));
        let planned = self.plan_command(&request).await?;
        let ended = capture_output(&self.shared.spawner, planned.plan).await;
        planned.tracking.cleanup();
        let output =
            ended.map_err(|cause| explain_start_failure(&request.launch, &request.cwd, &cause))?;
        if output.trim_end() == WORD {
            return Ok(());
        }
        let text = format!("echo {WORD} printed {output:.80?}");
        Err(ToolError::new(ErrorCode::Io, text))
    }

    /// Starts a command and reads its output from now on.
    pub(super) async fn start_command(
        &self,
        request: CreateTerminal,
    ) -> Result<OpenTerminal, ToolError> {
        let PlannedCommand {
            plan,
            tracking,
            mark,
            watch,
            network,
            confinement,
        } = self.plan_command(&request).await?;
        let spawned = self.shared.spawner.spawn(plan).await;
        let SpawnedProcess {
            child,
            output,
            holder,
            service_pipes: _,
        } = spawned.map_err(|cause| {
            tracking.cleanup();
            explain_start_failure(&request.launch, &request.cwd, &cause)
        })?;
        let log = Arc::clone(&self.shared.setup.log);
        if let Some(identity) = child.identity() {
            // The program is still being loaded meanwhile, so this does not delay the call.
            log.record_child_start(&request.request, identity, &request.launch.to_string())
                .await;
        }
        let pid = child.pid();
        let keyboard = request
            .tty
            .map(|_| TerminalKeyboard::from_master(&output))
            .transpose()
            .map_err(|cause| ToolError::from_io("a keyboard for the terminal", &cause))?;
        // A terminal is no pipe, and all terminals share one inode.
        let pipe = if keyboard.is_some() {
            None
        } else {
            find_output_pipe(&tracking, &output)
        };
        let trace = child.identity().map(|identity| CommandTrace {
            identity: identity.to_string(),
            output: tracking
                .fifo
                .clone()
                .filter(|_| keyboard.is_none() || holder.is_some()),
            request: request.request.clone(),
            raw: request.raw,
        });
        let process_tree = child
            .identity()
            .cloned()
            .map(|leader| ProcessTree::from_command(leader, mark, &tracking, pipe));
        if let Some(watch) = &watch {
            watch.attach_processes(process_tree.clone(), request.background);
        }
        let location = self.output_location(&request.request, request.output_number);
        let capture = self.create_capture(location, request.budget, request.raw, request.tty);
        let command = StartedCommand {
            child,
            holder: Mutex::new(holder),
            process_tree,
            fifo: tracking.fifo,
            keyboard,
            started: Instant::now(),
            log,
            watch,
            network,
            confinement,
            mounted: Mutex::new(request.mounted),
        };
        let terminal = CommandTerminal::new(command, capture);
        terminal
            .start_pump(output, OutputOrigin::NewCommand)
            .map_err(mark_as_begun)?;
        Ok(OpenTerminal {
            id: self.insert(terminal),
            pid: Some(pid),
            trace,
        })
    }
}

/// Finds the pipe that takes the output, as /proc names it.
fn find_output_pipe(tracking: &ChildTracking, output: &OwnedFd) -> Option<OutputPipe> {
    if let Some(path) = &tracking.fifo {
        return Some(OutputPipe::Named(path.clone()));
    }
    let stat = rustix::fs::fstat(output).ok()?;
    Some(OutputPipe::Unnamed(stat.st_ino))
}

/// Marks the error of a command that had begun: without its reader it is ended at once.
fn mark_as_begun(error: ToolError) -> ToolError {
    error.with_meta(ResultMeta {
        may_have_run: true,
        ..ResultMeta::default()
    })
}
