//! The socket by which an `acp` that an editor launched reaches the runner that works with this home already. Only for
//! the same user: the folder is private, and whoever connects is looked at.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, copy};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::acp::agent::{AgentSetup, Backlog, lines, serve};
use crate::home::Home;

/// How many editors are served at once.
const MOST: usize = 32;
/// How long a runner that holds the home may take to open its door, and how often it is tried.
const PATIENCE: Duration = Duration::from_secs(5);
const BETWEEN: Duration = Duration::from_millis(50);
/// How long the runner has to close its end after the editor closed its own.
const FAREWELL: Duration = Duration::from_secs(5);

/// An open door, closed when it is dropped.
pub struct Door {
    _serving: Option<JoinSet<()>>,
}

impl Door {
    /// Opens it; whoever holds the lock of the home may. Without it the runner works as well.
    pub fn open(home: &Home, setup: &AgentSetup) -> Self {
        let listener = match listen(home) {
            Ok(listener) => listener,
            Err(error) => {
                tracing::warn!(%error, "editors cannot reach this runner");
                return Self { _serving: None };
            }
        };
        let mut serving = JoinSet::new();
        serving.spawn(admit(listener, setup.clone()));
        Self { _serving: Some(serving) }
    }
}

fn listen(home: &Home) -> io::Result<UnixListener> {
    let path = home.editor_socket();
    home.clear_editor_socket()?;
    UnixListener::bind(path)
}

async fn admit(listener: UnixListener, setup: AgentSetup) {
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
        if open.len() >= MOST || !is_ours(&socket) {
            tracing::warn!("an editor was not let in: too many, another user, or a command of this runner");
            continue;
        }
        let setup = setup.clone();
        open.spawn(async move {
            let (reader, writer) = socket.into_split();
            let backlog = Arc::new(Backlog::default());
            let transport = lines(reader, writer, Arc::clone(&backlog));
            if let Err(error) = serve(&setup, transport, Some(backlog)).await {
                tracing::info!(%error, "the connection of an editor ended");
            }
        });
    }
}

/// Whether somebody of this user is there, and none of the runner's own commands: whoever is let in here is asked what
/// may run.
fn is_ours(socket: &UnixStream) -> bool {
    let Ok(peer) = socket.peer_cred() else { return false };
    peer.uid() == rustix::process::getuid().as_raw() && !is_of_a_command(peer.pid())
}

#[cfg(target_os = "linux")]
fn is_of_a_command(pid: Option<i32>) -> bool {
    let pid = pid.and_then(|pid| u32::try_from(pid).ok());
    // Who has ended since is nobody to be asked.
    pid.is_none_or(|pid| crate::acp::local::limit_mark::is_of_a_command(pid).unwrap_or(true))
}

/// Nothing tells: commands carry no mark here.
#[cfg(not(target_os = "linux"))]
fn is_of_a_command(_pid: Option<i32>) -> bool {
    false
}

/// Connects to the runner, which may be about to open its door: two windows of an editor start at one moment.
async fn knock(home: &Home) -> io::Result<UnixStream> {
    let begun = Instant::now();
    loop {
        match UnixStream::connect(home.editor_socket()).await {
            Err(error) if begun.elapsed() >= PATIENCE => return Err(error),
            Err(_) => tokio::time::sleep(BETWEEN).await,
            connected => return connected,
        }
    }
}

/// Puts an editor through to the runner of this home until one of them closes.
///
/// # Errors
/// The runner cannot be reached.
pub async fn pass_through(
    home: &Home,
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
) -> anyhow::Result<()> {
    let socket = knock(home).await?;
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
        _ = asking => { let _ = tokio::time::timeout(FAREWELL, answering).await; }
    }
    Ok(())
}
