//! The runner as an agent that an editor launches: the protocol's agent side over a connection, whose one prompt opens
//! a turn for the backend's calls. Not here: what is shown in that turn and who serves the calls (`acp::editor`).

mod lines;
mod opening;
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
    Agent, AgentCapabilities, CancelNotification, Client, ConnectTo, ConnectionTo, Error, Handled,
    Implementation, InitializeRequest, InitializeResponse, LoadSessionRequest, NewSessionRequest,
    PromptRequest, Responder, UntypedMessage, on_receive_notification, on_receive_request,
};
use crate::home::Threads;

use lines::TOO_LONG_REQUEST;
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

    /// Where it is stored what threads have shown; none where that is not stored.
    fn threads(&self) -> Option<Threads> {
        None
    }

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
    let [introducing, opening, loading, prompting, cancelling] = std::array::from_fn(|_| Arc::clone(&seats));
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
                        .agent_capabilities(AgentCapabilities::new().load_session(true))
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
            async move |request: LoadSessionRequest, responder, connection: ConnectionTo<Client>| {
                Arc::clone(&loading).load(&request, responder, connection)
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
        // What has another name comes last: this would take everything.
        .on_receive_request(
            async move |message: UntypedMessage,
                        responder: Responder<serde_json::Value>,
                        _cx: ConnectionTo<Client>| {
                if message.method != TOO_LONG_REQUEST {
                    return Ok(Handled::No { message: (message, responder), retry: false });
                }
                let text = format!("the request is longer than {} MiB and was not read", MOST_LINE >> 20);
                responder.respond_with_error(Error::new(TOO_LONG, text))?;
                Ok(Handled::Yes)
            },
            on_receive_request!(),
        )
        .connect_to(transport)
        .await;
    let was_attached = seats.leave();
    tasks.close();
    tasks.wait().await;
    ended.map(|()| Served { was_attached })
}
