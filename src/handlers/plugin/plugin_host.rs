//! All plugins of the home: loaded at the start, and again when their folders change. Not here: a single plugin
//! (loaded_plugin).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::join_all;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;

use super::PluginDeps;
use super::loaded_plugin::{Listing, LoadedPlugin};
use super::plugin_tool::PluginTools;
use crate::home::{self, HomeCatalogItem, HomeProblem, PluginPaths};
use crate::tool::{ToolEffect, ToolRegistration};

/// The plugins of the home. Clones share them.
#[derive(Clone)]
pub struct PluginHost(Arc<HostState>);

/// The state of the plugins.
pub(super) struct HostState {
    deps: PluginDeps,
    current: Mutex<CurrentPlugins>,
    /// Held while they are loaded.
    reloading: tokio::sync::Mutex<()>,
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
    pub paths: PluginPaths,
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
    paths: PluginPaths,
    network: &'static str,
    tools: Vec<&'a str>,
}

impl PluginHost {
    /// Loads the plugins with the lists that are stored, and registers their tools. Starts none of them. Blocks.
    pub fn load_stored(deps: PluginDeps) -> Self {
        let (plugins, problems) = home::load_plugins(&deps.home);
        let loaded = plugins.into_iter().map(|plugin| {
            let loaded = LoadedPlugin::from_store(&deps, plugin);
            (loaded.plugin.id.clone(), Arc::new(loaded))
        });
        let loaded = loaded.collect();
        let host = Self(Arc::new(HostState {
            deps,
            current: Mutex::default(),
            reloading: tokio::sync::Mutex::default(),
        }));
        host.0.install(loaded, problems);
        host
    }

    /// Loads what has changed, and asks the servers that were never asked for their tools.
    pub async fn reload(&self) {
        self.0.reload().await;
    }

    /// Loads them now and after each change, as long as there is a signal of changes.
    pub async fn follow_changes(self, changes: Option<watch::Receiver<u64>>) {
        let mut told = BTreeSet::new();
        self.reload().await;
        self.warn_about_problems(&mut told);
        let Some(mut changes) = changes else { return };
        while changes.changed().await.is_ok() {
            self.reload().await;
            self.warn_about_problems(&mut told);
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
    pub fn catalog_items(&self) -> Vec<HomeCatalogItem> {
        let current = self.0.current.lock();
        let listed = current
            .plugins
            .iter()
            .filter(|(_, loaded)| matches!(loaded.listing, Listing::Listed(_)));
        let item = |(id, loaded): (&String, &Arc<LoadedPlugin>)| {
            let (plugin, tools) = (&loaded.plugin, current.offered.get(id));
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
            HomeCatalogItem::from_serializable(id, &published)
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
    pub async fn reload(self: &Arc<Self>) {
        let _one = self.reloading.lock().await;
        let (deps, known) = (self.deps.clone(), self.current.lock().plugins.clone());
        let loading = tokio::task::spawn_blocking(move || {
            let (plugins, problems) = home::load_plugins(&deps.home);
            let loaded = plugins.into_iter().map(|plugin| {
                let same = known.get(&plugin.id).filter(|known| {
                    known.plugin == plugin && !matches!(known.listing, Listing::NotAsked)
                });
                match same {
                    Some(same) => Ok(Arc::clone(same)),
                    None => Err(Box::new(LoadedPlugin::from_store(&deps, plugin))),
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
        let chosen = PluginTools::choose(&plugins, &self.deps, &Arc::downgrade(self));
        let registration = self.deps.registry.register_dynamic(chosen.entries);
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
