//! The runner as an agent that an editor launches: the protocol's agent side over a connection, whose one prompt opens
//! a turn for the backend's calls. Not here: what is shown in that turn and who serves the calls (`acp::editor`).

mod lines;
mod prompts;
mod seats;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::editor::{EditorSession, EditorSettings, Editors};
use super::protocol::{
    Agent, AgentCapabilities, CancelNotification, Client, ConnectTo, ConnectionTo, Error, Implementation,
    InitializeRequest, InitializeResponse, NewSessionRequest, PromptRequest, on_receive_notification,
    on_receive_request,
};

pub use lines::{Backlog, MOST_LINE, TOO_LONG, lines};
pub use prompts::Ask;
use seats::Seats;

/// What an asked host gives back.
pub type Hosted<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The program around the agent: the runner that it belongs to.
pub trait Host: Send + Sync + 'static {
    /// A session of this folder is opened: sees to it that calls come in.
    ///
    /// # Errors
    /// Why none will, in words for the person at the editor.
    fn open<'a>(&'a self, folder: &'a Path) -> Hosted<'a, Result<(), String>>;

    /// The tools of its own that this session's editor offers are to be found out; what is returned is kept for as
    /// long as the session is, and says in a line what came of it.
    fn welcome(&self, session: Arc<EditorSession>) -> Hosted<'_, (String, Box<dyn Send + Sync>)>;

    /// How the runner fares, in lines for the person at the editor.
    fn status(&self) -> Hosted<'_, String>;

    /// A path without links, if there is such a folder.
    fn folder(&self, path: &Path) -> Option<PathBuf>;
}

/// What every connection of an editor shares.
#[derive(Clone)]
pub struct AgentSetup {
    /// The sessions that are attached.
    pub editors: Editors,
    /// What the owner wants of editors.
    pub settings: EditorSettings,
    /// The program around it.
    pub host: Arc<dyn Host>,
    /// Cancelled when the runner stops.
    pub stopping: CancellationToken,
}

/// How a connection went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    /// A turn was open when it ended.
    pub was_attached: bool,
}

/// Serves one editor until its connection ends. Calls that are under way then go on by themselves.
///
/// # Errors
/// The transport's.
pub async fn serve(
    setup: &AgentSetup,
    transport: impl ConnectTo<Agent> + 'static,
    backlog: Option<Arc<Backlog>>,
) -> Result<Served, Error> {
    let tasks = TaskTracker::new();
    let seats = Arc::new(Seats::new(setup.clone(), tasks.clone(), backlog));
    let (introducing, opening, prompting, cancelling) =
        (Arc::clone(&seats), Arc::clone(&seats), Arc::clone(&seats), Arc::clone(&seats));
    // Handlers run on the loop that answers come in by: none of them waits for anything.
    let ended = Agent
        .v1()
        .name("punie-runner")
        .on_receive_request(
            async move |request: InitializeRequest, responder, _connection: ConnectionTo<Client>| {
                let version = request.protocol_version;
                introducing.introduce(request);
                let name =
                    Implementation::new("punie-runner", env!("CARGO_PKG_VERSION")).title("Punie".to_owned());
                responder.respond(
                    InitializeResponse::new(version)
                        .agent_capabilities(AgentCapabilities::new())
                        .agent_info(name),
                )
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: NewSessionRequest, responder, connection: ConnectionTo<Client>| {
                Arc::clone(&opening).open(&request, responder, connection)
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest, responder, _connection: ConnectionTo<Client>| {
                Arc::clone(&prompting).prompt(&request, responder)
            },
            on_receive_request!(),
        )
        .on_receive_notification(
            async move |notice: CancelNotification, _connection: ConnectionTo<Client>| {
                cancelling.cancel(&notice.session_id);
                Ok(())
            },
            on_receive_notification!(),
        )
        .connect_to(transport)
        .await;
    let was_attached = seats.leave();
    tasks.close();
    tasks.wait().await;
    ended.map(|()| Served { was_attached })
}
