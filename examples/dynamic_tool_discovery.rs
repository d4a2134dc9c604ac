//! An editor that offers tools of its own, and the agent that finds and calls them: step by step, in one process.
//!
//! `cargo test --test dynamic_tool_discovery`
//!
//! The editor is a client of the protocol's official crate over an in-process channel, the agent is the one that
//! `punie-runner acp` is. No backend is needed: this program itself asks for the calls, as the runner's engine would.
#![expect(clippy::print_stdout, reason = "what it prints is what it is for")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, bail, ensure};
use punie_core::ids::RequestId;
use punie_editor::agent::{self, AgentHost, AgentSetup, HostFuture};
use punie_editor::protocol::{
    Agent, CancelNotification, Channel, Client, ClientCapabilities, ConnectionTo, ContentBlock,
    Error, Implementation, InitializeRequest, NewSessionRequest, PermissionOptionKind,
    PromptRequest, ProtocolVersion, RequestPermissionOutcome, RequestPermissionRequest,
    RequestPermissionResponse, Responder, SelectedPermissionOutcome, SessionNotification,
    SessionUpdate, ToolCallStatus, UntypedMessage, on_receive_notification, on_receive_request,
};
use punie_editor::{
    AttachedEditors, EditorSession, EditorSettings, EditorToolDiscovery, discover_editor_tools,
};
use punie_tool::request::ReplyBody;
use punie_tool::{CallEnding, CallObserver as _, CallView, ToolContext, ToolRegistry};
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// What was found, in words, and the names of the editor's own tools.
type Found = (String, Vec<String>);

/// The file that is open in the editor.
const SOURCE: &str = "def greet(name):\n    return name\n\nprint(greet('a'))\nprint(greet('b'))\n";

#[tokio::main]
async fn main() -> Result<()> {
    let (agent_end, editor_end) = Channel::duplex();
    let (registry, editors) = (
        Arc::new(ToolRegistry::new([Vec::new()])?),
        AttachedEditors::default(),
    );
    let (told, discovered) = oneshot::channel();
    let host = Around {
        registry: Arc::clone(&registry),
        editors: editors.clone(),
        told: Mutex::new(Some(told)),
    };
    let setup = AgentSetup {
        editors: editors.clone(),
        settings: EditorSettings::default(),
        host: Arc::new(host),
        stopping: CancellationToken::new(),
    };
    let mut agents = JoinSet::new();
    agents.spawn(async move {
        agent::serve_agent(&setup, agent_end, None)
            .await
            .map(|_served| ())
    });

    let source = Arc::new(Mutex::new(SOURCE.to_owned()));
    let ended = watch::Sender::new(0);
    let device = Device {
        registry: Arc::clone(&registry),
        editors,
        ended: ended.subscribe(),
    };
    edit(
        editor_end,
        Arc::clone(&source),
        ended,
        async move |connection| {
            tour(&connection, &device, discovered)
                .await
                .map_err(|error| Error::internal_error().data(json!(format!("{error:#}"))))
        },
    )
    .await
    .map_err(|error| anyhow::anyhow!("{error}"))?;
    let after = source
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    ensure!(
        after.matches("welcome").count() == 3 && !after.contains("greet"),
        "not renamed: {after}"
    );

    agents.join_next().await.context("the agent ran")???;
    step(9, "The editor is closed, and its tools are gone");
    ensure!(
        registry.callable_entries().is_empty(),
        "its tools are still there"
    );
    let gone = registry.find("ide_find_references").map(drop);
    println!(
        "   {}",
        gone.err().context("it is still there")?.model_text()
    );
    Ok(())
}

fn step(number: u8, what: &str) {
    println!("\n{number}. {what}");
}

