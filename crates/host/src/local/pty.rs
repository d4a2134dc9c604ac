//! A pseudo terminal for one command: opens it, types into it, and follows the keyboard mode that the program sets.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, grantpt, openpt, unlockpt};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, Winsize, tcgetattr, tcgetwinsize, tcsetattr,
    tcsetwinsize,
};

use crate::terminals::{TerminalInput, TypedBytes, WindowSize};
use punie_tool::{ErrorCode, ToolError};

/// The terminal type that programs see.
pub(super) const TERM_NAME: &str = "xterm-256color";
/// The time for which typed input waits for a program that does not read.
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest line in canonical mode (N_TTY_BUF_SIZE on Linux), without its terminator. The terminal silently
/// truncates a longer one.
const MAX_LINE_BYTES: usize = 4_095;

/// Opens a terminal of this size and returns the master side, which is non-blocking.
pub(super) fn open_pty(window: WindowSize) -> io::Result<OwnedFd> {
    let ours = openpt(open_flags())?;
    // Not every system can set this while opening; one thread opens the terminal and starts all programs.
    rustix::io::fcntl_setfd(&ours, rustix::io::FdFlags::CLOEXEC)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    rustix::fs::fcntl_setfl(&ours, rustix::fs::OFlags::NONBLOCK)?;
    let size = Winsize {
        ws_row: window.rows,
        ws_col: window.cols,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&ours, size)?;
    let mut modes = tcgetattr(&ours)?;
    // Backspace deletes a whole character, not its last byte.
    modes.input_modes |= InputModes::IUTF8;
    tcsetattr(&ours, OptionalActions::Now, &modes)?;
    Ok(ours)
}

#[cfg(target_os = "linux")]
fn open_flags() -> OpenptFlags {
    OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC
}

#[cfg(not(target_os = "linux"))]
fn open_flags() -> OpenptFlags {
    OpenptFlags::RDWR | OpenptFlags::NOCTTY
}

/// Opens the slave side, with one system call, so that a child may make it before its program starts. If the side
/// were open here too, a command that ends at once would not be the last to close it. The system might then drop its
/// last output.
#[cfg(target_os = "linux")]
pub(super) fn open_slave_side(ours: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    Ok(rustix::pty::ioctl_tiocgptpeer(ours, open_flags())?)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn open_slave_side(ours: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    let name = rustix::pty::ptsname(ours, Vec::new())?;
    let how = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(name.as_c_str(), how, Mode::empty())?)
}

pub(super) struct TerminalKeyboard {
    state: Mutex<KeyboardState>,
}

struct KeyboardState {
    /// The master side, or `None` once the terminal is closed.
    master: Option<OwnedFd>,
    modes: CursorKeyMode,
}

impl TerminalKeyboard {
    /// Creates the keyboard of the terminal with this master side.
    pub fn from_master(ours: &OwnedFd) -> io::Result<Self> {
        let state = KeyboardState {
            master: Some(ours.try_clone()?),
            modes: CursorKeyMode::default(),
        };
        Ok(Self {
            state: Mutex::new(state),
        })
    }

    /// Examines the program's output, which may switch the form of the cursor keys.
    pub fn watch_output(&self, printed: &[u8]) {
        self.state.lock().modes.parse_output(printed);
    }

    /// Closes the terminal when no program reads it any more.
    pub fn close(&self) {
        self.state.lock().master = None;
    }

    /// Types these strokes. Blocks for a moment at most while the program does not read.
    pub fn write_strokes(&self, strokes: &[TerminalInput]) -> Result<TypedBytes, ToolError> {
        let (ours, application) = {
            let state = self.state.lock();
            let ours = state.master.as_ref().map(OwnedFd::try_clone).transpose();
            (
                ours.map_err(|cause| ToolError::from_io("the terminal", &cause))?,
                state.modes.application,
            )
        };
        let Some(ours) = ours else {
            return Err(closed_terminal_error());
        };
        let mut bytes = Vec::new();
        for stroke in strokes {
            stroke.encode(application, &mut bytes);
        }
        if read_local_modes(&ours).contains(LocalModes::ICANON) {
            check_line_lengths(&bytes)?;
        }
        let taken = write_with_timeout(&ours, &bytes).map_err(|cause| match cause {
            Errno::IO => closed_terminal_error(),
            other => ToolError::from_io("typing on the terminal", &other.into()),
        })?;
        Ok(TypedBytes {
            given: bytes.len(),
            taken,
        })
    }

    /// Returns whether the program reads a line without echo, as at a password prompt.
    pub fn is_reading_hidden(&self) -> bool {
        let modes = self
            .state
            .lock()
            .master
            .as_ref()
            .map_or(LocalModes::empty(), read_local_modes);
        modes.contains(LocalModes::ICANON) && !modes.contains(LocalModes::ECHO)
    }

    /// Returns the size of the terminal's window.
    pub fn size(&self) -> Option<WindowSize> {
        let size = tcgetwinsize(self.state.lock().master.as_ref()?).ok()?;
        Some(WindowSize {
            cols: size.ws_col,
            rows: size.ws_row,
        })
    }

    /// Returns the device number of the slave side.
    pub fn device_number(&self) -> Option<u64> {
        let name = rustix::pty::ptsname(self.state.lock().master.as_ref()?, Vec::new()).ok()?;
        Some(rustix::fs::stat(name.as_c_str()).ok()?.st_rdev)
    }
}

fn closed_terminal_error() -> ToolError {
    ToolError::invalid_args("The command has closed its terminal; nothing was typed.")
}

/// Returns the terminal's local modes (canonical mode, echo), or none if the system does not tell them.
fn read_local_modes(ours: &OwnedFd) -> LocalModes {
    tcgetattr(ours).map_or(LocalModes::empty(), |modes| modes.local_modes)
}

