//! Restores SIGINT as programs on a terminal have it. A shell's background jobs inherit it as ignored, and the program
//! under test keeps an ignored SIGINT ignored.
#![expect(unsafe_code, reason = "no safe call sets the disposition of a signal")]

use std::sync::Once;

/// Makes SIGINT end the programs that this process starts from now on, unless they handle it.
pub fn restore_interrupts() {
    static RESTORED: Once = Once::new();
    // SAFETY: sets the default action and installs no handler.
    RESTORED.call_once(|| unsafe {
        libc::signal(libc::SIGINT, libc::SIG_DFL);
    });
}
