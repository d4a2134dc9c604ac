//! Finds the command behind a connection to the proxy that names none, as a Java machine makes them: by the socket, and
//! by what the process that holds it has in its environment.

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

use super::listening_sockets::{read_sockets, socket_inodes};
use super::process_stat::all_pids;
use crate::network_proxy::{FindUserName, PROXY_PORT, user_name_in_environment};
use punie_sandbox::profile::NamespaceSet;

/// Returns what finds the user names of connections from the network namespace of commands. It finds none if they have no
/// such namespace.
pub(super) fn user_name_finder(namespaces: Option<&NamespaceSet>) -> FindUserName {
    let network = namespaces.and_then(|set| set.network.as_ref());
    let number = network.and_then(|network| Some(rustix::fs::fstat(network).ok()?.st_ino));
    Arc::new(move |client| find_user_name(number?, client))
}

/// Returns the user name at the proxy of the process that made a connection from this address in a network namespace.
/// `None` if it has none, or if processes hold the connection whose names differ.
fn find_user_name(namespace: u64, client: SocketAddr) -> Option<String> {
    let is_inside = |pid: &u32| {
        let found = std::fs::metadata(format!("/proc/{pid}/ns/net"));
        found.is_ok_and(|found| found.ino() == namespace)
    };
    let processes: Vec<u32> = all_pids().filter(is_inside).collect();
    // A process that has ended since has no table.
    let mut tables = processes.iter().map(|pid| read_sockets(*pid));
    let sockets = tables.find(|sockets| !sockets.is_empty())?;
    // A socket of IPv6 reaches the proxy, too.
    let is_same = |address: SocketAddr, other: SocketAddr| {
        (address.ip().to_canonical(), address.port()) == (other.ip(), other.port())
    };
    let inode = sockets.iter().find_map(|socket| {
        let leads_to_proxy = socket.remote.port() == PROXY_PORT;
        (is_same(socket.local, client) && leads_to_proxy).then_some(socket.inode)
    })?;
    let holders = processes
        .into_iter()
        .filter(|pid| socket_inodes(*pid).contains(&inode));
    let mut names = holders.map(|pid| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        user_name_in_environment(&environment)
    });
    let name = names.next()??;
    names
        .all(|other| other.as_ref() == Some(&name))
        .then_some(name)
}
