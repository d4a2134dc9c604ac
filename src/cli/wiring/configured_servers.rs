//! The MCP servers of `config.toml` as plugins without a folder of their own.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use crate::config::{Config, McpServer, McpTarget};
use punie_core::ids::to_hex;
use punie_core::owner_choices::WorkspaceAccess;
use punie_home::{ConfiguredServer, Plugin, RemoteServer};

/// Converts the servers that are switched on.
pub(super) fn configured_servers(config: &Config) -> Vec<Plugin> {
    let servers = config.mcp_servers.iter().filter(|server| server.enabled);
    servers.map(|server| to_plugin(server, config)).collect()
}

fn to_plugin(server: &McpServer, config: &Config) -> Plugin {
    let first = config.workspaces.first().cloned().unwrap_or_default();
    let mut plugin = Plugin {
        // No folder of a plugin has a dot in its name.
        id: format!("mcp.{}", server.name),
        name: server.name.clone(),
        description: String::new(),
        version: String::new(),
        folder: first,
        program: None,
        args: Vec::new(),
        paths: WorkspaceAccess::Hidden,
        has_network: false,
        timeout: server.timeout,
        effects: server.effects.clone(),
        // Its list of tools depends on nothing else that the owner sets.
        fingerprint: to_hex(&Sha256::digest(format!("{:?}", server.target))),
        configured: None,
    };
    let mut configured = ConfiguredServer {
        name: server.name.clone(),
        env: BTreeMap::new(),
        remote: None,
        tools: server.tools.clone(),
    };
    match &server.target {
        McpTarget::Program {
            command,
            args,
            env,
            cwd,
            paths,
            has_network,
        } => {
            plugin.program = Some(command.clone());
            plugin.args.clone_from(args);
            plugin.has_network = *has_network;
            plugin.paths = *paths;
            if let Some(cwd) = cwd {
                plugin.folder.clone_from(cwd);
            }
            configured.env.clone_from(env);
        }
        McpTarget::Address { url, headers } => {
            configured.remote = Some(RemoteServer {
                url: url.clone(),
                headers: headers.clone(),
            });
        }
    }
    plugin.configured = Some(configured);
    plugin
}
