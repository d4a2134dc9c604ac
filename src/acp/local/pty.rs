//! A pseudo terminal for one command: opens it, types into it, and follows the keyboard mode that the program sets.
//! Not here: attaching it to a command (launch) and reading it (pump).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, grantpt, openpt, unlockpt};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, Winsize, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize,
};

use crate::acp::terminals::{Stroke, Typed, WindowSize};
use crate::tool::{ErrorCode, ToolError};

/// The terminal type that programs see.
pub(super) const TERM: &str = "xterm-256color";
/// The time for which typed input waits for a program that does not read.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest line in canonical mode (N_TTY_BUF_SIZE on Linux), without its terminator. The terminal silently
/// truncates a longer one.
const LONGEST_LINE: usize = 4_095;

/// Opens a terminal of this size and returns the master side, which is non-blocking.
pub(super) fn open(window: WindowSize) -> io::Result<OwnedFd> {
    let ours = openpt(flags())?;
    // Not every system can set this while opening; one thread opens the terminal and starts all programs.
    rustix::io::fcntl_setfd(&ours, rustix::io::FdFlags::CLOEXEC)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    rustix::fs::fcntl_setfl(&ours, rustix::fs::OFlags::NONBLOCK)?;
    let size = Winsize { ws_row: window.rows, ws_col: window.cols, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&ours, size)?;
    let mut modes = tcgetattr(&ours)?;
    // Backspace deletes a whole character, not its last byte.
    modes.input_modes |= InputModes::IUTF8;
    tcsetattr(&ours, OptionalActions::Now, &modes)?;
    Ok(ours)
}

#[cfg(target_os = "linux")]
fn flags() -> OpenptFlags {
    OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC
}

#[cfg(not(target_os = "linux"))]
fn flags() -> OpenptFlags {
    OpenptFlags::RDWR | OpenptFlags::NOCTTY
}

/// Opens the slave side, with one system call, so that a child may make it before its program starts. If the side
/// were open here too, a command that ends at once would not be the last to close it. The system might then drop its
/// last output.
#[cfg(target_os = "linux")]
pub(super) fn open_other_side(ours: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    Ok(rustix::pty::ioctl_tiocgptpeer(ours, flags())?)
}

/// Opens the slave side.
#[cfg(not(target_os = "linux"))]
pub(super) fn open_other_side(ours: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    let name = rustix::pty::ptsname(ours, Vec::new())?;
    let how = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(name.as_c_str(), how, Mode::empty())?)
}

/// The keyboard of one terminal.
pub(super) struct Keyboard {
    state: Mutex<State>,
}

struct State {
    /// The master side, or `None` once the terminal is closed.
    ours: Option<OwnedFd>,
    modes: CursorMode,
}

impl Keyboard {
    /// Creates the keyboard of the terminal with this master side.
    pub fn of(ours: &OwnedFd) -> io::Result<Self> {
        let state = State { ours: Some(ours.try_clone()?), modes: CursorMode::default() };
        Ok(Self { state: Mutex::new(state) })
    }

    /// Examines the program's output, which may switch the form of the cursor keys.
    pub fn watch(&self, printed: &[u8]) {
        self.state().modes.push(printed);
    }

    /// Closes the terminal when no program reads it any more.
    pub fn close(&self) {
        self.state().ours = None;
    }

    /// Types these strokes. Blocks for a moment at most while the program does not read.
    pub fn write(&self, strokes: &[Stroke]) -> Result<Typed, ToolError> {
        let (ours, application) = {
            let state = self.state();
            let ours = state.ours.as_ref().map(OwnedFd::try_clone).transpose();
            (ours.map_err(|cause| ToolError::io("the terminal", &cause))?, state.modes.application)
        };
        let Some(ours) = ours else { return Err(closed()) };
        let mut bytes = Vec::new();
        for stroke in strokes {
            stroke.encode(application, &mut bytes);
        }
        if modes(&ours).contains(LocalModes::ICANON) {
            check_lines(&bytes)?;
        }
        let taken = write_all(&ours, &bytes).map_err(|cause| match cause {
            Errno::IO => closed(),
            other => ToolError::io("typing on the terminal", &other.into()),
        })?;
        Ok(Typed { given: bytes.len(), taken })
    }

    /// Returns whether the program reads a line without echo, as at a password prompt.
    pub fn is_unechoed(&self) -> bool {
        let modes = self.state().ours.as_ref().map_or(LocalModes::empty(), modes);
        modes.contains(LocalModes::ICANON) && !modes.contains(LocalModes::ECHO)
    }

    /// Returns the size of the terminal's window.
    pub fn window(&self) -> Option<WindowSize> {
        let size = tcgetwinsize(self.state().ours.as_ref()?).ok()?;
        Some(WindowSize { cols: size.ws_col, rows: size.ws_row })
    }

