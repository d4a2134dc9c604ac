//! All plugins of the home: loaded at the start, and again when their folders change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::PluginDeps;
use super::loaded_plugin::{Listing, LoadedPlugin};
use super::plugin_server::ChangedLists;
use super::plugin_tool::PluginTools;
use punie_core::owner_choices::WorkspaceAccess;
use punie_home::{self, CatalogEntry, HomeProblem, Plugin};
use punie_tool::{ToolEffect, ToolRegistration, ToolRegistry};

/// The waits before a server that listed no tools is asked again: the first, which doubles, and the longest.
const FIRST_RETRY: Duration = Duration::from_secs(2);
const LAST_RETRY: Duration = Duration::from_mins(10);

/// The plugins of the home, and the servers that `config.toml` names. Clones share them.
#[derive(Clone)]
pub struct PluginHost(Arc<HostState>);

pub(super) struct HostState {
    deps: PluginDeps,
    /// Receives the tools.
    registry: Arc<ToolRegistry>,
    /// The servers that `config.toml` names.
    configured: watch::Sender<Vec<Plugin>>,
    changed_lists: Arc<ChangedLists>,
    current: Mutex<CurrentPlugins>,
    /// Held while they are loaded.
    reloading: tokio::sync::Mutex<()>,
}

/// Says if servers of `config.toml` that listed no tools are asked again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Retry {
    Yes,
    No,
}

#[derive(Default)]
struct CurrentPlugins {
    plugins: BTreeMap<String, Arc<LoadedPlugin>>,
    problems: Vec<HomeProblem>,
    offered: BTreeMap<String, Vec<(String, ToolEffect)>>,
    tool_problems: BTreeMap<String, Vec<String>>,
    /// Keeps the tools in the registry.
    _registration: Option<ToolRegistration>,
}

/// A plugin for people: what it is, what it offers, and what is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PluginReport {
    /// The name of its folder.
    pub id: String,
    /// A name for people.
    pub name: String,
    /// Its purpose.
    pub description: String,
    /// The version as written.
    pub version: String,
    /// Its access to the workspaces.
    pub paths: WorkspaceAccess,
    /// It may ask for hosts.
    pub network: bool,
    /// The offered tools with their effects.
    pub tools: Vec<(String, ToolEffect)>,
    /// The problems, each with the remedy.
    pub problems: Vec<String>,
}

/// A plugin in the catalog.
#[derive(Serialize)]
struct PublishedPlugin<'a> {
    id: &'a str,
    name: &'a str,
    description: &'a str,
    version: &'a str,
    paths: WorkspaceAccess,
    network: &'static str,
    tools: Vec<&'a str>,
}

impl PluginHost {
    /// Loads the plugins with the lists that are stored, and registers their tools. Starts none of them. Blocks.
    pub fn load_stored(
        deps: PluginDeps,
        registry: Arc<ToolRegistry>,
        configured: Vec<Plugin>,
    ) -> Self {
        let (mut plugins, problems) = punie_home::load_plugins(&deps.home);
        plugins.extend(configured.iter().cloned());
        let changed_lists = Arc::default();
        let loaded = plugins.into_iter().map(|plugin| {
            let loaded = LoadedPlugin::from_store(&deps, plugin, &changed_lists);
            (loaded.plugin.id.clone(), Arc::new(loaded))
        });
        let loaded = loaded.collect();
        let host = Self(Arc::new(HostState {
            deps,
            registry,
            configured: watch::Sender::new(configured),
            changed_lists,
            current: Mutex::default(),
            reloading: tokio::sync::Mutex::default(),
        }));
        host.0.install(loaded, problems);
        host
    }

    /// Loads what has changed, and asks the servers that were never asked for their tools.
    pub async fn reload(&self) {
        self.0.reload(Retry::Yes).await;
    }

    /// Takes over the servers that a changed `config.toml` names.
    pub fn set_configured(&self, configured: Vec<Plugin>) {
        self.0.configured.send_if_modified(|before| {
            let is_changed = *before != configured;
            *before = configured;
            is_changed
        });
    }

