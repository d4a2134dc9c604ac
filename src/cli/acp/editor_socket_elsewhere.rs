//! The socket for editors on other systems, where it is not supported yet. Untested here.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};

use punie_editor::agent::AgentSetup;
use punie_home::Home;

/// A placeholder without a socket.
pub struct EditorSocket;

impl EditorSocket {
    /// Listens to nothing.
    pub fn start_listening(_home: &Home, _setup: &AgentSetup) -> Self {
        Self
    }
}

/// Fails, because no runner can be reached on this system.
///
/// # Errors
/// Always.
pub async fn relay_editor(
    _home: &Home,
    _from: impl AsyncRead + Unpin,
    _to: impl AsyncWrite + Unpin,
) -> anyhow::Result<()> {
    let text = "on this system an editor cannot join a runner that is up; stop that one first";
    Err(io::Error::new(io::ErrorKind::Unsupported, text).into())
}
