//! Plugins: programs of the owner's that add tools to this device's. Each is a server of the Model Context Protocol
//! that is started when a tool of it is called, and confined to what its manifest declares. Servers that `config.toml`
//! names are treated the same.

mod loaded_plugin;
mod mcp;
mod plugin_call;
mod plugin_host;
mod plugin_server;
mod plugin_tool;
mod secret_values;
mod tool_result;

use punie_home::Home;
use punie_host::Workspace;
use punie_host::local::local_terminals::LocalTerminals;
use punie_text::redact::Redactor;

pub use plugin_host::{PluginHost, PluginReport};
pub use secret_values::{list_secret_names, names_secret, secret_reference};

/// The dependencies of plugins.
#[derive(Clone)]
pub struct PluginDeps {
    /// Starts the servers.
    pub terminals: LocalTerminals,
    /// The folders that a plugin may be given.
    pub workspace: Workspace,
    /// The home with the plugins.
    pub home: Home,
    /// Masks the secrets that they are given.
    pub redactor: Redactor,
}
