//! Sockets of daemons and agents that would do things for a command which it may not do itself. Landlock does not
//! restrict connecting to a socket by its path, so these are hidden in each command's mount namespace. Not here:
//! hiding them (acp::local).
#![expect(
    clippy::disallowed_methods,
    reason = "folders with something in them that commands are given are looked into"
)]

use std::collections::HashSet;
use std::ffi::{CString, OsString};
use std::fs::{self, DirEntry};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use super::sandbox_rules::SandboxRules;
use super::untrusted_links::{ResolvedPath, WritableFolders};

/// The paths of sockets of system and session daemons: containers, virtual machines, D-Bus, key agents, the service
/// manager, terminals of other users. Folders come first.
const SYSTEM_SOCKETS: &[&str] = &[
    "/run/user",
    "/run/dbus",
    "/run/docker",
    "/run/containerd",
    "/run/podman",
    "/run/nscd",
    "/run/avahi-daemon",
    "/run/cups",
    "/run/postgresql",
    "/run/mysqld",
    "/run/redis",
    "/run/crio",
    "/run/k3s",
    "/run/buildkit",
    "/run/libvirt",
    "/run/incus",
    "/run/tailscale",
    "/run/pcscd",
    "/run/screen",
    "/run/tmux",
    "/run/WSL",
    "/var/lib/incus",
    "/var/lib/lxd",
    "/var/snap/lxd/common/lxd",
    TEMP_FOLDER,
    "/run/systemd/resolve/io.systemd.Resolve",
    "/run/systemd/resolve/io.systemd.Resolve.Monitor",
    "/run/systemd/io.system.ManagedOOM",
    "/run/systemd/userdb",
    "/var/lib/mysql/mysql.sock",
    "/run/docker.sock",
    "/run/cri-dockerd.sock",
    "/run/lxd.socket",
    "/run/snapd.socket",
    "/run/snapd-snap.socket",
    "/run/systemd/private",
    "/var/run/docker.sock",
];
/// The folder of most system sockets.
const RUN_FOLDER: &str = "/run";
/// The folder in which agents, terminals, editors and, without a session folder, containers also keep sockets. If a
/// path within it is granted to commands, only sockets directly in it and folders with these name prefixes are
/// blocked: it may hold thousands of other entries.
const TEMP_FOLDER: &str = "/tmp";
const SESSION_PREFIXES: &[&str] = &[
    ".ICE-unix",
    ".X11-unix",
    "agent",
    "containers-user-",
    "dbus-",
    "emacs",
    "gpg-",
    "keyring-",
    "kitty",
    "nvim",
    "podman-run-",
    "pulse-",
    "runtime-",
    "screen",
    "ssh-",
    "storage-run-",
    "tmux-",
    "uscreens",
    "vscode-",
    "zellij-",
];
/// The paths of sockets in the user's home.
const USER_SOCKETS: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".docker",
    ".1password",
    ".colima",
    ".lima",
    ".rd",
    ".orbstack",
    ".local/share/keyrings",
    ".bitwarden-ssh-agent.sock",
];

/// The depth and number of names to which a folder that commands may read is searched for sockets.
const MAX_DEPTH: usize = 3;
const MAX_NAMES: usize = 1_000;

/// The sockets to block for a command that starts now. Missing paths need nothing.
#[derive(Debug)]
pub(super) struct BlockedSockets {
    /// Blocked for every command.
    always_blocked: Vec<CString>,
    /// Blocked if present, by the first name below [`RUN_FOLDER`]. Most are absent, and testing each one takes as long as
    /// blocking some.
    below_run_folder: Vec<(OsString, CString)>,
    /// Folders that contain a granted path, whose other entries are blocked one by one.
    partly_granted: Vec<PathBuf>,
    /// Folders that commands may read: only the sockets in them are blocked.
    readable_folders: Vec<PathBuf>,
    /// The folder for temporary files, if a path within it is granted.
    temporary: Option<PathBuf>,
    /// The paths that commands may only read.
    readable: Vec<PathBuf>,
    granted: Vec<PathBuf>,
}

