//! Sockets and ports of programs that act for their callers: a command that reaches one can do all that the owner can. Not
//! here: keeping commands from them (view, and the network namespace).

use std::net::IpAddr;
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

/// Returns whether a line names this machine's loopback, in any spelling.
pub(super) fn names_loopback(line: &str) -> bool {
    loopback_words(line).next().is_some()
}

/// Finds the port of this machine's loopback that a line names, as `localhost:5432`, `127.0.0.1/5432` or `port 5432`.
pub(super) fn find_local_port(line: &str) -> Option<u16> {
    let mut found = loopback_words(line).peekable();
    found.peek()?;
    found.find_map(|(_, port)| port).or_else(|| {
        ["port ", "port: ", "port="]
            .iter()
            .find_map(|mark| parse_port(line.split_once(mark)?.1))
    })
}

/// Returns the names and addresses of the loopback in a line, each with its port if that follows.
fn loopback_words(line: &str) -> impl Iterator<Item = (&str, Option<u16>)> {
    let is_end = |c: char| c.is_whitespace() || "'\"`,;()<>=/".contains(c);
    let words = line.split(is_end);
    let next = line.split(is_end).skip(1).map(Some).chain([None]);
    words.zip(next).filter_map(|(word, next)| {
        let (host, port) = split_port(word.trim_end_matches([':', '.']));
        let port = port.or(next.filter(|_| line.contains("/dev/tcp/")));
        is_loopback(host).then(|| (host, port.and_then(parse_port)))
    })
}

/// Splits `host:port`; an IPv6 address may stand in brackets.
fn split_port(word: &str) -> (&str, Option<&str>) {
    if let Some((host, rest)) = word.strip_prefix('[').and_then(|word| word.split_once(']')) {
        return (host, rest.strip_prefix(':'));
    }
    match word.strip_prefix("::1:") {
        // Node writes it so.
        Some(port) => ("::1", Some(port)),
        None if word.parse::<IpAddr>().is_ok() => (word, None),
        None => match word.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (word, None),
        },
    }
}

fn is_loopback(host: &str) -> bool {
    if let Ok(address) = host.parse::<IpAddr>() {
        let address = address.to_canonical();
        return address.is_loopback() || address.is_unspecified();
    }
    let host = host.to_ascii_lowercase();
    host == "localhost" || host.starts_with("localhost.") || host.ends_with(".localhost")
}

fn parse_port(text: &str) -> Option<u16> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    text[..end.unwrap_or(text.len())].parse().ok()
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