/// What happens, from the editor's start to its end.
#[expect(clippy::too_many_lines, reason = "a tour, step after step")]
async fn tour(
    connection: &ConnectionTo<Agent>,
    device: &Device,
    discovered: oneshot::Receiver<Found>,
) -> Result<()> {
    step(
        1,
        "The editor introduces itself and announces that it can be asked for its tools",
    );
    let capabilities: ClientCapabilities =
        serde_json::from_value(json!({ "_meta": { "punie": { "discoverTools": true } } }))?;
    let hello = InitializeRequest::new(ProtocolVersion::V1)
        .client_capabilities(capabilities)
        .client_info(Implementation::new("Tiny Editor", "1.0"));
    connection.send_request(hello).block_task().await?;

    step(2, "It opens a session, and the agent asks it for its tools");
    let folder = std::path::absolute(".")?;
    let session = connection
        .send_request(NewSessionRequest::new(folder))
        .block_task()
        .await?
        .session_id;
    let (found, names) = discovered.await?;

    step(3, "What the agent found");
    found.lines().for_each(|line| println!("   {line}"));
    ensure!(
        names == ["ide_rename_symbol", "ide_find_references"],
        "found {names:?}"
    );

    step(4, "What a caller at the backend sees of it in the catalog");
    for entry in device.registry.callable_entries() {
        let body = entry.tool_spec().catalog_body();
        println!(
            "   {} (kind {}, effect {}, permission {}, origin {:?})",
            entry.tool_spec().name,
            body["kind"],
            body["effect"],
            body["requires_permission"],
            body["origin"].as_str().unwrap_or_default()
        );
    }

    step(
        5,
        "A call before the person has attached the session does not reach the editor",
    );
    let find = json!({ "symbol": "greet" });
    println!(
        "   {}",
        device
            .call("ide_find_references", &find)
            .await?
            .err()
            .context("it was run")?
    );

    let prompt = PromptRequest::new(
        session.clone(),
        vec![ContentBlock::from("attach".to_owned())],
    );
    let attached = connection.send_request(prompt);
    let mut open = device.editors.subscribe_open_turns();
    open.wait_for(|turns| *turns == 1).await?;

    step(6, "Attached: a search, which nobody is asked about");
    println!(
        "   {}",
        device
            .call("ide_find_references", &find)
            .await?
            .map_err(anyhow::Error::msg)?
    );

    step(
        7,
        "A rename with arguments that do not fit is refused before anybody is asked",
    );
    let wrong = device
        .call("ide_rename_symbol", &json!({ "symbol": "greet" }))
        .await?;
    println!("   {}", wrong.err().context("it was run")?);

    step(
        8,
        "The rename itself: the person is asked, and the editor does it",
    );
    let rename = json!({ "symbol": "greet", "new_name": "welcome" });
    println!(
        "   {}",
        device
            .call("ide_rename_symbol", &rename)
            .await?
            .map_err(anyhow::Error::msg)?
    );

    connection.send_notification(CancelNotification::new(session))?;
    let ended = attached.block_task().await?;
    println!(
        "\n   The person detached the session: {:?}.",
        ended.stop_reason
    );
    Ok(())
}

/// The program around the agent.
struct Around {
    registry: Arc<ToolRegistry>,
    editors: AttachedEditors,
    told: Mutex<Option<oneshot::Sender<Found>>>,
}

impl AgentHost for Around {
    fn start_receiving<'a>(&'a self, _folder: &'a Path) -> HostFuture<'a, Result<(), String>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn discover_session_tools(
        &self,
        session: Arc<EditorSession>,
    ) -> HostFuture<'_, (String, Box<dyn Send + Sync>)> {
        Box::pin(async move {
            let found: EditorToolDiscovery =
                discover_editor_tools(&session, &self.registry, &self.editors).await;
            if let Some(told) = self
                .told
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take()
            {
                let _ = told.send((found.to_string(), found.own.clone()));
            }
            (found.to_string(), Box::new(found) as Box<dyn Send + Sync>)
        })
    }

    fn describe_runner(&self) -> HostFuture<'_, String> {
        Box::pin(std::future::ready("There is no runner here.".to_owned()))
    }

    fn resolve_folder(&self, path: &Path) -> Option<PathBuf> {
        Some(path.to_owned())
    }
}

/// The runner's part: what its engine does for each request, without journal and backend.
struct Device {
    registry: Arc<ToolRegistry>,
    editors: AttachedEditors,
    /// How many calls the editor has shown to their end.
    ended: watch::Receiver<usize>,
}

impl Device {
    /// Decodes a call, shows it, asks about it where the editor's settings want that, and runs it. What the model would
    /// read.
    async fn call(&self, tool: &str, args: &Value) -> Result<Result<String, String>> {
        println!("   > {tool} {args}");
        let cx = ToolContext::for_detached_call(RequestId::new());
        let entry = self.registry.find(tool)?;
        let ready = match entry.decode_call(&args.to_string()) {
            Ok(ready) => ready,
            Err(refused) => return Ok(Err(refused.to_string())),
        };
        let observed = self.editors.observe_call(CallView {
            request: &cx.request,
            conversation: &cx.conversation,
            tool: entry.tool_spec(),
            effect: ready.actual_effect(),
            of_task: false,
            args,
            description: &self.registry.describe_call(tool, args),
        });
        if let Some(observed) = observed
            .as_ref()
            .filter(|observed| observed.wants_approval())
        {
            let verdict = observed.ask_follower().await;
            if !verdict.allowed {
                bail!("{} said no", verdict.by);
            }
        }
        if let Some(observed) = &observed {
            observed.on_started();
        }
        let answer = match ready.run_call(cx).await {
            Ok(reply) => match reply.body {
                ReplyBody::Text(text) | ReplyBody::Fitted(text) => Ok(text),
                ReplyBody::Json(value) => Ok(value.to_string()),
            },
            Err(error) => Err(error.to_string()),
        };
        if let Some(observed) = &observed {
            let payload = match &answer {
                Ok(text) => json!({ "toolName": tool, "result": text }),
                Err(text) => json!({ "toolName": tool, "error": text }),
            };
            let mut shown = self.ended.clone();
            let before = *shown.borrow();
            observed.on_ended(CallEnding {
                ok: answer.is_ok(),
                payload: &payload.to_string(),
            });
            // Only so that what is printed here stays in order.
            shown.wait_for(|count| *count > before).await?;
        }
        Ok(answer)
    }
}

