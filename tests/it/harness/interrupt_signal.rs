//! SIGINT as a terminal's programs have it. A shell's background jobs inherit it as ignored, and the program leaves it so.
#![expect(unsafe_code, reason = "no safe call sets the disposition of a signal")]

use std::sync::Once;

/// Makes programs that this process starts from now on end by SIGINT, unless they handle it.
pub fn restore_interrupts() {
    static RESTORED: Once = Once::new();
    // SAFETY: sets the default action, which is no handler.
    RESTORED.call_once(|| unsafe {
        libc::signal(libc::SIGINT, libc::SIG_DFL);
    });
}
