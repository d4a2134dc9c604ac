//! Doors to programs that would do for a command what it may not do itself: the sockets of daemons and agents. Landlock
//! lets everybody connect to a socket by its path, so these are taken out of the view that commands have of the files.
//! Not here: taking them out (acp::local::shut_in).

use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use super::Rules;
use super::hidden::holes;

/// Where systems keep the sockets of what runs as root or for the whole session: containers, virtual machines, D-Bus,
/// agents of keys, the service manager, terminals of others.
const DOORS: &[&str] = &[
    "/run/user",
    "/run/dbus",
    "/run/docker.sock",
    "/run/docker",
    "/run/containerd",
    "/run/podman",
    "/run/crio",
    "/run/buildkit",
    "/run/libvirt",
    "/run/incus",
    "/run/lxd.socket",
    "/run/snapd.socket",
    "/run/snapd-snap.socket",
    "/run/systemd/private",
    "/run/tailscale",
    "/run/pcscd",
    "/run/screen",
    "/run/tmux",
    "/var/run/docker.sock",
    "/var/lib/incus",
    "/var/lib/lxd",
    "/var/snap/lxd/common/lxd",
    "/tmp",
];

/// One that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Door {
    /// Without links.
    pub path: PathBuf,
    /// An empty folder takes its place; of a socket, what is none.
    pub is_folder: bool,
}

/// Those that are there: of the system, and the folders and sockets that are hidden. Not what holds something that commands
/// are given, nor what the owner names.
pub(super) fn doors(rules: &Rules) -> Vec<Door> {
    let Rules { workspaces, shown, pipes, temp, search_path, write, read, .. } = rules;
    let lists = [workspaces, shown, search_path, write, read];
    let given: Vec<&PathBuf> = lists.into_iter().flatten().chain([pipes, temp]).collect();
    let found =
        DOORS.iter().map(PathBuf::from).chain(holes(rules)).filter_map(|path| path.canonicalize().ok());
    let mut doors: Vec<Door> = Vec::new();
    for path in found.filter(|path| !given.iter().any(|given| given.starts_with(path))) {
        let is_there = |door: &Door| path.starts_with(&door.path);
        if let Some(is_folder) = kind(&path).filter(|_| !doors.iter().any(is_there)) {
            doors.push(Door { path, is_folder });
        }
    }
    doors
}

/// Whether it is a folder; none for what is no socket either, which needs no more than not to be read.
fn kind(path: &Path) -> Option<bool> {
    let kind = path.symlink_metadata().ok()?.file_type();
    (kind.is_dir() || kind.is_socket()).then_some(kind.is_dir())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a home is laid out")]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn what_is_hidden_is_shut_and_what_commands_are_given_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let home = folder.path().canonicalize().expect("real");
        for inside in ["work", ".punie/tmp", ".docker/run", ".gnupg", ".ssh", "private/shown"] {
            fs::create_dir_all(home.join(inside)).expect("made");
        }
        fs::write(home.join(".netrc"), "x").expect("written");
        let _daemon = UnixListener::bind(home.join("daemon.sock")).expect("a socket");
        let rules = Rules {
            workspaces: vec![home.join("work")],
            user_home: Some(home.clone()),
            hide: vec![home.join("private"), home.join("daemon.sock"), home.join(".docker/run")],
            read: vec![home.join("private/shown"), home.join(".ssh")],
            ..Rules::least(home.join(".punie"), home.join(".punie/tmp"))
        };
        let found = doors(&rules);
        let ours: Vec<_> = found
            .iter()
            .filter_map(|door| Some((door.path.strip_prefix(&home).ok()?.to_str()?, door.is_folder)))
            .collect();
        assert_eq!(ours, [(".gnupg", true), (".docker", true), ("daemon.sock", false)]);
        assert!(!found.iter().any(|door| door.path == Path::new("/tmp") && home.starts_with("/tmp")));
    }
}
