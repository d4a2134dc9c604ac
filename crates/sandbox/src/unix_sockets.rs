//! The Unix sockets of this machine that have a path. Landlock does not restrict connecting to one by its path.
#![expect(clippy::disallowed_methods, reason = "the kernel's list is read")]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::view_contents::Entry;

/// Returns the paths of bound sockets, as the kernel names them, sorted. Those of other network namespaces are not listed.
pub(super) fn bound_sockets() -> Vec<PathBuf> {
    let list = std::fs::read("/proc/net/unix").unwrap_or_default();
    let path = |line: &[u8]| {
        // The path is the eighth column; abstract names begin with `@`.
        let at = line.iter().position(|byte| *byte == b'/')?;
        Some(PathBuf::from(OsStr::from_bytes(&line[at..])))
    };
    let mut paths: Vec<PathBuf> = list.split(|byte| *byte == b'\n').filter_map(path).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// What decides whether commands would see a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VisibleSockets {
    pub own_home: PathBuf,
    pub covered: Vec<PathBuf>,
    pub entries: Vec<Entry>,
}

impl VisibleSockets {
    /// Returns whether commands would see a socket that is not among what they may write. The runner's own ones that they
    /// see are meant for them.
    pub fn is_foreign(&self, socket: &Path) -> bool {
        if socket.starts_with(&self.own_home) {
            return false;
        }
        let around = |path: &&Path| socket.starts_with(path);
        let length = |path: &&Path| path.as_os_str().len();
        let entries = self.entries.iter();
        let entry = entries
            .filter(|entry| around(&entry.path.as_path()))
            .max_by_key(|entry| length(&entry.path.as_path()));
        let covered = self.covered.iter().map(PathBuf::as_path);
        let covered = covered
            .filter(|path| around(path) && *path != socket)
            .max_by_key(length);
        match (entry, covered) {
            (Some(entry), Some(covered)) if entry.path.starts_with(covered) => !entry.writable,
            (Some(entry), None) => !entry.writable,
            (_, covered) => covered.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_socket_with_a_path_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a socket");
        assert!(!bound_sockets().contains(&path));
        let _listener = UnixListener::bind(&path).expect("bound");
        assert!(bound_sockets().contains(&path));
    }
}
