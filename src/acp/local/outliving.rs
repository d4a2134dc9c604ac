//! Background commands that outlive the runner: the next runner finds them again, and a runner that is told to stop
//! leaves them running. Not here: their records (the journal), and the process that holds a terminal open meanwhile
//! (terminal_holder).

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FileType;
use tokio::time::Instant;

use super::family::{Family, OutputPipe};
use super::identity::ProcessIdentity;
use super::process::{Child, reading_end};
use super::pty::Keyboard;
use super::terminal::{From, Parts, Terminal};
#[cfg(target_os = "linux")]
use super::terminal_holder;
use super::terminals::LocalTerminals;
use crate::acp::terminals::{CommandTrace, OpenTerminal};
use crate::output::Budget;
use crate::tool::ToolError;

impl LocalTerminals {
    /// Makes background commands outlive a runner that is killed from now on, with their named pipes and sockets in
    /// this folder. [`LocalTerminals::adopt`] finds them again. Does nothing on systems that cannot identify
    /// processes.
    pub fn outlive_in(&self, folder: PathBuf) {
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
    pub fn adopt(&self, left: &CommandTrace) -> Result<Option<OpenTerminal>, ToolError> {
        let Some(path) = left.output.clone() else { return Ok(None) };
        let Ok(identity) = left.identity.parse::<ProcessIdentity>() else { return Ok(None) };
        let started = Instant::now().checked_sub(identity.age()).unwrap_or_else(Instant::now);
        let Some(child) = Child::adopt(identity.clone()) else { return Ok(None) };
        let (output, keyboard) =
            reopen(&path).map_err(|cause| ToolError::io("the output of the command", &cause))?;
        let pipe = keyboard.is_none().then(|| OutputPipe::Named(path.clone()));
        let family = Some(Family::of_a_former_life(identity, &left.request, pipe));
        let window = keyboard.as_ref().and_then(Keyboard::window);
        let capture = self.capture(self.place(&left.request, 0), Budget::default(), left.raw, window);
        let (pid, log) = (child.pid(), Arc::clone(&self.shared.setup.log));
        let terminal = Terminal::new(Parts {
            child,
            holder: None,
            family,
            fifo: Some(path),
            keyboard,
            capture,
            started,
            log,
            watch: None,
            mounted: None,
        });
        terminal.start_pump(output, From::AnEarlierLife)?;
        let trace = Some(left.clone());
        Ok(Some(OpenTerminal { id: self.admit(terminal), pid: Some(pid), trace }))
    }

    /// Leaves persistent commands running, because the runner is about to end. They are neither read nor stopped any
    /// more, and all output read so far is on disk. Returns their number. Blocks for the writes.
    pub fn leave_running(&self) -> usize {
        let mut open = self.open();
        let before = open.len();
        open.retain(|_, terminal| !terminal.leave_running());
        before - open.len()
    }
}

/// Opens the output of a running command, and its keyboard if it is a terminal.
fn reopen(path: &Path) -> std::io::Result<(OwnedFd, Option<Keyboard>)> {
    #[cfg(target_os = "linux")]
    if FileType::from_raw_mode(rustix::fs::lstat(path)?.st_mode) == FileType::Socket {
        let terminal = terminal_holder::take(path)?;
        let keyboard = Keyboard::of(&terminal)?;
        return Ok((terminal, Some(keyboard)));
    }
    Ok((reading_end(path)?, None))
}
