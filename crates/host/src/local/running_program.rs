//! The file of this program, to start it again.

use std::io;
use std::path::PathBuf;

/// Returns the file that runs, also when an update has given its name to another version.
///
/// # Errors
/// The system's.
pub fn running_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") {
        // Resolved by the new process, which is still this program until it starts the file.
        Ok("/proc/self/exe".into())
    } else {
        std::env::current_exe()
    }
}