/// Rejects a line that the terminal would truncate.
fn check_line_lengths(bytes: &[u8]) -> Result<(), ToolError> {
    // Enter ends a line, and so does the end-of-file character.
    let longest = bytes
        .split(|b| matches!(b, b'\r' | b'\n' | 4))
        .map(<[u8]>::len)
        .max()
        .unwrap_or(0);
    if longest <= MAX_LINE_BYTES {
        return Ok(());
    }
    Err(ToolError::new(
        ErrorCode::TooLarge,
        format!(
            "A line of {longest} bytes: the terminal collects lines for the program and holds {MAX_LINE_BYTES} bytes of \
             one. Nothing was typed. Write the data to a file and name the file, or break it into lines."
        ),
    ))
}

/// Writes until all is accepted or the time is up, and returns the number of bytes accepted.
fn write_with_timeout(ours: &OwnedFd, bytes: &[u8]) -> Result<usize, Errno> {
    let until = Instant::now() + WRITE_TIMEOUT;
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
                let left = Timespec::try_from(left).unwrap_or(Timespec {
                    tv_sec: 1,
                    tv_nsec: 0,
                });
                let _ = poll(
                    &mut [PollFd::new(&ours.as_fd(), PollFlags::OUT)],
                    Some(&left),
                );
            }
            Err(cause) => return Err(cause),
        }
    }
    Ok(taken)
}

/// The form of the cursor keys that the program set last: `ESC [ ? 1 h` or `l`, possibly among other modes, and split
/// anywhere. Full-screen programs set the form that their terminal description names.
#[derive(Debug, Default)]
struct CursorKeyMode {
    application: bool,
    seen: EscapeState,
    number: u32,
    one: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum EscapeState {
    #[default]
    Nothing,
    Escape,
    Bracket,
    Modes,
}

impl CursorKeyMode {
    fn parse_output(&mut self, printed: &[u8]) {
        let mut rest = printed;
        while !rest.is_empty() {
            if self.seen == EscapeState::Nothing {
                let Some(at) = memchr::memchr(0x1b, rest) else {
                    return;
                };
                self.seen = EscapeState::Escape;
                rest = &rest[at + 1..];
                continue;
            }
            self.parse_byte(rest[0]);
            rest = &rest[1..];
        }
    }

    fn parse_byte(&mut self, byte: u8) {
        self.seen = match (self.seen, byte) {
            (_, 0x1b) => EscapeState::Escape,
            (EscapeState::Escape, b'[') => EscapeState::Bracket,
            (EscapeState::Bracket, b'?') => {
                (self.number, self.one) = (0, false);
                EscapeState::Modes
            }
            (EscapeState::Modes, b'0'..=b'9') => {
                self.number = self
                    .number
                    .saturating_mul(10)
                    .saturating_add(u32::from(byte - b'0'));
                EscapeState::Modes
            }
            (EscapeState::Modes, b';') => {
                self.one |= self.number == 1;
                self.number = 0;
                EscapeState::Modes
            }
            (EscapeState::Modes, b'h' | b'l') => {
                if self.one || self.number == 1 {
                    self.application = byte == b'h';
                }
                EscapeState::Nothing
            }
            _ => EscapeState::Nothing,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(pieces: &[&[u8]]) -> bool {
        let mut mode = CursorKeyMode::default();
        for piece in pieces {
            mode.parse_output(piece);
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
        let ours = open_pty(WindowSize { cols: 97, rows: 31 }).expect("a terminal");
        let theirs = open_slave_side(ours.as_fd()).expect("its other side");
        let size = rustix::termios::tcgetwinsize(&theirs).expect("a size");
        assert_eq!((size.ws_col, size.ws_row), (97, 31));
        let keyboard = TerminalKeyboard::from_master(&ours).expect("a keyboard");
        let typed = keyboard
            .write_strokes(&[TerminalInput::Text("abc\n".to_owned())])
            .expect("typed");
        assert_eq!(typed, TypedBytes { given: 4, taken: 4 });
        let mut line = [0; 16];
        assert_eq!(rustix::io::read(&theirs, &mut line).expect("a line"), 4);
        assert_eq!(&line[..4], b"abc\n");
    }

    #[test]
    fn a_line_that_the_terminal_would_cut_is_refused() {
        let ours = open_pty(WindowSize::default()).expect("a terminal");
        let _theirs = open_slave_side(ours.as_fd()).expect("its other side");
        let keyboard = TerminalKeyboard::from_master(&ours).expect("a keyboard");
        let refused = keyboard
            .write_strokes(&[TerminalInput::Text("x".repeat(4_096))])
            .expect_err("too long");
        assert_eq!(refused.stable_code(), ErrorCode::TooLarge);
        assert!(
            keyboard
                .write_strokes(&[TerminalInput::Text("x".repeat(4_095) + "\n")])
                .is_ok()
        );
        keyboard.close();
        assert_eq!(
            keyboard
                .write_strokes(&[])
                .expect_err("closed")
                .stable_code(),
            ErrorCode::InvalidArgs
        );
    }

    #[test]
    fn one_that_does_not_read_takes_only_so_much() {
        let ours = open_pty(WindowSize::default()).expect("a terminal");
        let _theirs = open_slave_side(ours.as_fd()).expect("its other side");
        let lines = "line\n".repeat(1 << 18);
        let typed = TerminalKeyboard::from_master(&ours)
            .expect("a keyboard")
            .write_strokes(&[TerminalInput::Text(lines)])
            .expect("typed");
        assert!(typed.taken < typed.given, "{typed:?}");
    }
}
