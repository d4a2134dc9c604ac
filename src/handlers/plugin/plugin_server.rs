//! The server of one plugin: started at the first call, used for one call at a time, and ended when it is idle. Not
//! here: the calls (plugin_call).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex as SyncMutex;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::PluginDeps;
use super::mcp::{McpFailure, McpServer};
use crate::acp::local::local_terminals::LocalTerminals;
use crate::acp::local::service_process::{ServiceHosts, ServiceLaunch, WorkspaceAccess};
use crate::home::{Plugin, PluginPaths};
use crate::ids::RequestId;

/// The time without calls after which a server is ended.
const IDLE_TIME: Duration = Duration::from_mins(5);
/// A server that failed so often within this time is not started again.
const MAX_FAILURES: usize = 5;
const FAILURE_WINDOW: Duration = Duration::from_mins(10);

/// The server of one plugin.
pub(super) struct PluginServer {
    terminals: LocalTerminals,
    launch: ServiceLaunch,
    timeout: Duration,
    slot: Arc<Mutex<ServerSlot>>,
    idle: SyncMutex<JoinSet<()>>,
}

/// The running server, if there is one.
#[derive(Default)]
pub(super) struct ServerSlot {
    running: Option<McpServer>,
    failures: VecDeque<Instant>,
}

/// The server while one call uses it.
pub(super) struct ServerTurn(OwnedMutexGuard<ServerSlot>);

/// Describes the start of a plugin's server.
pub(super) fn service_launch(plugin: &Plugin, deps: &PluginDeps) -> ServiceLaunch {
    let workspaces = match plugin.paths {
        PluginPaths::None => WorkspaceAccess::Hidden,
        PluginPaths::Read => WorkspaceAccess::Read,
        PluginPaths::Write => WorkspaceAccess::Write,
    };
    let roots = std::env::join_paths(deps.workspace.root_paths()).unwrap_or_default();
    let roots = roots.to_string_lossy().into_owned();
    let is_shown = plugin.paths != PluginPaths::None;
    let variable = is_shown.then(|| ("PUNIE_WORKSPACES".to_owned(), roots));
    ServiceLaunch {
        name: plugin.id.clone(),
        program: plugin.program.clone().unwrap_or_default(),
        args: plugin.args.clone(),
        folder: plugin.folder.clone(),
        workspaces,
        own: None,
        network: if plugin.has_network {
            ServiceHosts::AsCommands
        } else {
            ServiceHosts::None
        },
        env: variable.into_iter().collect(),
        caller: None,
    }
}

impl PluginServer {
    /// Describes the server; starts nothing.
    pub fn new(plugin: &Plugin, deps: &PluginDeps) -> Self {
        Self {
            terminals: deps.terminals.clone(),
            launch: service_launch(plugin, deps),
            timeout: plugin.timeout,
            slot: Arc::default(),
            idle: SyncMutex::default(),
        }
    }

    /// Waits until no other call uses the server.
    pub async fn wait_for_turn(&self) -> ServerTurn {
        ServerTurn(Arc::clone(&self.slot).lock_owned().await)
    }

    /// Takes the server out of the slot, or starts it for this call. It ends where it is dropped, so that a call that
    /// breaks off leaves no busy server.
    pub async fn take_server(
        &self,
        turn: &mut ServerTurn,
        request: &RequestId,
    ) -> Result<McpServer, McpFailure> {
        let kept = turn.0.running.take();
        if let Some(server) = kept.filter(McpServer::is_usable) {
            return Ok(server);
        }
        turn.0.check_failures()?;
        let started = McpServer::start(&self.terminals, &self.launch, request, self.timeout).await;
        if started.is_err() {
            turn.record_failure();
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
    pub fn keep_server(&mut self, server: McpServer) {
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
             folder starts it anew",
            FAILURE_WINDOW.as_secs() / 60
        )))
    }
}
