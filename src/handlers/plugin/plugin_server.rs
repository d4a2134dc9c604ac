//! The server of one plugin: started at the first call, used for one call at a time, and ended when it is idle.

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex as SyncMutex;
use tokio::sync::{Mutex, Notify, OwnedMutexGuard};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::PluginDeps;
use super::mcp::{ListedTool, McpFailure, McpServer, ToolListChanged};
use super::secret_values::resolve_values;
use punie_core::ids::RequestId;
use punie_home::{Plugin, command_to_type};
use punie_host::find_workspace_fault;
use punie_host::local::service_launch::{ServiceHosts, ServiceLaunch, WorkspaceAccess};
use punie_host::network_proxy::NetworkCaller;
use punie_tool::ToolError;

/// The time without calls after which a server is ended.
const IDLE_TIME: Duration = Duration::from_mins(5);
/// A server that failed so often within this time is not started again.
const MAX_FAILURES: usize = 5;
const FAILURE_WINDOW: Duration = Duration::from_mins(10);

pub(super) struct PluginServer {
    deps: PluginDeps,
    plugin: Plugin,
    changed: Arc<ChangedLists>,
    slot: Arc<Mutex<ServerSlot>>,
    idle: SyncMutex<JoinSet<()>>,
}

/// The servers whose lists of tools have to be read again, by the ids of their plugins.
#[derive(Default)]
pub(super) struct ChangedLists {
    ids: SyncMutex<BTreeSet<String>>,
    added: Notify,
}

impl ChangedLists {
    fn add(&self, id: &str) {
        self.ids.lock().insert(id.to_owned());
        self.added.notify_one();
    }

    /// Waits until there are some, and takes them.
    pub async fn take(&self) -> BTreeSet<String> {
        loop {
            let ids = std::mem::take(&mut *self.ids.lock());
            if !ids.is_empty() {
                return ids;
            }
            self.added.notified().await;
        }
    }
}

/// The running server, if there is one.
#[derive(Default)]
pub(super) struct ServerSlot {
    running: Option<McpServer>,
    failures: VecDeque<Instant>,
}

/// The server while one call uses it.
pub(super) struct ServerTurn(OwnedMutexGuard<ServerSlot>);

/// Describes the start of a plugin's server with these variables.
fn service_launch(
    plugin: &Plugin,
    deps: &PluginDeps,
    mut env: Vec<(String, String)>,
    request: &RequestId,
) -> ServiceLaunch {
    let roots = std::env::join_paths(deps.workspace.root_paths()).unwrap_or_default();
    let roots = roots.to_string_lossy().into_owned();
    let is_shown = plugin.paths != WorkspaceAccess::Hidden;
    env.extend(is_shown.then(|| ("PUNIE_WORKSPACES".to_owned(), roots)));
    // Programs that `config.toml` names often fetch packages before they answer, which a plugin has in its folder.
    let caller = plugin.configured.as_ref().map(|configured| NetworkCaller {
        tool: configured.name.clone(),
        command: command_text(plugin),
        request: request.clone(),
        conversation: None,
    });
    ServiceLaunch {
        name: plugin.id.clone(),
        program: plugin.program.clone().unwrap_or_default(),
        args: plugin.args.clone(),
        folder: plugin.folder.clone(),
        workspaces: plugin.paths,
        own: None,
        network: if plugin.has_network {
            ServiceHosts::AsCommands
        } else {
            ServiceHosts::None
        },
        env,
        caller,
    }
}

/// Checks the folder in which a server starts, which its relative arguments are meant for.
fn check_folder(folder: &Path) -> Result<(), ToolError> {
    if folder.as_os_str().is_empty() {
        return Err(ToolError::not_found(format!(
            "it starts in the first workspace, and this command knows of none. Name it: `{}`. Or set cwd for the server \
             in config.toml.",
            command_to_type("--workspace DIR plugins")
        )));
    }
    match find_workspace_fault(folder) {
        Some(why) if !folder.is_dir() => Err(ToolError::not_found(format!(
            "it starts in {}, which {why}.",
            folder.display()
        ))),
        _ => Ok(()),
    }
}

/// Describes the program for a person.
pub(super) fn command_text(plugin: &Plugin) -> String {
    let words = plugin.program.iter().chain(&plugin.args);
    let words: Vec<&str> = words.map(String::as_str).collect();
    format!("{}: {}", plugin.title(), words.join(" "))
}

