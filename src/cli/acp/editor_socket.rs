//! The Unix socket by which an `acp` process that an editor launched reaches the runner of this home. Only for the
//! same user: the folder is private, and the peer's credentials are checked.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, copy};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::Instant;

use punie_editor::agent::{AgentSetup, UpdateBacklog, open_line_transport, serve_agent};
use punie_home::{ClientPresence, Home};

/// The maximum number of editors at once.
const MAX_EDITORS: usize = 32;
/// The time in which a starting runner must open its socket, and the interval between attempts.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const CONNECT_INTERVAL: Duration = Duration::from_millis(50);
/// The time in which the runner must close its end after the editor closed its own.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// An open socket for editors, closed on drop.
pub struct EditorSocket {
    _serving: Option<JoinSet<()>>,
}

impl EditorSocket {
    /// Opens the socket; the caller holds the home's lock. If this fails, the runner works without it.
    pub fn start_listening(home: &Home, setup: &AgentSetup) -> Self {
        let listener = match bind_editor_socket(home) {
            Ok(listener) => listener,
            Err(error) => {
                tracing::warn!(%error, "editors cannot reach this runner");
                return Self { _serving: None };
            }
        };
        let mut serving = JoinSet::new();
        serving.spawn(accept_editors(listener, setup.clone()));
        Self {
            _serving: Some(serving),
        }
    }
}

fn bind_editor_socket(home: &Home) -> io::Result<UnixListener> {
    let path = home.editor_socket();
    home.clear_editor_socket()?;
    UnixListener::bind(path)
}

async fn accept_editors(listener: UnixListener, setup: AgentSetup) {
    let mut open = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = open.join_next() => continue,
        };
        let socket = match accepted {
            Ok((socket, _)) => socket,
            Err(error) => {
                tracing::warn!(%error, "an editor could not be let in");
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        if open.len() >= MAX_EDITORS || !is_trusted_peer(&socket) {
            tracing::warn!(
                "an editor was not let in: too many, another user, or a command of this runner"
            );
            continue;
        }
        let setup = setup.clone();
        open.spawn(async move {
            let (reader, writer) = socket.into_split();
            let backlog = Arc::new(UpdateBacklog::default());
            let transport = open_line_transport(reader, writer, Arc::clone(&backlog));
            if let Err(error) = serve_agent(&setup, transport, Some(backlog)).await {
                tracing::info!(%error, "the connection of an editor ended");
            }
        });
    }
}

/// Returns whether the peer is a process of this user and not one of the runner's own commands: a connected editor is
/// asked for approvals.
fn is_trusted_peer(socket: &UnixStream) -> bool {
    let Ok(peer) = socket.peer_cred() else {
        return false;
    };
    peer.uid() == rustix::process::getuid().as_raw() && !is_command_process(peer.pid())
}

#[cfg(target_os = "linux")]
fn is_command_process(pid: Option<i32>) -> bool {
    let pid = pid.and_then(|pid| u32::try_from(pid).ok());
    // A process that has already ended is not trusted.
    pid.is_none_or(|pid| punie_host::local::limit_mark::may_be_command_process(pid).unwrap_or(true))
}

/// Returns false: commands cannot be recognised on this system.
#[cfg(not(target_os = "linux"))]
fn is_command_process(_pid: Option<i32>) -> bool {
    false
}

/// Connects to the runner, waiting for its socket: two windows of an editor may start at the same moment.
async fn connect_to_runner(home: &Home) -> io::Result<UnixStream> {
    let begun = Instant::now();
    loop {
        match UnixStream::connect(home.editor_socket()).await {
            Err(error) if begun.elapsed() >= CONNECT_TIMEOUT => return Err(error),
            Err(_) => tokio::time::sleep(CONNECT_INTERVAL).await,
            connected => return connected,
        }
    }
}

/// Connects an editor to the runner of this home until either side closes.
///
/// # Errors
/// The runner cannot be reached.
pub async fn relay_editor(
    home: &Home,
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
) -> anyhow::Result<()> {
    // A runner in the background stays up for it.
    let _presence = ClientPresence::announce(home)?;
    let socket = connect_to_runner(home).await?;
    let (mut reader, mut writer) = socket.into_split();
    let asking = async {
        copy(&mut from, &mut writer).await?;
        writer.shutdown().await
    };
    let answering = async {
        copy(&mut reader, &mut to).await?;
        to.flush().await
    };
    tokio::pin!(answering);
    tokio::select! {
        ended = &mut answering => ended?,
        _ = asking => { let _ = tokio::time::timeout(CLOSE_TIMEOUT, answering).await; }
    }
    Ok(())
}