    /// Returns the device number of the slave side.
    pub fn device(&self) -> Option<u64> {
        let name = rustix::pty::ptsname(self.state().ours.as_ref()?, Vec::new()).ok()?;
        Some(rustix::fs::stat(name.as_c_str()).ok()?.st_rdev)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn closed() -> ToolError {
    ToolError::invalid_args("The command has closed its terminal; nothing was typed.")
}

/// Returns the terminal's local modes (canonical mode, echo), or none if the system does not tell them.
fn modes(ours: &OwnedFd) -> LocalModes {
    tcgetattr(ours).map_or(LocalModes::empty(), |modes| modes.local_modes)
}

/// Rejects a line that the terminal would truncate.
fn check_lines(bytes: &[u8]) -> Result<(), ToolError> {
    // Enter ends a line, and so does the end-of-file character.
    let longest = bytes.split(|b| matches!(b, b'\r' | b'\n' | 4)).map(<[u8]>::len).max().unwrap_or(0);
    if longest <= LONGEST_LINE {
        return Ok(());
    }
    Err(ToolError::new(
        ErrorCode::TooLarge,
        format!(
            "A line of {longest} bytes: the terminal collects lines for the program and holds {LONGEST_LINE} bytes of \
             one. Nothing was typed. Write the data to a file and name the file, or break it into lines."
        ),
    ))
}

/// Writes until all is accepted or the time is up, and returns the number of bytes accepted.
fn write_all(ours: &OwnedFd, bytes: &[u8]) -> Result<usize, Errno> {
    let until = Instant::now() + PATIENCE;
    let mut taken = 0;
    while taken < bytes.len() {
        match rustix::io::write(ours, &bytes[taken..]) {
            Ok(count) => taken += count,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                let left = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
                let _ = poll(&mut [PollFd::new(&ours.as_fd(), PollFlags::OUT)], Some(&left));
            }
            Err(cause) => return Err(cause),
        }
    }
    Ok(taken)
}

/// The form of the cursor keys that the program set last: `ESC [ ? 1 h` or `l`, possibly among other modes, and split
/// anywhere. Full-screen programs set the form that their terminal description names.
#[derive(Debug, Default)]
struct CursorMode {
    application: bool,
    seen: Seen,
    number: u32,
    one: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Seen {
    #[default]
    Nothing,
    Escape,
    Bracket,
    Modes,
}

impl CursorMode {
    fn push(&mut self, printed: &[u8]) {
        let mut rest = printed;
        while !rest.is_empty() {
            if self.seen == Seen::Nothing {
                let Some(at) = memchr::memchr(0x1b, rest) else { return };
                self.seen = Seen::Escape;
                rest = &rest[at + 1..];
                continue;
            }
            self.take(rest[0]);
            rest = &rest[1..];
        }
    }

    fn take(&mut self, byte: u8) {
        self.seen = match (self.seen, byte) {
            (_, 0x1b) => Seen::Escape,
            (Seen::Escape, b'[') => Seen::Bracket,
            (Seen::Bracket, b'?') => {
                (self.number, self.one) = (0, false);
                Seen::Modes
            }
            (Seen::Modes, b'0'..=b'9') => {
                self.number = self.number.saturating_mul(10).saturating_add(u32::from(byte - b'0'));
                Seen::Modes
            }
            (Seen::Modes, b';') => {
                self.one |= self.number == 1;
                self.number = 0;
                Seen::Modes
            }
            (Seen::Modes, b'h' | b'l') => {
                if self.one || self.number == 1 {
                    self.application = byte == b'h';
                }
                Seen::Nothing
            }
            _ => Seen::Nothing,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(pieces: &[&[u8]]) -> bool {
        let mut mode = CursorMode::default();
        for piece in pieces {
            mode.push(piece);
        }
        mode.application
    }

    #[test]
    fn the_form_of_the_cursor_keys_is_read_however_it_is_cut() {
        assert!(after(&[b"text \x1b[?1h\x1b= more"]));
        assert!(!after(&[b"\x1b[?1h\x1b[?1l"]));
        assert!(after(&[b"\x1b[?12;1;25h"]));
        assert!(!after(&[b"\x1b[?25h\x1b[1h\x1b[?11h\x1b[31m"]));
        let whole = b"\x1b\x1b[?1;2004h";
        for at in 0..=whole.len() {
            assert!(after(&[&whole[..at], &whole[at..]]), "cut at {at}");
        }
    }

    #[test]
    fn a_terminal_has_its_size_and_two_sides() {
        let ours = open(WindowSize { cols: 97, rows: 31 }).expect("a terminal");
        let theirs = open_other_side(ours.as_fd()).expect("its other side");
        let size = rustix::termios::tcgetwinsize(&theirs).expect("a size");
        assert_eq!((size.ws_col, size.ws_row), (97, 31));
        let keyboard = Keyboard::of(&ours).expect("a keyboard");
        let typed = keyboard.write(&[Stroke::Text("abc\n".to_owned())]).expect("typed");
        assert_eq!(typed, Typed { given: 4, taken: 4 });
        let mut line = [0; 16];
        assert_eq!(rustix::io::read(&theirs, &mut line).expect("a line"), 4);
        assert_eq!(&line[..4], b"abc\n");
    }

    #[test]
    fn a_line_that_the_terminal_would_cut_is_refused() {
        let ours = open(WindowSize::default()).expect("a terminal");
        let _theirs = open_other_side(ours.as_fd()).expect("its other side");
        let keyboard = Keyboard::of(&ours).expect("a keyboard");
        let refused = keyboard.write(&[Stroke::Text("x".repeat(4_096))]).expect_err("too long");
        assert_eq!(refused.code(), ErrorCode::TooLarge);
        assert!(keyboard.write(&[Stroke::Text("x".repeat(4_095) + "\n")]).is_ok());
        keyboard.close();
        assert_eq!(keyboard.write(&[]).expect_err("closed").code(), ErrorCode::InvalidArgs);
    }

    #[test]
    fn one_that_does_not_read_takes_only_so_much() {
        let ours = open(WindowSize::default()).expect("a terminal");
        let _theirs = open_other_side(ours.as_fd()).expect("its other side");
        let lines = "line\n".repeat(1 << 18);
        let typed = Keyboard::of(&ours).expect("a keyboard").write(&[Stroke::Text(lines)]).expect("typed");
        assert!(typed.taken < typed.given, "{typed:?}");
    }
}