impl BlockedSockets {
    /// Collects sockets of the system and the user, paths that the owner hides, and the runner's own sockets. Paths
    /// that the owner makes writable are not blocked.
    pub(super) fn new(rules: &SandboxRules) -> Self {
        let granted = GrantedPaths::from_rules(rules);
        let mut blocked = Self {
            always_blocked: Vec::new(),
            below_run_folder: Vec::new(),
            partly_granted: Vec::new(),
            readable_folders: Vec::new(),
            temporary: None,
            readable: granted.readable,
            granted: granted.all,
        };
        let mut whole = Vec::new();
        for socket in socket_paths(rules) {
            let path = socket.canonicalize().unwrap_or_else(|_| socket.clone());
            let is_writable = |folder| path.starts_with(folder) || socket.starts_with(folder);
            if granted.named_writable.iter().any(is_writable) {
                continue;
            }
            let mut inner = blocked.granted.iter().filter(|grant| **grant != path);
            let contains_granted = inner.any(|grant| grant.starts_with(&path));
            if contains_granted && socket == Path::new(TEMP_FOLDER) {
                blocked.temporary = Some(path);
            } else if blocked.readable.contains(&path) {
                blocked.readable_folders.push(path);
            } else if !blocked.granted.contains(&path) {
                let list = if contains_granted {
                    &mut blocked.partly_granted
                } else {
                    &mut whole
                };
                list.push(path);
            }
        }
        // A path within another is blocked with it.
        for path in &whole {
            if !path
                .ancestors()
                .skip(1)
                .any(|above| whole.iter().any(|path| path == above))
            {
                blocked.block_whole(path);
            }
        }
        // Through the pipes, commands could write to each other's output. A command that reopens its own, as by
        // /dev/stdout, uses the open pipe and not this folder.
        blocked.block_whole(&rules.pipes);
        blocked
    }

    /// Blocks a path with everything below it.
    fn block_whole(&mut self, path: &Path) {
        let Some(text) = to_c_string(path) else {
            return;
        };
        let below = path.strip_prefix(RUN_FOLDER).ok();
        match below.and_then(|below| below.iter().next()) {
            Some(name) => self.below_run_folder.push((name.to_owned(), text)),
            None => self.always_blocked.push(text),
        }
    }

    /// Returns the paths to block for a command that starts now.
    pub(super) fn current_paths(&self) -> Vec<CString> {
        let mut all = self.always_blocked.clone();
        let there: Option<HashSet<OsString>> = fs::read_dir(RUN_FOLDER).ok().map(|entries| {
            entries
                .filter_map(|entry| Some(entry.ok()?.file_name()))
                .collect()
        });
        let is_there = |name: &OsString| there.as_ref().is_none_or(|names| names.contains(name));
        all.extend(
            self.below_run_folder
                .iter()
                .filter(|(name, _)| is_there(name))
                .map(|(_, path)| path.clone()),
        );
        for folder in &self.partly_granted {
            self.add_ungranted_entries(folder, &mut all);
        }
        for folder in &self.readable_folders {
            self.add_sockets_below(folder, MAX_DEPTH, &mut MAX_NAMES.clone(), &mut all);
        }
        if let Some(folder) = &self.temporary {
            self.add_temporary_sockets(folder, &mut all);
        }
        all
    }

    /// Adds the sockets in the folder for temporary files, and the folders of terminals and agents by name.
    fn add_temporary_sockets(&self, folder: &Path, blocked: &mut Vec<CString>) {
        for entry in list_or_block(folder, blocked) {
            let (path, name) = (entry.path(), entry.file_name());
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            let is_session_name = SESSION_PREFIXES
                .iter()
                .any(|start| name.as_bytes().starts_with(start.as_bytes()));
            let is_granted = || self.granted.iter().any(|grant| grant.starts_with(&path));
            if (kind.is_socket() || kind.is_dir() && is_session_name) && !is_granted() {
                blocked.extend(to_c_string(&path));
            }
        }
    }

