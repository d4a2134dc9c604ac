//! Finds other programs that work in a folder, so that their files are not removed as leftovers.

use std::path::Path;

/// Returns whether a program of this name may run in this folder or below it; true if unknown.
#[cfg(target_os = "linux")]
pub fn may_run_in_folder(program: &str, folder: &Path) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return true;
    };
    processes.filter_map(Result::ok).any(|process| {
        let place = process.path();
        let named =
            std::fs::read_to_string(place.join("comm")).is_ok_and(|name| name.trim() == program);
        named
            && match std::fs::read_link(place.join("cwd")) {
                Ok(works_in) => works_in.starts_with(folder),
                // A process that has just ended has no working folder; that of another user's process is unknown.
                Err(cause) => cause.kind() != std::io::ErrorKind::NotFound,
            }
    })
}

/// Returns true: this system does not show working folders.
#[cfg(not(target_os = "linux"))]
pub fn may_run_in_folder(_program: &str, _folder: &Path) -> bool {
    true
}
