//! Ports of this machine's loopback that the owner lets commands reach. Commands have a loopback of their own: the
//! runner listens there, and passes each connection on to the machine's.

use std::io;
use std::net::{Ipv4Addr, TcpListener as StdListener};
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use punie_sandbox::enter_sandbox::first_port_descriptor;

/// The connections to one port at a time; more wait.
const MAX_CONNECTIONS: usize = 128;

/// Copies the listeners of the process that created the namespaces.
pub(super) fn take_listeners(pid: u32, count: usize) -> io::Result<Vec<OwnedFd>> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let process = pidfd_open(pid.ok_or(io::ErrorKind::NotFound)?, PidfdFlags::empty())?;
    let copy = |descriptor| Ok(pidfd_getfd(&process, descriptor, PidfdGetfdFlags::empty())?);
    (first_port_descriptor(count)..)
        .take(count)
        .map(copy)
        .collect()
}

/// Passes connections on from now on, until the returned tasks are dropped.
pub(super) fn forward_ports(listeners: impl Iterator<Item = (u16, OwnedFd)>) -> JoinSet<()> {
    let mut forwarding = JoinSet::new();
    for (port, listener) in listeners {
        match open_listener(listener) {
            Ok(listener) => drop(forwarding.spawn(forward_port(port, listener))),
            Err(cause) => {
                tracing::warn!(port, %cause, "commands do not reach this port of the machine");
            }
        }
    }
    forwarding
}

/// Converts a listener's descriptor.
pub(super) fn open_listener(listener: OwnedFd) -> io::Result<TcpListener> {
    let listener = StdListener::from(listener);
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

async fn forward_port(port: u16, listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= MAX_CONNECTIONS || connections.try_join_next().is_some() {
            if connections.len() >= MAX_CONNECTIONS {
                connections.join_next().await;
            }
        }
        let Ok((mut inside, _)) = listener.accept().await else {
            // Out of descriptors, which others give back.
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            continue;
        };
        connections.spawn(async move {
            // Nothing listens: the command sees its connection closed.
            let Ok(mut outside) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await else {
                return;
            };
            // Small writes are not held back until the one before is acknowledged.
            let _ = inside.set_nodelay(true);
            let _ = outside.set_nodelay(true);
            let _ = tokio::io::copy_bidirectional(&mut inside, &mut outside).await;
        });
    }
}