    /// Adds the entries beside granted paths.
    fn add_ungranted_entries(&self, folder: &Path, blocked: &mut Vec<CString>) {
        for entry in list_or_block(folder, blocked) {
            let (path, Ok(kind)) = (entry.path(), entry.file_type()) else {
                continue;
            };
            if kind.is_symlink() {
                continue;
            }
            if self.granted.contains(&path) {
                if self.readable.contains(&path) {
                    self.add_sockets_below(&path, MAX_DEPTH, &mut MAX_NAMES.clone(), blocked);
                }
                continue;
            }
            match self.granted.iter().any(|grant| grant.starts_with(&path)) {
                true => self.add_ungranted_entries(&path, blocked),
                false if kind.is_dir() || kind.is_socket() => blocked.extend(to_c_string(&path)),
                false => {}
            }
        }
    }

    /// Adds the sockets of a folder and then those further down, except in paths that commands may write.
    fn add_sockets_below(
        &self,
        folder: &Path,
        deeper: usize,
        names: &mut usize,
        blocked: &mut Vec<CString>,
    ) {
        let mut below = Vec::new();
        for entry in list_or_block(folder, blocked) {
            let Some(left) = names.checked_sub(1) else {
                break;
            };
            *names = left;
            let (path, Ok(kind)) = (entry.path(), entry.file_type()) else {
                continue;
            };
            let is_open = self.granted.contains(&path) && !self.readable.contains(&path);
            if kind.is_socket() && !is_open {
                blocked.extend(to_c_string(&path));
            } else if kind.is_dir() && deeper > 0 && !is_open {
                below.push(path);
            }
        }
        for folder in below {
            self.add_sockets_below(&folder, deeper - 1, names, blocked);
        }
    }
}

/// The paths that commands are given, resolved.
struct GrantedPaths {
    /// The paths that the owner makes writable by name.
    named_writable: Vec<PathBuf>,
    /// The paths that commands may only read.
    readable: Vec<PathBuf>,
    /// All of them, with the workspaces, and the links on the way to programs.
    all: Vec<PathBuf>,
}

impl GrantedPaths {
    fn from_rules(rules: &SandboxRules) -> Self {
        // The target of a link that commands may have created is never granted.
        let commands = WritableFolders::from_rules(rules);
        let trusted = |path: &PathBuf| commands.resolve_trusted(path);
        let programs: Vec<ResolvedPath> = rules
            .search_path
            .iter()
            .filter(|folder| folder.is_dir())
            .map(|folder| commands.resolve_path(folder))
            .filter(|resolved| !resolved.via_untrusted_symlink)
            .collect();
        let named = rules.read.iter().chain(&rules.shown).filter_map(trusted);
        let readable: Vec<PathBuf> = named
            .chain(programs.iter().map(|resolved| resolved.path.clone()))
            .collect();
        let named_writable: Vec<PathBuf> = rules.write.iter().filter_map(trusted).collect();
        let all = rules
            .workspaces
            .iter()
            .chain(&named_writable)
            .chain([&rules.pipes, &rules.temp])
            .filter_map(trusted)
            .chain(readable.iter().cloned())
            .chain(programs.into_iter().flat_map(|resolved| resolved.links))
            .collect();
        Self {
            named_writable,
            readable,
            all,
        }
    }
}

/// Returns the paths of sockets of the system and the user, hidden paths, and the runner's own sockets.
fn socket_paths(rules: &SandboxRules) -> impl Iterator<Item = PathBuf> {
    let homes = rules.user_home.iter();
    let in_home = homes.flat_map(|home| USER_SOCKETS.iter().map(|name| home.join(name)));
    let system = SYSTEM_SOCKETS.iter().map(PathBuf::from);
    let named = rules.hide.iter().chain(&rules.sockets).cloned();
    system.chain(in_home).chain(named)
}