/// The tools that the editor offers.
fn offered() -> Value {
    let symbol = json!({ "type": "string", "description": "The symbol's name." });
    json!({ "tools": [
        {
            "name": "ide_rename_symbol",
            "kind": "edit",
            "description": "Renames a symbol everywhere in the project.",
            "parameters": {
                "type": "object",
                "properties": { "symbol": symbol, "new_name": { "type": "string" } },
                "required": ["symbol", "new_name"],
                "additionalProperties": false,
            },
            "requires_permission": true,
            "categories": ["refactoring"],
        },
        {
            "name": "ide_find_references",
            "kind": "search",
            "description": "Lists the lines that use a symbol.",
            "parameters": { "type": "object", "properties": { "symbol": symbol }, "required": ["symbol"] },
            "categories": ["navigation"],
        },
    ] })
}

/// The editor: serves the agent's requests while `doing` goes on.
async fn edit(
    end: Channel,
    source: Arc<Mutex<String>>,
    ended: watch::Sender<usize>,
    doing: impl AsyncFnOnce(ConnectionTo<Agent>) -> std::result::Result<(), Error>,
) -> std::result::Result<(), Error> {
    Client
        .v1()
        .name("tiny-editor")
        .on_receive_notification(
            async move |told: SessionNotification, _: ConnectionTo<Agent>| {
                if show(&told.update) {
                    ended.send_modify(|count| *count += 1);
                }
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async |asked: RequestPermissionRequest, responder, _: ConnectionTo<Agent>| {
                println!("   editor: may it run? Its person says yes, this once.");
                let yes = asked
                    .options
                    .iter()
                    .find(|option| option.kind == PermissionOptionKind::AllowOnce);
                let outcome = yes.map_or(RequestPermissionOutcome::Cancelled, |option| {
                    let chosen = SelectedPermissionOutcome::new(option.option_id.clone());
                    RequestPermissionOutcome::Selected(chosen)
                });
                responder.respond(RequestPermissionResponse::new(outcome))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |asked: UntypedMessage,
                        responder: Responder<Value>,
                        _: ConnectionTo<Agent>| {
                println!("   editor: is asked {} {}", asked.method, asked.params);
                let mut source = source.lock().unwrap_or_else(PoisonError::into_inner);
                responder.respond_with_result(answer(
                    &asked.method,
                    &asked.params["args"],
                    &mut source,
                ))
            },
            on_receive_request!(),
        )
        .connect_with(end, doing)
        .await
}

/// What the editor's own tools do.
fn answer(method: &str, args: &Value, source: &mut String) -> std::result::Result<Value, Error> {
    let symbol = args["symbol"].as_str().unwrap_or_default();
    match method {
        "_punie/discover_tools" => Ok(offered()),
        "_ide_find_references" => {
            let lines = source
                .lines()
                .enumerate()
                .filter(|(_, line)| line.contains(symbol));
            let found: Vec<String> = lines
                .map(|(at, line)| format!("main.py:{}: {line}", at + 1))
                .collect();
            Ok(json!(found))
        }
        "_ide_rename_symbol" => {
            let places = source.matches(symbol).count();
            *source = source.replace(symbol, args["new_name"].as_str().unwrap_or_default());
            Ok(json!(format!("Renamed {places} places in main.py.")))
        }
        _ => Err(Error::method_not_found()),
    }
}

/// What the editor's person sees; whether it is the end of a call.
fn show(update: &SessionUpdate) -> bool {
    match update {
        SessionUpdate::ToolCall(call) => println!("   editor: shows the call {:?}", call.title),
        SessionUpdate::ToolCallUpdate(update) => {
            if let Some(status) = &update.fields.status {
                println!(
                    "   editor: the call is {}",
                    json!(status).as_str().unwrap_or_default()
                );
                return matches!(status, ToolCallStatus::Completed | ToolCallStatus::Failed);
            }
        }
        SessionUpdate::AgentMessageChunk(chunk) => {
            if let ContentBlock::Text(text) = &chunk.content {
                println!("   editor: the agent says {:?}", text.text.trim());
            }
        }
        _ => {}
    }
    false
}
