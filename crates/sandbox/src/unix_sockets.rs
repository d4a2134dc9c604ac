//! The Unix sockets of this machine that have a path. Landlock does not restrict connecting to one by its path.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

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
