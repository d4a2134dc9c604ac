//! The terminal without echo, while a person types a secret.

use std::io;

/// Turns the echo of the terminal off until it is dropped.
#[cfg(unix)]
pub(super) struct HiddenInput(rustix::termios::Termios);

#[cfg(unix)]
impl HiddenInput {
    /// Turns the echo off. What was typed before is discarded.
    pub fn begin() -> io::Result<Self> {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
        let before = tcgetattr(io::stdin())?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        silent.local_modes.insert(LocalModes::ECHONL);
        tcsetattr(io::stdin(), OptionalActions::Flush, &silent)?;
        Ok(Self(before))
    }
}

#[cfg(unix)]
impl Drop for HiddenInput {
    fn drop(&mut self) {
        use rustix::termios::{OptionalActions, tcsetattr};
        // It is the caller's terminal; there is no way left to report that echo stays off.
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.0);
    }
}

/// A terminal of this system shows what is typed.
#[cfg(not(unix))]
pub(super) struct HiddenInput(());

#[cfg(not(unix))]
impl HiddenInput {
    /// Fails.
    pub fn begin() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
