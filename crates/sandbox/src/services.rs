//! Sockets and ports of programs that act for their callers: a command that reaches one can do all that the owner can. Not
//! here: keeping commands from them (view, and the network namespace).

use std::path::Path;

/// The ports of programs that run commands for each caller: containers, debuggers, devices, the screen.
pub const SERVICE_PORTS: [u16; 6] = [2375, 2376, 5037, 6000, 9222, 9229];

/// Folders in which services and sessions keep sockets.
const SHARED_FOLDERS: &[&str] = &["/run", "/var/run", "/tmp", "/var/tmp", "/dev/shm"];
/// The same in the user's home.
const SOCKET_FOLDERS: &[&str] = &[
    ".ssh/agent",
    ".gnupg",
    ".docker",
    ".1password",
    ".colima",
    ".lima",
    ".rd",
    ".orbstack",
    ".local/share/keyrings",
];
/// The number of names of a folder that are checked for sockets.
const MAX_NAMES: usize = 1_000;

/// Returns whether a path is a socket or in a folder for sockets. A command that connects to one may have programs
/// run outside of the sandbox, so no hint proposes to open one.
pub fn leads_to_service(home: Option<&Path>, path: &Path) -> bool {
    let is_shared = SHARED_FOLDERS.iter().any(|folder| path.starts_with(folder));
    let is_in_home = home.is_some_and(|home| path.starts_with(home));
    let is_for_sockets = |home: &Path| {
        let is_below = |name: &&str| path.starts_with(home.join(name));
        path == home.join(".ssh") || SOCKET_FOLDERS.iter().any(is_below)
    };
    is_shared && !is_in_home || home.is_some_and(is_for_sockets) || holds_socket(path)
}

#[cfg(unix)]
fn holds_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    let is_socket = |path: &Path| {
        path.metadata()
            .is_ok_and(|metadata| metadata.file_type().is_socket())
    };
    let names = path.read_dir().into_iter().flatten().flatten();
    is_socket(path) || names.take(MAX_NAMES).any(|entry| is_socket(&entry.path()))
}

#[cfg(not(unix))]
fn holds_socket(_path: &Path) -> bool {
    false
}

/// Explains that a path belongs to a service.
pub(super) fn service_hint(path: &Path) -> String {
    format!(
        "This may be because {} lies where services and sessions (containers, key agents, terminals) keep their \
         sockets: commands cannot be given paths there. Use one in the workspace or in $TMPDIR.",
        path.display()
    )
}

/// Finds the port of this machine's loopback that a line names, as `localhost:5432`, `127.0.0.1/5432` or `port 5432`.
pub(super) fn find_local_port(line: &str) -> Option<u16> {
    let local = ["localhost", "127.0.0.1", "::1"];
    if !local.iter().any(|host| line.contains(host)) {
        return None;
    }
    let before = local
        .iter()
        .flat_map(|host| [":", "/"].map(|mark| format!("{host}{mark}")));
    let marks = before.chain(["]:", "port ", "port: "].map(str::to_owned));
    marks.into_iter().find_map(|mark| {
        let rest = &line[line.find(&mark)? + mark.len()..];
        let end = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        rest[..end].parse().ok()
    })
}

/// Explains that no command listens at a port, with the setting that lets commands reach the machine's.
pub(super) fn local_port_hint(port: u16) -> String {
    if SERVICE_PORTS.contains(&port) {
        return format!(
            "Commands reach only what other commands listen on. What listens at port {port} of this machine runs programs \
             for its callers, so commands cannot be given it."
        );
    }
    format!(
        "Commands reach only what other commands listen on. If the owner's own server listens at port {port} of this \
         machine, the owner can let commands reach it: local_ports = [{port}] under [sandbox] in config.toml. It \
         takes effect at once."
    )
}