/// Lists a folder. One that cannot be listed is blocked as a whole: a command may have changed its mode and could list
/// it later.
fn list_or_block(folder: &Path, blocked: &mut Vec<CString>) -> Vec<DirEntry> {
    let Ok(entries) = fs::read_dir(folder) else {
        blocked.extend(to_c_string(folder));
        return Vec::new();
    };
    entries.filter_map(Result::ok).collect()
}

/// Returns whether a path belongs to a blocked socket of the system or the user.
pub(super) fn is_blocked_socket(rules: &SandboxRules, path: &Path) -> bool {
    let is_in_home = |name: &&str| {
        rules
            .user_home
            .as_ref()
            .is_some_and(|home| path.starts_with(home.join(name)))
    };
    let system = SYSTEM_SOCKETS
        .iter()
        .filter(|socket| **socket != TEMP_FOLDER);
    system.map(Path::new).any(|socket| path.starts_with(socket))
        || path.starts_with("/var/run/docker.sock")
        || USER_SOCKETS.iter().any(is_in_home)
            && path.extension().is_some_and(|ending| ending == "sock")
}

fn to_c_string(path: &Path) -> Option<CString> {
    CString::new(path.as_os_str().as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn what_lies_beside_what_commands_are_given_is_shut_one_by_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let home = folder.path().canonicalize().expect("real");
        let at = |name: &str| home.join(name);
        for inside in [
            "work",
            ".docker/run",
            ".docker/cli/bin",
            ".ssh/keys",
            "private/shown/x",
            "session/deep/bin",
        ] {
            fs::create_dir_all(at(inside)).expect("made");
        }
        for file in [".docker/config.json", "private/file"] {
            fs::write(at(file), "x").expect("written");
        }
        let sockets = [
            ".docker/run/docker.sock",
            ".ssh/master",
            "session/bus",
            "session/deep/agent",
            "own.sock",
            "private/shown/x/s.sock",
        ];
        let _listeners = sockets.map(|name| UnixListener::bind(at(name)).expect("a socket"));
        let rules = SandboxRules {
            workspaces: vec![at("work")],
            user_home: Some(home.clone()),
            hide: vec![at("private"), at("session"), at("open")],
            sockets: vec![at("own.sock")],
            read: vec![at("private/shown"), at(".ssh")],
            write: vec![at("open")],
            search_path: vec![
                at(".docker/cli/bin"),
                at("session/deep/bin"),
                at(".gnupg/bin"),
            ],
            ..SandboxRules::minimal_rules(at(".punie"), at(".punie/tmp"))
        };
        // As version managers do it: a link to a folder elsewhere, by which it is found.
        fs::create_dir_all(at("versions/7/bin")).expect("made");
        fs::create_dir_all(at("session/shells")).expect("made");
        std::os::unix::fs::symlink(at("versions/7"), at("session/shells/one")).expect("linked");
        std::os::unix::fs::symlink("shells", at("session/by")).expect("linked");
        let rules = SandboxRules {
            search_path: [rules.search_path, vec![at("session/by/one/bin")]].concat(),
            ..rules
        };
        let shut = BlockedSockets::new(&rules).current_paths();
        let mut ours: Vec<_> = shut
            .iter()
            .filter_map(|path| {
                path.to_str()
                    .ok()?
                    .strip_prefix(home.to_str()?)?
                    .strip_prefix('/')
            })
            .filter(|path| at(path).exists() || path.starts_with(".gn"))
            .collect();
        ours.sort_unstable();
        let expected = [
            ".docker/run",
            ".gnupg",
            ".ssh/master",
            "own.sock",
            "private/shown/x/s.sock",
            "session/bus",
            "session/deep/agent",
        ];
        assert_eq!(ours, expected);
        assert!(!shut.iter().any(|path| path.as_bytes() == b"/tmp") || !home.starts_with("/tmp"));
        assert!(is_blocked_socket(&rules, Path::new("/run/user/7/bus")));
        assert!(
            is_blocked_socket(&rules, &at(".docker/run/docker.sock"))
                && !is_blocked_socket(&rules, &at(".docker/config.json"))
        );
    }
}
