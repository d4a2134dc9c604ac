//! The parts of a file's metadata that only Unix has.

use std::fs::Metadata;

/// Returns the permission bits of a file, on systems that have them.
#[cfg(unix)]
pub fn permission_bits(metadata: &Metadata) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    Some(metadata.permissions().mode() & 0o7777)
}

/// Returns the permission bits of a file, on systems that have them.
#[cfg(not(unix))]
pub fn permission_bits(_metadata: &Metadata) -> Option<u32> {
    None
}

/// Returns whether the owner of a file may execute it, on systems with permission bits.
pub fn is_executable(metadata: &Metadata) -> Option<bool> {
    permission_bits(metadata).map(|bits| bits & 0o100 != 0)
}

/// Returns the device and the inode number of a file, on systems that have them.
#[cfg(unix)]
pub fn file_identity(metadata: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    Some((metadata.dev(), metadata.ino()))
}

/// Returns the device and the inode number of a file, on systems that have them.
#[cfg(not(unix))]
pub fn file_identity(_metadata: &Metadata) -> Option<(u64, u64)> {
    None
}
