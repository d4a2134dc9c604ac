//! The client side of a connection: serves the client methods of this machine, or of a fake, to an agent at the other
//! end.

use std::future::Future;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::client_tools::ClientTools;
use super::protocol::{
    Agent, Client, ClientCapabilities, ConnectTo, ConnectionTo, CreateTerminalRequest, Error,
    Handled, Implementation, InitializeRequest, InitializeResponse, JsonRpcResponse,
    KillTerminalRequest, ProtocolVersion, ReadTextFileRequest, ReleaseTerminalRequest,
    RequestPermissionRequest, Responder, SessionNotification, TerminalOutputRequest,
    UntypedMessage, WaitForTerminalExitRequest, WriteTextFileRequest, on_receive_notification,
    on_receive_request,
};
use super::tool_catalog::{ToolCatalog, ToolDescriptor};

/// The extension method by which an agent asks for a client's own tools.
const DISCOVER: &str = "_punie/discover_tools";

/// Adds a handler for each of these requests, which answers with the client's method.
macro_rules! serve_requests {
    ($builder:expr, $served:ident; $($request:ty => $method:ident,)+) => {
        $builder$(.on_receive_request(
            {
                let served = $served.clone();
                async move |request: $request, responder: Responder<_>, _cx: ConnectionTo<Agent>| {
                    let client = Arc::clone(&served.client);
                    served.answer(responder, async move { client.$method(request).await });
                    Ok(())
                }
            },
            on_receive_request!(),
        ))+
    };
}

/// Serves the client methods over this transport while `foreground` runs, which gets the connection to the agent. Each
/// request is served in its own task, so that the connection never waits for an answer. Updates are passed on in order.
///
/// # Errors
/// The error of `foreground` or of the connection.
pub async fn serve_client<R>(
    client: Arc<dyn ClientTools>,
    transport: impl ConnectTo<Client> + 'static,
    foreground: impl AsyncFnOnce(ConnectionTo<Agent>) -> Result<R, Error>,
) -> Result<R, Error> {
    let served = ClientConnection::new(client);
    let _closing = served.over.clone().drop_guard();
    let [notified, requested, informed] = std::array::from_fn(|_| served.clone());
    serve_requests!(Client.v1().name("punie-client"), served;
        ReadTextFileRequest => read_text_file,
        WriteTextFileRequest => write_text_file,
        RequestPermissionRequest => request_permission,
        CreateTerminalRequest => create_terminal,
        TerminalOutputRequest => terminal_output,
        WaitForTerminalExitRequest => wait_for_terminal_exit,
        KillTerminalRequest => kill_terminal,
        ReleaseTerminalRequest => release_terminal,
    )
    .on_receive_notification(
        async move |update: SessionNotification, _cx: ConnectionTo<Agent>| {
            notified.queue_update(update);
            Ok(())
        },
        on_receive_notification!(),
    )
    // Last, because these match every remaining method.
    .on_receive_request(
        async move |message: UntypedMessage,
                    responder: Responder<Value>,
                    _cx: ConnectionTo<Agent>| {
            if !message.method.starts_with('_') {
                return Ok(Handled::No {
                    message: (message, responder),
                    retry: false,
                });
            }
            let client = Arc::clone(&requested.client);
            requested.answer(
                responder,
                async move { call_extension(&*client, message).await },
            );
            Ok(Handled::Yes)
        },
        on_receive_request!(),
    )
    .on_receive_notification(
        async move |message: UntypedMessage, cx: ConnectionTo<Agent>| {
            if !message.method.starts_with('_') {
                return Ok(Handled::No {
                    message: (message, cx),
                    retry: false,
                });
            }
            let client = Arc::clone(&informed.client);
            let UntypedMessage { method, params, .. } = message;
            informed.tasks.spawn(async move {
                if let Err(error) = client.ext_notification(method, params).await {
                    tracing::debug!(%error, "a notification was not understood");
                }
            });
            Ok(Handled::Yes)
        },
        on_receive_notification!(),
    )
    .connect_with(transport, foreground)
    .await
}

/// Initializes the connection: sends this client's capabilities to the agent, and tells the client the agent's name.
///
/// # Errors
/// Those of the connection, and the agent's.
pub async fn initialize_agent(
    client: &dyn ClientTools,
    agent: &ConnectionTo<Agent>,
    capabilities: ClientCapabilities,
) -> Result<InitializeResponse, Error> {
    let own = Implementation::new("punie-runner", env!("CARGO_PKG_VERSION"));
    let request = InitializeRequest::new(ProtocolVersion::V1)
        .client_capabilities(capabilities)
        .client_info(own);
    let answer = agent.send_request(request).block_task().await?;
    client.on_connect(
        answer
            .agent_info
            .clone()
            .unwrap_or_else(|| Implementation::new("unknown", "")),
    );
    Ok(answer)
}

/// The state that the handlers of one connection share.
#[derive(Clone)]
struct ClientConnection {
    client: Arc<dyn ClientTools>,
    tasks: TaskTracker,
    updates: mpsc::UnboundedSender<SessionNotification>,
    /// Cancelled when the connection has ended and answers are useless.
    over: CancellationToken,
}

impl ClientConnection {
    fn new(client: Arc<dyn ClientTools>) -> Self {
        let (updates, mut queue) = mpsc::unbounded_channel();
        let tasks = TaskTracker::new();
        let shown = Arc::clone(&client);
        tasks.spawn(async move {
            while let Some(update) = queue.recv().await {
                if let Err(error) = shown.session_update(update).await {
                    tracing::debug!(%error, "an update could not be shown");
                }
            }
        });
        Self {
            client,
            tasks,
            updates,
            over: CancellationToken::new(),
        }
    }

    fn queue_update(&self, update: SessionNotification) {
        if self.updates.send(update).is_err() {
            tracing::debug!("an update came after the end");
        }
    }

    /// Answers in a separate task, which ends early if the request is cancelled or the connection ends.
    fn answer<T: JsonRpcResponse + Send>(
        &self,
        responder: Responder<T>,
        served: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) {
        let over = self.over.clone();
        self.tasks.spawn(async move {
            let cancellation = responder.cancellation();
            let answer = tokio::select! {
                () = over.cancelled() => return,
                answer = cancellation.run_until_cancelled(served) => answer,
            };
            if let Err(error) = responder.respond_with_result(answer) {
                tracing::debug!(%error, "an answer could not be given");
            }
        });
    }
}

async fn call_extension(client: &dyn ClientTools, message: UntypedMessage) -> Result<Value, Error> {
    let UntypedMessage { method, params, .. } = message;
    if method != DISCOVER {
        return client.ext_method(method, params).await;
    }
    let session = params
        .get("sessionId")
        .or_else(|| params.get("session_id"))
        .and_then(Value::as_str);
    let session = session.ok_or_else(|| Error::invalid_params().data("sessionId is missing"))?;
    Ok(catalog_to_json(
        &client.discover_tools(session.to_owned().into()).await?,
    ))
}

fn catalog_to_json(catalog: &ToolCatalog) -> Value {
    let entry = |tool: &ToolDescriptor| {
        json!({
            "name": tool.name,
            "kind": tool.kind,
            "description": tool.description,
            "parameters": tool.parameters,
            "requires_permission": tool.requires_permission,
            "categories": tool.categories,
        })
    };
    json!({ "tools": catalog.descriptors().iter().map(entry).collect::<Vec<_>>() })
}
