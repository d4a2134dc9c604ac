//! The TCP sockets of processes, and the addresses that they listen on.

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
    let ours = read_sockets(first.pid)
        .into_iter()
        .filter(|socket| socket.is_listening() && sockets.contains(&socket.inode));
    // By port first, because a reader looks for that.
    found.extend(ours.map(|socket| (socket.local.port(), socket.local.to_string())));
    found.into_iter().map(|(_, address)| address).collect()
}

/// Returns nothing: this system does not show sockets.
#[cfg(not(target_os = "linux"))]
pub(super) fn list_listening_addresses(_members: &[TreeMember]) -> Vec<String> {
    Vec::new()
}

/// A line of the tables of TCP sockets.
#[cfg(target_os = "linux")]
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TcpSocket {
    pub local: std::net::SocketAddr,
    pub remote: std::net::SocketAddr,
    state: String,
    pub inode: u64,
}

/// Reads the TCP sockets of a process's network namespace.
#[cfg(target_os = "linux")]
pub(super) fn read_sockets(pid: u32) -> Vec<TcpSocket> {
    let tables = ["tcp", "tcp6"].map(|table| {
        std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default()
    });
    let lines = tables.iter().flat_map(|text| text.lines());
    lines.filter_map(TcpSocket::parse_line).collect()
}

/// Lists the sockets among a process's open files, by inode.
#[cfg(target_os = "linux")]
pub(super) fn socket_inodes(pid: u32) -> Vec<u64> {
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

#[cfg(target_os = "linux")]
impl TcpSocket {
    fn parse_line(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split_ascii_whitespace().take(10).collect();
        Some(Self {
            local: parse_address(fields.get(1)?)?,
            remote: parse_address(fields.get(2)?)?,
            state: (*fields.get(3)?).to_owned(),
            inode: fields.get(9)?.parse().ok()?,
        })
    }

    fn is_listening(&self) -> bool {
        self.state == "0A"
    }
}

/// Parses an address with its port.
#[cfg(target_os = "linux")]
fn parse_address(text: &str) -> Option<std::net::SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    Some(std::net::SocketAddr::new(parse_ip(address)?, port))
}

/// Parses an address without its port: groups of four bytes, each a number in native byte order.
#[cfg(target_os = "linux")]
fn parse_ip(hex: &str) -> Option<std::net::IpAddr> {
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
            let socket = TcpSocket::parse_line(line)?;
            let listens = socket.is_listening();
            Some((socket.local.to_string(), listens, socket.inode))
        };
        assert_eq!(read(line), Some(("127.0.0.1:3000".to_owned(), true, 4711)));
        let connected = line.replace(" 0A ", " 01 ");
        assert_eq!(
            read(&connected),
            Some(("127.0.0.1:3000".to_owned(), false, 4711))
        );
        let six = line.replace("0100007F", "00000000000000000000000001000000");
        assert_eq!(read(&six), Some(("[::1]:3000".to_owned(), true, 4711)));
        assert_eq!(read("  sl  local_address rem_address   st"), None);
    }
}
