//! Background commands that outlive the runner: the next runner finds them again, and a runner that is told to stop
//! leaves them running.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::FileType;
use tokio::time::Instant;

use super::child_process::ChildProcess;
use super::command_terminal::{CommandTerminal, OutputOrigin, StartedCommand};
#[cfg(target_os = "linux")]
use super::frozen_processes::FrozenProcesses;
use super::local_terminals::LocalTerminals;
use super::output_pipe::OutputPipe;
use super::output_pipe::open_reading_end;
use super::process_identity::ProcessIdentity;
use super::process_tree::ProcessTree;
use super::pty::TerminalKeyboard;
#[cfg(target_os = "linux")]
use super::terminal_holder;
use crate::terminals::{CommandTrace, OpenTerminal};
use punie_text::output::TextBudget;
use punie_tool::ToolError;

impl LocalTerminals {
    /// Makes background commands outlive a runner that is killed from now on, with their named pipes and sockets in
    /// this folder. [`LocalTerminals::adopt_command`] finds them again. Does nothing on systems that cannot identify
    /// processes.
    pub fn enable_persistence(&self, folder: PathBuf) {
        if cfg!(target_os = "linux") {
            // Called once; a second folder would gain nothing.
            let _ = self.shared.fifos.set(folder);
        }
    }

    /// Adopts a command that an earlier runner started. Its further output is appended to the stored output; it
    /// accepts input if it has a terminal, and can be stopped. `None` if it has ended.
    ///
    /// # Errors
    /// `io` if it runs but its output cannot be read: it goes on, and the caller must stop it.
    pub fn adopt_command(&self, left: &CommandTrace) -> Result<Option<OpenTerminal>, ToolError> {
        let Some(path) = left.output.clone() else {
            return Ok(None);
        };
        let Ok(identity) = left.identity.parse::<ProcessIdentity>() else {
            return Ok(None);
        };
        let started = Instant::now()
            .checked_sub(identity.process_age())
            .unwrap_or_else(Instant::now);
        let Some(child) = ChildProcess::adopt_process(identity.clone()) else {
            return Ok(None);
        };
        let (output, keyboard) = reopen_output(&path)
            .map_err(|cause| ToolError::from_io("the output of the command", &cause))?;
        let pipe = keyboard.is_none().then(|| OutputPipe::Named(path.clone()));
        let process_tree = ProcessTree::from_earlier_run(identity, &left.request, pipe);
        // An earlier runner may have ended while it had frozen the command.
        #[cfg(target_os = "linux")]
        FrozenProcesses::resume_tree(&process_tree);
        let process_tree = Some(process_tree);
        let watch = self.confinement().watch_adopted_command();
        if let Some(watch) = &watch {
            watch.attach_processes(process_tree.clone(), true);
        }
        let window = keyboard.as_ref().and_then(TerminalKeyboard::size);
        let capture = self.create_capture(
            self.output_location(&left.request, 0),
            TextBudget::default(),
            left.raw,
            window,
        );
        let pid = child.pid();
        let log = Arc::clone(&self.shared.setup.log);
        let command = StartedCommand {
            child,
            holder: Mutex::default(),
            process_tree,
            fifo: Some(path),
            keyboard,
            started,
            log,
            watch,
            network: None,
            confinement: self.confinement().clone(),
            mounted: Mutex::default(),
        };
        let terminal = CommandTerminal::new(command, capture);
        terminal.start_pump(output, OutputOrigin::EarlierRun)?;
        let trace = Some(left.clone());
        Ok(Some(OpenTerminal {
            id: self.insert(terminal),
            pid: Some(pid),
            trace,
        }))
    }

    /// Leaves persistent commands running, because the runner is about to end. They are neither read nor stopped any
    /// more, and all output read so far is on disk. Returns their number. Blocks for the writes.
    pub fn leave_all_running(&self) -> usize {
        let mut open = self.shared.open.lock();
        let before = open.len();
        open.retain(|_, terminal| !terminal.leave_to_next_runner());
        before - open.len()
    }
}

/// Opens the output of a running command, and its keyboard if it is a terminal.
fn reopen_output(path: &Path) -> std::io::Result<(OwnedFd, Option<TerminalKeyboard>)> {
    #[cfg(target_os = "linux")]
    if FileType::from_raw_mode(rustix::fs::lstat(path)?.st_mode) == FileType::Socket {
        let terminal = terminal_holder::take_terminal(path)?;
        let keyboard = TerminalKeyboard::from_master(&terminal)?;
        return Ok((terminal, Some(keyboard)));
    }
    Ok((open_reading_end(path)?, None))
}
