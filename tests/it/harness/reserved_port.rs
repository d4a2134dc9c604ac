//! A port of this machine that stays a test's own, also while nothing listens at it.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

/// A port. While a socket is bound to it, the system gives it to nobody who asks for any port; as that socket does not
/// listen, others that name the port may.
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

    /// Listens at it. What listened there before must be gone.
    pub fn listen(&self) -> TcpListener {
        bind_socket(self.address).listen(64).expect("listening")
    }
}

fn bind_socket(address: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_reuseaddr(true).expect("set");
    socket.bind(address).expect("the port is ours");
    socket
}
