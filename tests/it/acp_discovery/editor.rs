//! A small editor at the other end of a connection in this process: it gives prepared answers and records the requests
//! that it receives.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use punie_core::ids::RequestId;
use punie_editor::protocol::{
    Agent, Channel, Client, ClientCapabilities, ConnectionTo, Error, InitializeRequest,
    InitializeResponse, ProtocolVersion, Responder, SessionId, SessionNotification, UntypedMessage,
    on_receive_notification, on_receive_request,
};
use punie_editor::{AttachedEditors, EditorClient, EditorSession, EditorSettings};
use punie_tool::request::ToolReply;
use punie_tool::{CallObserver as _, CallView, ObservedCall, ToolContext, ToolError, ToolRegistry};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::harness::whole::{AllTools, all_tools};

/// An editor's reaction to a method.
#[derive(Clone)]
pub enum EditorReply {
    This(Value),
    Fails(Error),
    /// No answer; the editor waits until the request is cancelled.
    Nothing,
}

/// The requests that an editor received, and the methods of those that were cancelled.
#[derive(Default)]
pub struct EditorLog {
    asked: Mutex<Vec<(String, Value)>>,
    given_up: Mutex<Vec<String>>,
}

impl EditorLog {
    /// Returns the parameters of the requests with this method.
    pub fn asked(&self, method: &str) -> Vec<Value> {
        self.asked
            .lock()
            .iter()
            .filter(|(name, _)| name == method)
            .map(|(_, params)| params.clone())
            .collect()
    }

    /// Returns the methods of all requests, in order.
    pub fn methods(&self) -> Vec<String> {
        self.asked
            .lock()
            .iter()
            .map(|(name, _)| name.clone())
            .collect()
    }

    pub fn given_up(&self) -> Vec<String> {
        self.given_up.lock().clone()
    }
}

/// A connected editor.
pub struct ConnectedEditor {
    pub session: Arc<EditorSession>,
    pub log: Arc<EditorLog>,
    tasks: JoinSet<()>,
}

/// The tools of a device, and the editors attached to it.
pub struct DeviceTools {
    pub whole: AllTools,
    pub editors: AttachedEditors,
}

/// Returns the capability with which an editor announces that it can be asked for its tools.
pub fn discovery_capability() -> Value {
    json!({ "_meta": { "punie": { "discoverTools": true } } })
}

pub const DISCOVER: &str = "_punie/discover_tools";

/// Connects an editor with these capabilities and answers.
pub async fn connect_editor(
    id: &str,
    capabilities: Value,
    says: &[(&str, EditorReply)],
) -> ConnectedEditor {
    connect_with(id, capabilities, says, EditorSettings::default()).await
}

/// The same, with the owner's settings.
pub async fn connect_with(
    id: &str,
    capabilities: Value,
    says: &[(&str, EditorReply)],
    settings: EditorSettings,
) -> ConnectedEditor {
    let (agent_end, client_end) = Channel::duplex();
    let mut tasks = JoinSet::new();
    let (met, meeting) = oneshot::channel();
    let met = Mutex::new(Some(met));
    let agent = Agent.v1().on_receive_request(
        async move |hello: InitializeRequest, responder, connection: ConnectionTo<Client>| {
            if let Some(met) = met.lock().take() {
                let _ = met.send((connection, hello.client_capabilities));
            }
            responder.respond(InitializeResponse::new(hello.protocol_version))
        },
        on_receive_request!(),
    );
    tasks.spawn(async move {
        let _ = agent.connect_to(agent_end).await;
    });
    let capabilities: ClientCapabilities =
        serde_json::from_value(capabilities).expect("capabilities");
    let log = Arc::new(EditorLog::default());
    tasks.spawn(serve_editor(
        client_end,
        capabilities,
        Arc::clone(&log),
        says,
    ));
    let (connection, capabilities) = meeting.await.expect("the editor sent `initialize`");
    let client = EditorClient::new(connection, capabilities.clone(), settings.timeout, None);
    let session = EditorSession::new(
        SessionId::from(id.to_owned()),
        format!("Pad {id}"),
        Arc::new(client),
        capabilities,
        Vec::new(),
        settings,
    );
    ConnectedEditor {
        session: Arc::new(session),
        log,
        tasks,
    }
}