    /// Loads them now and after each change, as long as there is a signal of changes, and reads lists again that servers
    /// changed.
    pub async fn follow_changes(self, changes: Option<watch::Receiver<u64>>) {
        let mut told = BTreeSet::new();
        let mut configured = self.0.configured.subscribe();
        self.reload().await;
        let Some(mut changes) = changes else {
            return self.warn_about_problems(&mut told);
        };
        let mut wait = FIRST_RETRY;
        let mut reading = JoinSet::new();
        loop {
            self.warn_about_problems(&mut told);
            let has_failed = self.0.has_failed_server();
            tokio::select! {
                signal = changes.changed() => match signal {
                    Ok(()) => self.0.reload(Retry::No).await,
                    Err(_) => return,
                },
                _ = configured.changed() => self.0.reload(Retry::No).await,
                ids = self.0.changed_lists.take() => for id in ids {
                    let state = Arc::clone(&self.0);
                    reading.spawn(async move { state.list_again(&id).await });
                },
                Some(_) = reading.join_next() => {}
                () = tokio::time::sleep(wait), if has_failed => {
                    self.reload().await;
                    wait = (wait * 2).min(LAST_RETRY);
                    continue;
                }
            }
            wait = FIRST_RETRY;
        }
    }

    /// Logs the problems that are not `told` yet.
    fn warn_about_problems(&self, told: &mut BTreeSet<String>) {
        let (reports, problems) = self.reports();
        let of_report = |report: PluginReport| {
            let texts = report.problems.into_iter();
            texts.map(move |problem| format!("{}: {problem}", report.id))
        };
        let now = problems.iter().map(ToString::to_string);
        let now: BTreeSet<String> = now.chain(reports.into_iter().flat_map(of_report)).collect();
        for problem in now.difference(told) {
            tracing::warn!(problem, "something is wrong with a plugin");
        }
        *told = now;
    }

    /// Reports on all plugins, those included that cannot be loaded.
    pub fn reports(&self) -> (Vec<PluginReport>, Vec<HomeProblem>) {
        let current = self.0.current.lock();
        let report = |(id, loaded): (&String, &Arc<LoadedPlugin>)| {
            let plugin = &loaded.plugin;
            PluginReport {
                id: id.clone(),
                name: plugin.name.clone(),
                description: plugin.description.clone(),
                version: plugin.version.clone(),
                paths: plugin.paths,
                network: plugin.has_network,
                tools: current.offered.get(id).cloned().unwrap_or_default(),
                problems: current.tool_problems.get(id).cloned().unwrap_or_default(),
            }
        };
        let reports = current.plugins.iter().map(report).collect();
        (reports, current.problems.clone())
    }

    /// Returns the entries of the catalog: the plugins that have listed their tools.
    pub fn catalog_items(&self) -> Vec<CatalogEntry> {
        let current = self.0.current.lock();
        let listed = current
            .plugins
            .iter()
            .filter(|(_, loaded)| loaded.plugin.configured.is_none())
            .filter(|(_, loaded)| matches!(loaded.listing, Listing::Listed(_)));
        let item = |(id, loaded): (&String, &Arc<LoadedPlugin>)| {
            let plugin = &loaded.plugin;
            let tools = current.offered.get(id);
            let published = PublishedPlugin {
                id,
                name: &plugin.name,
                description: &plugin.description,
                version: &plugin.version,
                paths: plugin.paths,
                network: if plugin.has_network { "ask" } else { "none" },
                tools: tools
                    .into_iter()
                    .flatten()
                    .map(|(name, _)| name.as_str())
                    .collect(),
            };
            CatalogEntry::from_serializable(id, &published)
        };
        listed.map(item).collect()
    }
}

impl HostState {
    /// Returns the plugin of this id.
    pub fn find_plugin(&self, id: &str) -> Option<Arc<LoadedPlugin>> {
        self.current.lock().plugins.get(id).cloned()
    }

