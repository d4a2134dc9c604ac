//! A port of this machine that stays reserved for one test, even while no server listens on it.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

/// A reserved port. While a socket is bound to it, the system does not give it to a process that asks for any port.
/// That socket does not listen, so a server that names the port can still listen on it.
pub struct ReservedPort {
    address: SocketAddr,
    _bound: TcpSocket,
}

impl ReservedPort {
    pub fn new() -> Self {
        let bound = bind_socket(SocketAddr::from(([127, 0, 0, 1], 0)));
        Self {
            address: bound.local_addr().expect("an address"),
            _bound: bound,
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Listens on the port. An earlier listener must be closed.
    pub fn listen(&self) -> TcpListener {
        bind_socket(self.address).listen(64).expect("listening")
    }
}

fn bind_socket(address: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_reuseaddr(true).expect("set");
    socket
        .bind(address)
        .expect("the reserved port can be bound");
    socket
}
