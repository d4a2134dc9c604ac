//! Plugins: programs of the owner's that add tools to this device's. Each is a server of the Model Context Protocol
//! that is started when a tool of it is called, and confined to what its manifest declares. Not here: the manifest
//! (home).

mod loaded_plugin;
mod mcp;
mod plugin_call;
mod plugin_host;
mod plugin_server;
mod plugin_tool;
mod tool_result;

use std::sync::Arc;

use crate::acp::Workspace;
use crate::acp::local::local_terminals::LocalTerminals;
use crate::home::Home;
use crate::tool::ToolRegistry;

pub use plugin_host::{PluginHost, PluginReport};

/// The dependencies of plugins.
#[derive(Clone)]
pub struct PluginDeps {
    /// Starts the servers.
    pub terminals: LocalTerminals,
    /// The folders that a plugin may be given.
    pub workspace: Workspace,
    /// The home with the plugins.
    pub home: Home,
    /// Receives their tools.
    pub registry: Arc<ToolRegistry>,
}