/// Serves the editor's end of the connection.
fn serve_editor(
    end: Channel,
    capabilities: ClientCapabilities,
    log: Arc<EditorLog>,
    says: &[(&str, EditorReply)],
) -> impl Future<Output = ()> + Send + 'static {
    let says: HashMap<String, EditorReply> = says
        .iter()
        .map(|(name, says)| ((*name).to_owned(), says.clone()))
        .collect();
    let (waiting, mut waiters) = mpsc::unbounded_channel::<(String, Responder<Value>)>();
    let heard = Arc::clone(&log);
    let client = Client
        .v1()
        .on_receive_notification(
            async |_: SessionNotification, _| Ok(()),
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |asked: UntypedMessage, responder: Responder<Value>, _| {
                heard
                    .asked
                    .lock()
                    .push((asked.method.clone(), asked.params.clone()));
                match says.get(&asked.method) {
                    Some(EditorReply::This(value)) => responder.respond(value.clone()),
                    Some(EditorReply::Fails(error)) => responder.respond_with_error(error.clone()),
                    Some(EditorReply::Nothing) => {
                        let _ = waiting.send((asked.method, responder));
                        Ok(())
                    }
                    None => responder.respond_with_error(Error::method_not_found()),
                }
            },
            on_receive_request!(),
        );
    async move {
        let living = client.connect_with(end, async |connection: ConnectionTo<Agent>| {
            let hello =
                InitializeRequest::new(ProtocolVersion::V1).client_capabilities(capabilities);
            connection.send_request(hello).block_task().await?;
            // The request handler holds the sender, so this loop runs until the connection ends.
            while let Some((method, responder)) = waiters.recv().await {
                responder.cancellation().cancelled().await;
                log.given_up.lock().push(method);
            }
            Ok(())
        });
        let _ = living.await;
    }
}

impl ConnectedEditor {
    /// Disconnects the editor.
    pub async fn leave(&mut self) {
        self.tasks.shutdown().await;
    }
}

impl DeviceTools {
    pub fn new() -> Self {
        Self {
            whole: all_tools(),
            editors: AttachedEditors::default(),
        }
    }

    pub fn registry(&self) -> &ToolRegistry {
        &self.whole.registry
    }

    /// Calls a tool as the engine does: decodes the arguments, shows the call in its turn, and runs it.
    pub async fn call(&self, tool: &str, args: Value) -> Result<ToolReply, ToolError> {
        self.call_with(tool, args, ToolContext::for_detached_call(RequestId::new()))
            .await
    }

    pub async fn call_with(
        &self,
        tool: &str,
        args: Value,
        cx: ToolContext,
    ) -> Result<ToolReply, ToolError> {
        let entry = self.registry().find(tool)?;
        let ready = entry.decode_call(&args.to_string())?;
        let _followed = self.follow(tool, &cx, &args);
        ready.run_call(cx).await
    }

    /// Shows a call in the turn that it belongs to, if there is one.
    pub fn follow(
        &self,
        tool: &str,
        cx: &ToolContext,
        args: &Value,
    ) -> Option<Arc<dyn ObservedCall>> {
        let entry = self.registry().find(tool).ok()?;
        let request = &cx.request;
        let conversation = &cx.conversation;
        let effect = entry.tool_spec().effect;
        self.editors.observe_call(CallView {
            of_task: false,
            request,
            conversation,
            tool: entry.tool_spec(),
            effect,
            args,
            description: &self.registry().describe_call(tool, args),
        })
    }
}

/// Returns a descriptor with the required fields.
pub fn tool_description(name: &str, kind: &str) -> Value {
    json!({
        "name": name,
        "kind": kind,
        "description": format!("Does {name}."),
        "parameters": {
            "type": "object",
            "properties": {"symbol": {"type": "string"}},
            "required": ["symbol"],
            "additionalProperties": false,
        },
    })
}

/// Returns the answer of an editor that offers these tools.
pub fn tool_listing(tools: &[Value]) -> (&'static str, EditorReply) {
    (DISCOVER, EditorReply::This(json!({ "tools": tools })))
}
