//! The runner as an ACP agent that an editor launches. Its one useful prompt opens a turn for the backend's calls.

mod agent_session;
mod line_transport;
mod prompts;
mod session_setup;
mod sessions;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::protocol::{
    Agent, AgentCapabilities, CancelNotification, Client, ConnectTo, ConnectionTo, Error, Handled,
    Implementation, InitializeRequest, InitializeResponse, LoadSessionRequest, NewSessionRequest,
    PromptRequest, Responder, UntypedMessage, on_receive_notification, on_receive_request,
};
use super::{AttachedEditors, EditorSession, EditorSettings};
use punie_home::ThreadStore;

use line_transport::TOO_LONG_METHOD;
pub use line_transport::{MAX_LINE_BYTES, TOO_LONG_ERROR, UpdateBacklog, open_line_transport};
pub use prompts::PromptCommand;
use sessions::AgentSessions;

/// The future of a method of the agent's host.
pub type HostFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The program that runs the agent: the runner.
pub trait AgentHost: Send + Sync + 'static {
    /// Makes the runner take calls for a session that was opened in this folder.
    ///
    /// # Errors
    /// The reason why no calls will come in, written for the person at the editor.
    fn start_receiving<'a>(&'a self, folder: &'a Path) -> HostFuture<'a, Result<(), String>>;

    /// Discovers the tools that this session's editor offers. Returns a summary line, and a value that is held as long
    /// as the session exists.
    fn discover_session_tools(
        &self,
        session: Arc<EditorSession>,
    ) -> HostFuture<'_, (String, Box<dyn Send + Sync>)>;

    /// Describes the runner's state, in lines for the person at the editor.
    fn describe_runner(&self) -> HostFuture<'_, String>;

    /// Returns the store of threads, or `None` where threads are not stored.
    fn threads(&self) -> Option<ThreadStore> {
        None
    }

    /// Resolves a path to a folder without symlinks, if there is such a folder.
    fn resolve_folder(&self, path: &Path) -> Option<PathBuf>;
}

/// The settings and handles that all connections of an editor share.
#[derive(Clone)]
pub struct AgentSetup {
    /// The sessions that are attached.
    pub editors: AttachedEditors,
    /// The owner's settings for editors.
    pub settings: EditorSettings,
    /// The program that runs the agent.
    pub host: Arc<dyn AgentHost>,
    /// Cancelled when the runner stops.
    pub stopping: CancellationToken,
}

/// The result of a connection that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServedConnection {
    /// A turn was open when the connection ended.
    pub was_attached: bool,
}

/// Serves one editor until its connection ends. Calls that are running then continue on their own.
///
/// # Errors
/// The transport's error.
pub async fn serve_agent(
    setup: &AgentSetup,
    transport: impl ConnectTo<Agent> + 'static,
    backlog: Option<Arc<UpdateBacklog>>,
) -> Result<ServedConnection, Error> {
    let tasks = TaskTracker::new();
    let sessions = Arc::new(AgentSessions::new(setup.clone(), tasks.clone(), backlog));
    let [introducing, opening, loading, prompting, cancelling] =
        std::array::from_fn(|_| Arc::clone(&sessions));
    // Handlers run on the loop that receives answers, so none of them may wait.
    let ended = Agent
        .v1()
        .name("punie-runner")
        .on_receive_request(
            async move |request: InitializeRequest, responder, _cx: ConnectionTo<Client>| {
                let answer = introduce_agent(&request);
                introducing.record_editor(request);
                responder.respond(answer)
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: NewSessionRequest, responder, connection: ConnectionTo<Client>| {
                Arc::clone(&opening).open_new(&request, responder, connection)
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: LoadSessionRequest,
                        responder,
                        connection: ConnectionTo<Client>| {
                Arc::clone(&loading).load(&request, responder, connection)
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest, responder, _connection: ConnectionTo<Client>| {
                Arc::clone(&prompting).handle_prompt(&request, responder)
            },
            on_receive_request!(),
        )
        .on_receive_notification(
            async move |notice: CancelNotification, _connection: ConnectionTo<Client>| {
                cancelling.cancel_prompt(&notice.session_id);
                Ok(())
            },
            on_receive_notification!(),
        )
        // Last, because it matches every remaining method.
        .on_receive_request(
            async move |message: UntypedMessage,
                        responder: Responder<serde_json::Value>,
                        _cx: ConnectionTo<Client>| {
                if message.method != TOO_LONG_METHOD {
                    return Ok(Handled::No {
                        message: (message, responder),
                        retry: false,
                    });
                }
                responder.respond_with_error(too_long_error())?;
                Ok(Handled::Yes)
            },
            on_receive_request!(),
        )
        .connect_to(transport)
        .await;
    let was_attached = sessions.close_connection();
    tasks.close();
    tasks.wait().await;
    ended.map(|()| ServedConnection { was_attached })
}

/// Builds the answer to the editor's introduction.
fn introduce_agent(request: &InitializeRequest) -> InitializeResponse {
    let name =
        Implementation::new("punie-runner", env!("CARGO_PKG_VERSION")).title("Punie".to_owned());
    InitializeResponse::new(request.protocol_version)
        .agent_capabilities(AgentCapabilities::new().load_session(true))
        .agent_info(name)
}

/// Builds the error for a request that is longer than a line may be.
fn too_long_error() -> Error {
    let text = format!(
        "the request is longer than {} MiB and was not read",
        MAX_LINE_BYTES >> 20
    );
    Error::new(TOO_LONG_ERROR, text)
}
