//! A pseudo-terminal for commands of the program, like the one behind a terminal window.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::thread::JoinHandle;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Opens a terminal of 80 columns and returns both sides: the window's and the programs'.
pub fn open_terminal() -> (File, File) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours: OwnedFd = openpt(flags).expect("a terminal");
    grantpt(&ours)
        .and_then(|()| unlockpt(&ours))
        .expect("its other side");
    let size = Winsize {
        ws_row: 24,
        ws_col: 80,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&ours, size).expect("a size");
    let name = ptsname(&ours, Vec::new()).expect("a name");
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
    let other = rustix::fs::open(name.as_c_str(), flags, rustix::fs::Mode::empty());
    (File::from(ours), File::from(other.expect("opened")))
}

/// Reads all output of the terminal on a thread, until its last program ends.
pub fn read_screen(mut ours: File) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut shown = Vec::new();
        // `read` fails once the last program has closed its side of the terminal.
        let _ = std::io::Read::read_to_end(&mut ours, &mut shown);
        String::from_utf8_lossy(&shown).replace("\r\n", "\n")
    })
}
