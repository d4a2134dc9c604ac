//! Finds the addresses that processes listen on. Not here: finding the processes.
#![cfg_attr(
    target_os = "linux",
    expect(clippy::disallowed_methods, reason = "sockets are read from /proc")
)]

use super::process_stat::TreeMember;

/// Returns the addresses that these processes listen on, such as `127.0.0.1:3000`, each once. Only internet sockets:
/// a path does not help a reader who looks for a port.
#[cfg(target_os = "linux")]
pub(super) fn list_listening_addresses(members: &[TreeMember]) -> Vec<String> {
    use std::collections::{BTreeSet, HashSet};
    let sockets: HashSet<u64> = members
        .iter()
        .flat_map(|member| socket_inodes(member.pid))
        .collect();
    // One process's tables suffice: all share a network namespace, unless one was moved to another on purpose.
    let (Some(first), false) = (members.first(), sockets.is_empty()) else {
        return Vec::new();
    };
    let mut found = BTreeSet::new();
    for table in ["tcp", "tcp6"] {
        let text =
            std::fs::read_to_string(format!("/proc/{}/net/{table}", first.pid)).unwrap_or_default();
        let ours = text
            .lines()
            .filter_map(parse_listening_socket)
            .filter(|(_, inode)| sockets.contains(inode));
        // By port first, because a reader looks for that.
        found.extend(ours.map(|(address, _)| (address.port(), address.to_string())));
    }
    found.into_iter().map(|(_, address)| address).collect()
}

/// Returns nothing: this system does not show sockets.
#[cfg(not(target_os = "linux"))]
pub(super) fn list_listening_addresses(_members: &[TreeMember]) -> Vec<String> {
    Vec::new()
}

/// Lists the sockets among a process's open files, by inode.
#[cfg(target_os = "linux")]
fn socket_inodes(pid: u32) -> Vec<u64> {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    let inode = |file: std::fs::DirEntry| {
        let target = std::fs::read_link(file.path()).ok()?;
        target
            .to_str()?
            .strip_prefix("socket:[")?
            .strip_suffix(']')?
            .parse()
            .ok()
    };
    files.filter_map(inode).collect()
}

/// Returns the address and the inode of a line in /proc/net/tcp, if that socket listens.
#[cfg(target_os = "linux")]
fn parse_listening_socket(line: &str) -> Option<(std::net::SocketAddr, u64)> {
    const LISTEN_STATE: &str = "0A";
    let fields: Vec<&str> = line.split_ascii_whitespace().take(10).collect();
    let (address, port) = fields.get(1)?.split_once(':')?;
    if *fields.get(3)? != LISTEN_STATE {
        return None;
    }
    let port = u16::from_str_radix(port, 16).ok()?;
    Some((
        std::net::SocketAddr::new(parse_address(address)?, port),
        fields.get(9)?.parse().ok()?,
    ))
}

/// Parses an address of that table: groups of four bytes, each a number in native byte order.
#[cfg(target_os = "linux")]
fn parse_address(hex: &str) -> Option<std::net::IpAddr> {
    let mut bytes = Vec::with_capacity(16);
    for at in (0..hex.len()).step_by(8) {
        bytes.extend(
            u32::from_str_radix(hex.get(at..at + 8)?, 16)
                .ok()?
                .to_ne_bytes(),
        );
    }
    match bytes.len() {
        4 => Some(<[u8; 4]>::try_from(bytes).ok()?.into()),
        16 => Some(<[u8; 16]>::try_from(bytes).ok()?.into()),
        _ => None,
    }
}

#[cfg(all(test, target_os = "linux", target_endian = "little"))]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_table_is_read() {
        let line = "   1: 0100007F:0BB8 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000 0 4711 1 0 100 0";
        let read = |line: &str| {
            parse_listening_socket(line).map(|(address, inode)| (address.to_string(), inode))
        };
        assert_eq!(read(line), Some(("127.0.0.1:3000".to_owned(), 4711)));
        assert_eq!(
            read(&line.replace(" 0A ", " 01 ")),
            None,
            "connected, not listening"
        );
        let six = line.replace("0100007F", "00000000000000000000000001000000");
        assert_eq!(read(&six), Some(("[::1]:3000".to_owned(), 4711)));
        assert_eq!(read("  sl  local_address rem_address   st"), None);
    }
}
