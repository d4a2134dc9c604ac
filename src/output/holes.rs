//! Finds the holes of a sparse file. A hole reads as NUL bytes, so that a search for anything else need not read it. A
//! system that cannot tell has no holes.

use std::fs::File;

/// Finds the first byte from `at` on that may not lie in a hole; `end` when all up to there do.
pub(super) fn find_data(file: &File, at: u64, end: u64) -> u64 {
    next_data(file, at, end).map_or(at, |data| data.clamp(at, end))
}

#[cfg(any(target_os = "linux", target_os = "macos"))]
fn next_data(file: &File, at: u64, end: u64) -> Option<u64> {
    use rustix::fs::SeekFrom;
    use rustix::io::Errno;

    match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(data) => Some(data),
        // A hole to the file's end; or the file has become shorter, which only reading it tells.
        Err(Errno::NXIO) => file.metadata().is_ok_and(|now| now.len() >= end).then_some(end),
        Err(_) => None,
    }
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn next_data(_: &File, _: u64, _: u64) -> Option<u64> {
    None
}
