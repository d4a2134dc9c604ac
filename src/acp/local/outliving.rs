//! Commands in the background that outlive the runner: found again by the next one, and left running by one that is
//! told to stop. Not here: what is written down of them (the journal), and the process that keeps a terminal open
//! meanwhile (terminal_holder).

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
    /// From now on commands in the background outlive a runner that is killed, with their named pipes and sockets in
    /// this folder; whoever asks for this finds them again with [`LocalTerminals::adopt`]. Systems that do not tell
    /// which process is meant are left out.
    pub fn outlive_in(&self, folder: PathBuf) {
        if cfg!(target_os = "linux") {
            // Asked once; a second folder would change nothing for the better.
            let _ = self.shared.fifos.set(folder);
        }
    }

    /// Takes a command up again that an earlier runner started: its output is read on into what that one kept, it can
    /// be typed into if it has a terminal, and it can be ended. None when it is not there any more.
    ///
    /// # Errors
    /// `io` when it runs and cannot be read: it goes on, and is for the caller to end.
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

    /// Lets the commands go on that outlive the runner, which is about to end: they are neither read nor stopped any
    /// more, and all that was read of them is on the disk. Returns how many. Blocks for their writes.
    pub fn leave_running(&self) -> usize {
        let mut open = self.open();
        let before = open.len();
        open.retain(|_, terminal| !terminal.leave_running());
        before - open.len()
    }
}

/// The output of a command that runs, and its keyboard if that is a terminal.
fn reopen(path: &Path) -> std::io::Result<(OwnedFd, Option<Keyboard>)> {
    #[cfg(target_os = "linux")]
    if FileType::from_raw_mode(rustix::fs::lstat(path)?.st_mode) == FileType::Socket {
        let terminal = terminal_holder::take(path)?;
        let keyboard = Keyboard::of(&terminal)?;
        return Ok((terminal, Some(keyboard)));
    }
    Ok((reading_end(path)?, None))
}
