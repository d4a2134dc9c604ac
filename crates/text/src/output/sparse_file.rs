//! Finds the holes of a sparse file. A hole reads as NUL bytes, so a search for other bytes can skip it. On systems
//! that do not report holes, there are none.

use std::fs::File;

/// Returns the first offset from `at` on that may not lie in a hole, or `end` if all before it do.
pub(super) fn find_data(file: &File, at: u64, end: u64) -> u64 {
    next_data_offset(file, at, end).map_or(at, |data| data.clamp(at, end))
}

#[cfg(any(target_os = "linux", target_os = "macos"))]
fn next_data_offset(file: &File, at: u64, end: u64) -> Option<u64> {
    use rustix::fs::SeekFrom;
    use rustix::io::Errno;

    match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(data) => Some(data),
        // The hole reaches to the file's end, or the file has become shorter, which only reading reveals.
        Err(Errno::NXIO) => file
            .metadata()
            .is_ok_and(|now| now.len() >= end)
            .then_some(end),
        Err(_) => None,
    }
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn next_data_offset(_: &File, _: u64, _: u64) -> Option<u64> {
    None
}
