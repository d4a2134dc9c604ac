//! An editor that answers over a real connection in this process: the fake editor at one end, the agent at the other.

use super::*;
use punie_editor::EditorClient;
use punie_editor::protocol::{
    Agent, Channel, Client, ConnectionTo, CreateTerminalRequest, Error, InitializeRequest,
    InitializeResponse, JsonRpcResponse, KillTerminalRequest, ProtocolVersion, ReadTextFileRequest,
    ReleaseTerminalRequest, Responder, SessionNotification, UntypedMessage,
    WaitForTerminalExitRequest, WriteTextFileRequest, on_receive_notification, on_receive_request,
};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// An editor that is served in the background, and the agent's end of the connection to it.
pub(super) struct ServedClient {
    pub(super) agent: ConnectionTo<Client>,
    /// Dropping this closes the editor.
    pub(super) hang_up: Option<oneshot::Sender<()>>,
    /// Both ends of the connection.
    pub(super) running: JoinSet<()>,
}

impl ServedClient {
    /// Connects both ends and introduces the editor to the agent.
    pub(super) async fn connect(fake: &Arc<FakeClient>) -> Self {
        let (editor_end, agent_end) = Channel::duplex();
        let mut running = JoinSet::new();
        let (hang_up, cut) = oneshot::channel();
        let (introduced, introduction) = oneshot::channel();
        running.spawn(serve_client(Arc::clone(fake), editor_end, introduced, cut));
        let (connected, connection) = oneshot::channel();
        running.spawn(async move {
            let agent = Agent.v1().on_receive_request(
                async move |request: InitializeRequest,
                            responder: Responder<InitializeResponse>,
                            _cx: ConnectionTo<Client>| {
                    responder.respond(InitializeResponse::new(request.protocol_version))
                },
                on_receive_request!(),
            );
            let ended = agent.connect_with(agent_end, async move |cx: ConnectionTo<Client>| {
                let _ = connected.send(cx.clone());
                cx.incoming_closed().await;
                Ok(())
            });
            drop(ended.await);
        });
        let agent = connection.await.expect("a connection");
        introduction.await.expect("an introduction");
        Self {
            agent,
            hang_up: Some(hang_up),
            running,
        }
    }

    /// The editor as the runner sees it.
    pub(super) fn editor(&self) -> EditorClient {
        EditorClient::new(
            self.agent.clone(),
            client_capabilities(true, true, true),
            Duration::from_mins(1),
            None,
        )
    }
}

/// Adds a handler for each of these requests, which answers with the method of the fake editor.
macro_rules! serve_requests {
    ($builder:expr, $served:ident; $($request:ty => $method:ident,)+) => {
        $builder$(.on_receive_request(
            {
                let served = $served.clone();
                async move |request: $request, responder: Responder<_>, _cx: ConnectionTo<Agent>| {
                    let fake = Arc::clone(&served.fake);
                    served.answer(responder, async move { fake.$method(request).await });
                    Ok(())
                }
            },
            on_receive_request!(),
        ))+
    };
}

/// Serves the fake editor's methods at this end of a connection, until the test hangs up.
async fn serve_client(
    fake: Arc<FakeClient>,
    end: Channel,
    introduced: oneshot::Sender<()>,
    cut: oneshot::Receiver<()>,
) {
    let served = ClientConnection {
        fake,
        tasks: TaskTracker::new(),
        over: CancellationToken::new(),
    };
    let _closing = served.over.clone().drop_guard();
    let updated = served.clone();
    let extended = served.clone();
    let client = serve_requests!(Client.v1(), served;
        ReadTextFileRequest => read_text_file,
        WriteTextFileRequest => write_text_file,
        CreateTerminalRequest => create_terminal,
        WaitForTerminalExitRequest => wait_for_terminal_exit,
        KillTerminalRequest => kill_terminal,
        ReleaseTerminalRequest => release_terminal,
    )
    .on_receive_notification(
        async move |update: SessionNotification, _cx: ConnectionTo<Agent>| {
            updated.fake.record_update(update);
            Ok(())
        },
        on_receive_notification!(),
    )
    // Last, because it matches every remaining method.
    .on_receive_request(
        async move |message: UntypedMessage,
                    responder: Responder<Value>,
                    _cx: ConnectionTo<Agent>| {
            let fake = Arc::clone(&extended.fake);
            let UntypedMessage { method, params, .. } = message;
            extended.answer(
                responder,
                async move { fake.ext_method(method, params).await },
            );
            Ok(())
        },
        on_receive_request!(),
    );
    let living = client.connect_with(end, async move |agent: ConnectionTo<Agent>| {
        let hello = InitializeRequest::new(ProtocolVersion::V1)
            .client_capabilities(client_capabilities(true, true, true));
        agent.send_request(hello).block_task().await?;
        let _ = introduced.send(());
        let _ = cut.await;
        Ok(())
    });
    drop(living.await);
}

/// The state that the handlers of one connection share.
#[derive(Clone)]
struct ClientConnection {
    fake: Arc<FakeClient>,
    tasks: TaskTracker,
    /// Cancelled when the connection has ended and answers are useless.
    over: CancellationToken,
}

impl ClientConnection {
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
            // The agent may be gone.
            let _ = responder.respond_with_result(answer);
        });
    }
}
