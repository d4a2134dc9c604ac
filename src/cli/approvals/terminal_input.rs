//! The lines that a person types on the terminal of this process, read with a time limit.

use std::io::{self, IsTerminal};
use std::time::Duration;

/// The most bytes of a line: those that a terminal keeps of one.
const LINE_BYTES: usize = 4_096;

/// The terminal that is both stdin and stdout of this process.
pub(super) struct TerminalInput(());

/// The result of a read.
pub(super) enum TypedInput {
    Line(String),
    /// No line in that time.
    Nothing,
    /// The terminal is gone.
    Closed,
}

impl TerminalInput {
    /// Returns the terminal, if stdin and stdout are one and this system lets it be read with a time limit.
    pub fn from_process() -> Option<Self> {
        let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        (cfg!(unix) && is_terminal).then_some(Self(()))
    }
}

#[cfg(unix)]
impl TerminalInput {
    /// Returns whether this process may read the terminal now. The system would stop a background job that does.
    #[expect(clippy::unused_self, reason = "only a terminal has a foreground")]
    pub fn is_in_foreground(&self) -> bool {
        rustix::termios::tcgetpgrp(io::stdin())
            .map_or(true, |group| group == rustix::process::getpgrp())
    }

    /// Discards typed characters, so that none counts as an answer to a question that came later.
    #[expect(clippy::unused_self, reason = "only a terminal has typed characters")]
    pub fn discard_typed(&self) {
        let _ = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
    }

    /// Waits for a line.
    pub fn read_line_within(&self, limit: Duration) -> TypedInput {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let stdin = io::stdin();
        let mut waited = [PollFd::new(&stdin, PollFlags::IN)];
        let limit = Timespec::try_from(limit).ok();
        match poll(&mut waited, limit.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return TypedInput::Nothing,
            Ok(_) => {}
            Err(_) => return TypedInput::Closed,
        }
        let events = waited[0].revents();
        if events.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            return TypedInput::Closed;
        }
        if !self.is_in_foreground() {
            return TypedInput::Nothing;
        }
        let mut line = [0; LINE_BYTES];
        match rustix::io::read(&stdin, &mut line) {
            Ok(read) => TypedInput::Line(String::from_utf8_lossy(&line[..read]).into_owned()),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => TypedInput::Nothing,
            Err(_) => TypedInput::Closed,
        }
    }
}

#[cfg(not(unix))]
impl TerminalInput {
    /// Returns false: this system's terminals are not read.
    pub fn is_in_foreground(&self) -> bool {
        false
    }

    /// Does nothing.
    pub fn discard_typed(&self) {}

    /// Returns that there is no terminal.
    pub fn read_line_within(&self, _limit: Duration) -> TypedInput {
        TypedInput::Closed
    }
}
