//! A plugin with the tools that its server listed. The list is stored, so that a start of the runner starts no server.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::PluginDeps;
use super::mcp::{ListedTool, McpFailure};
use super::plugin_server::{ChangedLists, PluginServer};
use punie_core::ids::RequestId;
use punie_home::{self, Plugin};

/// A plugin of the home.
pub(super) struct LoadedPlugin {
    /// Its manifest.
    pub plugin: Plugin,
    /// Its tools.
    pub listing: Listing,
    /// Its server, which runs while it is used.
    pub server: Arc<PluginServer>,
}

/// The tools of a plugin.
pub(super) enum Listing {
    /// The tools, as the server listed them.
    Listed(Vec<ListedTool>),
    /// The server was not asked yet.
    NotAsked,
    /// The server did not list any; the reason is part of a sentence.
    Failed(String),
}

/// The stored list of a plugin's tools.
#[derive(Serialize, Deserialize)]
struct StoredListing {
    fingerprint: String,
    tools: Vec<ListedTool>,
}

impl LoadedPlugin {
    /// Creates it with the stored list, if that is of the plugin as it is now. Blocks.
    pub fn from_store(deps: &PluginDeps, plugin: Plugin, changed: &Arc<ChangedLists>) -> Self {
        let stored = punie_home::read_plugin_tools(&deps.home, &plugin.id);
        let stored: Option<StoredListing> =
            stored.and_then(|text| serde_json::from_str(&text).ok());
        let listing = match stored {
            _ if plugin.program.is_none() && plugin.remote_server().is_none() => {
                Listing::Listed(Vec::new())
            }
            Some(stored) if stored.fingerprint == plugin.fingerprint => {
                Listing::Listed(stored.tools)
            }
            _ => Listing::NotAsked,
        };
        Self {
            listing,
            server: Arc::new(PluginServer::new(&plugin, deps, changed)),
            plugin,
        }
    }

    /// Starts the server to ask for its tools, unless they are known. It is ended again.
    pub async fn list_tools(mut self, deps: &PluginDeps) -> Self {
        if !matches!(self.listing, Listing::NotAsked) {
            return self;
        }
        self.listing = match self.ask_server().await {
            Ok(tools) => {
                self.store_listing(deps, &tools).await;
                Listing::Listed(tools)
            }
            Err(McpFailure::NotStarted(error)) => Listing::Failed(format!(
                "its server was not started: {}",
                error.model_text().trim_end_matches('.')
            )),
            Err(McpFailure::Refused(why) | McpFailure::Broken(why)) => {
                Listing::Failed(format!("its server listed no tools: {why}"))
            }
        };
        self
    }

    async fn ask_server(&self) -> Result<Vec<ListedTool>, McpFailure> {
        let server = self.server.start_server(&RequestId::new()).await?;
        server.list_tools(self.plugin.timeout).await
    }

    async fn store_listing(&self, deps: &PluginDeps, tools: &[ListedTool]) {
        let stored = StoredListing {
            fingerprint: self.plugin.fingerprint.clone(),
            tools: tools.to_vec(),
        };
        let home = deps.home.clone();
        let id = self.plugin.id.clone();
        let storing = tokio::task::spawn_blocking(move || {
            let text = serde_json::to_string(&stored)?;
            punie_home::store_plugin_tools(&home, &id, &text)
        });
        if let Ok(Err(cause)) = storing.await {
            tracing::warn!(%cause, plugin = self.plugin.id, "the tools of a plugin are not stored, and its server is asked again");
        }
    }

    /// Returns it with another list of tools. The server is shared.
    pub async fn with_tools(&self, tools: Vec<ListedTool>, deps: &PluginDeps) -> Self {
        self.store_listing(deps, &tools).await;
        Self {
            plugin: self.plugin.clone(),
            listing: Listing::Listed(tools),
            server: Arc::clone(&self.server),
        }
    }

    pub fn listed_tools(&self) -> &[ListedTool] {
        match &self.listing {
            Listing::Listed(tools) => tools,
            _ => &[],
        }
    }
}