    /// Loads what has changed. A running call goes on with what it began with.
    pub async fn reload(self: &Arc<Self>, retry: Retry) {
        let _one = self.reloading.lock().await;
        let deps = self.deps.clone();
        let known = self.current.lock().plugins.clone();
        let configured = self.configured.borrow().clone();
        let changed_lists = Arc::clone(&self.changed_lists);
        let loading = tokio::task::spawn_blocking(move || {
            let (mut plugins, problems) = punie_home::load_plugins(&deps.home);
            plugins.extend(configured);
            let loaded = plugins.into_iter().map(|plugin| {
                let same = known.get(&plugin.id).filter(|known| {
                    let is_asked_again = match known.listing {
                        Listing::NotAsked => true,
                        Listing::Failed(_) => {
                            retry == Retry::Yes && known.plugin.configured.is_some()
                        }
                        Listing::Listed(_) => false,
                    };
                    known.plugin == plugin && !is_asked_again
                });
                if let Some(same) = same {
                    Ok(Arc::clone(same))
                } else {
                    let new = LoadedPlugin::from_store(&deps, plugin, &changed_lists);
                    Err(Box::new(new))
                }
            });
            (loaded.collect::<Vec<_>>(), problems)
        });
        let Ok((loaded, problems)) = loading.await else {
            return tracing::error!("loading the plugins broke off");
        };
        let listing = loaded.into_iter().map(|loaded| async {
            match loaded {
                Ok(same) => same,
                Err(new) => Arc::new(new.list_tools(&self.deps).await),
            }
        });
        let plugins = join_all(listing).await.into_iter();
        let plugins = plugins.map(|loaded| (loaded.plugin.id.clone(), loaded));
        self.install(plugins.collect(), problems);
    }

    /// Returns whether a server of `config.toml` listed no tools.
    fn has_failed_server(&self) -> bool {
        let current = self.current.lock();
        let mut loaded = current.plugins.values();
        loaded.any(|loaded| {
            loaded.plugin.configured.is_some() && matches!(loaded.listing, Listing::Failed(_))
        })
    }

    /// Reads the list of a server that runs again, and offers the tools that it has now.
    async fn list_again(self: &Arc<Self>, id: &str) {
        let Some(loaded) = self.find_plugin(id) else {
            return;
        };
        let Some(tools) = loaded.server.list_again().await else {
            return;
        };
        let _one = self.reloading.lock().await;
        let (mut plugins, problems) = {
            let current = self.current.lock();
            (current.plugins.clone(), current.problems.clone())
        };
        let is_current = |now: &Arc<LoadedPlugin>| Arc::ptr_eq(&now.server, &loaded.server);
        if !plugins.get(id).is_some_and(is_current) || *loaded.listed_tools() == tools {
            return;
        }
        tracing::info!(server = id, "a server has other tools now");
        let changed = loaded.with_tools(tools, &self.deps).await;
        plugins.insert(id.to_owned(), Arc::new(changed));
        self.install(plugins, problems);
    }

    /// Puts these plugins in the place of the current ones, and offers their tools.
    fn install(
        self: &Arc<Self>,
        plugins: BTreeMap<String, Arc<LoadedPlugin>>,
        problems: Vec<HomeProblem>,
    ) {
        let is_same = {
            let mut current = self.current.lock();
            let known = &current.plugins;
            let same = known.len() == plugins.len()
                && plugins.iter().all(|(id, loaded)| {
                    known
                        .get(id)
                        .is_some_and(|known| Arc::ptr_eq(known, loaded))
                });
            current.problems.clone_from(&problems);
            same
        };
        if is_same {
            return;
        }
        let chosen =
            PluginTools::choose(&plugins, &self.deps, &self.registry, &Arc::downgrade(self));
        let registration = self.registry.register_dynamic(chosen.entries);
        let before = {
            let mut current = self.current.lock();
            std::mem::replace(
                &mut *current,
                CurrentPlugins {
                    plugins,
                    problems,
                    offered: chosen.offered,
                    tool_problems: chosen.problems,
                    _registration: Some(registration),
                },
            )
        };
        // The old tools go when the new ones are there.
        drop(before);
    }
}
