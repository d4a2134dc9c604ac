//! Programs of anybody's that work in a folder, for whoever must not take their files for left behind. Not here:
//! processes of our own (family).
#![cfg_attr(
    target_os = "linux",
    expect(clippy::disallowed_methods, reason = "processes are read from /proc")
)]

use std::path::Path;

/// Whether a program of this name runs in this folder or below it; where that cannot be told, it may.
#[cfg(target_os = "linux")]
pub fn may_run_in(program: &str, folder: &Path) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else { return true };
    processes.filter_map(Result::ok).any(|process| {
        let place = process.path();
        let named = std::fs::read_to_string(place.join("comm")).is_ok_and(|name| name.trim() == program);
        named
            && match std::fs::read_link(place.join("cwd")) {
                Ok(works_in) => works_in.starts_with(folder),
                // One that has just ended works nowhere; where another user's works is not told.
                Err(cause) => cause.kind() != std::io::ErrorKind::NotFound,
            }
    })
}

/// Whether a program of this name runs in this folder or below it: it cannot be told here, so it may.
#[cfg(not(target_os = "linux"))]
pub fn may_run_in(_program: &str, _folder: &Path) -> bool {
    true
}