impl PluginServer {
    /// Describes the server; starts nothing.
    pub fn new(plugin: &Plugin, deps: &PluginDeps, changed: &Arc<ChangedLists>) -> Self {
        Self {
            deps: deps.clone(),
            plugin: plugin.clone(),
            changed: Arc::clone(changed),
            slot: Arc::default(),
            idle: SyncMutex::default(),
        }
    }

    /// Starts the server for this call, or opens a session at its address.
    pub async fn start_server(&self, request: &RequestId) -> Result<McpServer, McpFailure> {
        let plugin = &self.plugin;
        let deps = &self.deps;
        let limit = self.plugin.timeout;
        let changed = Arc::clone(&self.changed);
        let id = plugin.id.clone();
        let list_changed: ToolListChanged = Arc::new(move || changed.add(&id));
        if let Some(remote) = plugin.remote_server() {
            let headers = resolve_values(&remote.headers, deps).await;
            let headers = headers.map_err(McpFailure::NotStarted)?;
            return McpServer::connect(&remote.url, headers, limit, list_changed).await;
        }
        check_folder(&plugin.folder).map_err(McpFailure::NotStarted)?;
        let env = match &plugin.configured {
            Some(configured) => resolve_values(&configured.env, deps).await,
            None => Ok(Vec::new()),
        };
        let env = env.map_err(McpFailure::NotStarted)?;
        let launch = service_launch(plugin, deps, env, request);
        McpServer::start(&deps.terminals, &launch, request, limit, list_changed).await
    }

    /// Asks the running server for its tools again; `None` if none runs. That is no use of it: one that says again and
    /// again that its list has changed reaches the limit of messages, or the end of its idle time.
    pub async fn list_again(&self) -> Option<Vec<ListedTool>> {
        let mut turn = self.wait_for_turn().await;
        let server = turn.0.running.take().filter(McpServer::is_usable)?;
        let listed = server.list_tools(self.plugin.timeout).await;
        if matches!(listed, Err(McpFailure::Broken(_))) {
            turn.record_failure();
        } else {
            turn.keep(server);
        }
        listed.ok()
    }

    /// Waits until no other call uses the server.
    pub async fn wait_for_turn(&self) -> ServerTurn {
        ServerTurn(Arc::clone(&self.slot).lock_owned().await)
    }

    /// Takes the server out of the slot, or starts it for this call. It ends where it is dropped, so that a call that
    /// breaks off leaves no busy server.
    pub async fn take(
        &self,
        turn: &mut ServerTurn,
        request: &RequestId,
    ) -> Result<McpServer, McpFailure> {
        let kept = turn.0.running.take();
        if let Some(server) = kept.filter(McpServer::is_usable) {
            return Ok(server);
        }
        turn.0.check_failures()?;
        let started = self.start_server(request).await;
        if started.is_err() {
            turn.record_failure();
        } else if self.plugin.configured.is_some() {
            // Another version of the program may have been installed since its tools were stored.
            self.changed.add(&self.plugin.id);
        }
        started
    }

    /// Ends the server after some time without calls.
    pub fn end_when_idle(&self) {
        let slot = Arc::downgrade(&self.slot);
        let mut idle = self.idle.lock();
        idle.abort_all();
        while idle.try_join_next().is_some() {}
        idle.spawn(async move {
            tokio::time::sleep(IDLE_TIME).await;
            if let Some(slot) = slot.upgrade() {
                slot.lock().await.running = None;
            }
        });
    }
}

impl ServerTurn {
    /// Keeps the server for the next call.
    pub fn keep(&mut self, server: McpServer) {
        self.0.running = Some(server);
    }

    /// Records that the server failed.
    pub fn record_failure(&mut self) {
        self.0.failures.push_back(Instant::now());
    }
}

impl ServerSlot {
    fn check_failures(&mut self) -> Result<(), McpFailure> {
        while self
            .failures
            .front()
            .is_some_and(|at| at.elapsed() > FAILURE_WINDOW)
        {
            self.failures.pop_front();
        }
        if self.failures.len() < MAX_FAILURES {
            return Ok(());
        }
        Err(McpFailure::Broken(format!(
            "it failed {MAX_FAILURES} times within {} minutes, so it is not started again for now. Any change in its \
             folder or its settings starts it anew",
            FAILURE_WINDOW.as_secs() / 60
        )))
    }
}
