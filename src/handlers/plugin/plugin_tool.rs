//! A plugin's tool as an entry of the registry, if it may have its name and its schema can be used. Not here: running it
//! (plugin_call).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use serde_json::{Map, Value};

use super::PluginDeps;
use super::loaded_plugin::{Listing, LoadedPlugin};
use super::mcp::ListedTool;
use super::plugin_call::PluginCall;
use super::plugin_host::HostState;
use crate::home::{Plugin, PluginPaths};
use crate::ids::ToolName;
use crate::tool::{
    ArgumentSchema, CallLane, DeclaredAccess, DefaultLocation, ToolContext, ToolEffect, ToolEntry,
    ToolSpec,
};

/// The domain of such tools.
const DOMAIN: &str = "plugin";
/// The most bytes of a tool's description and schema.
const MAX_TOOL_BYTES: usize = 64 << 10;

/// The tools of all plugins that are offered, and the problems.
#[derive(Default)]
pub(super) struct PluginTools {
    /// The entries.
    pub entries: Vec<ToolEntry>,
    /// The offered names, by plugin.
    pub offered: BTreeMap<String, Vec<(String, ToolEffect)>>,
    /// The problems, by plugin.
    pub problems: BTreeMap<String, Vec<String>>,
}

impl PluginTools {
    /// Chooses the tools of these plugins, in the order of their ids: the first one of a name is offered.
    pub fn choose(
        plugins: &BTreeMap<String, Arc<LoadedPlugin>>,
        deps: &PluginDeps,
        host: &Weak<HostState>,
    ) -> Self {
        let mut chosen = Self::default();
        let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
        for (id, loaded) in plugins {
            let problems = chosen.problems.entry(id.clone()).or_default();
            let offered = chosen.offered.entry(id.clone()).or_default();
            if let Listing::Failed(why) = &loaded.listing {
                problems.push(why.clone());
            }
            for tool in loaded.listed_tools() {
                let entry = match owners.get(tool.name.as_str()) {
                    Some(owner) => Err(format!(
                        "{} is not offered, because the plugin {owner} has a tool of this name. Rename one of them",
                        tool.name
                    )),
                    None => build_entry(loaded, tool, deps, host),
                };
                match entry {
                    Ok(entry) => {
                        owners.insert(&tool.name, id);
                        offered.push((tool.name.clone(), entry.tool_spec().effect));
                        chosen.entries.push(entry);
                    }
                    Err(problem) => problems.push(problem),
                }
            }
            let unknown = loaded.plugin.effects.keys().filter(|name| {
                matches!(loaded.listing, Listing::Listed(_))
                    && loaded.listed_tools().iter().all(|tool| tool.name != **name)
            });
            problems.extend(unknown.map(|name| {
                format!("[effects] in plugin.toml names {name}, which is none of its tools. Remove the line")
            }));
        }
        chosen
    }
}

/// Builds the entry of one tool, or says why it is not offered.
fn build_entry(
    loaded: &Arc<LoadedPlugin>,
    tool: &ListedTool,
    deps: &PluginDeps,
    host: &Weak<HostState>,
) -> Result<ToolEntry, String> {
    let name = &tool.name;
    if deps.registry.has_device_tool(name) {
        return Err(format!(
            "{name} is not offered, because this device has a tool of this name, which stays. Rename it"
        ));
    }
    if ToolName::parse(name.clone()).is_err() {
        let shown: String = name.chars().take(80).collect();
        return Err(format!(
            "{shown:?} cannot be the name of a tool. Use 1 to 128 of A-Z a-z 0-9 _ - ."
        ));
    }
    if tool.description.len() + tool.schema.to_string().len() > MAX_TOOL_BYTES {
        return Err(format!(
            "{name} is not offered, because its description and schema have more than {} KiB. Shorten them",
            MAX_TOOL_BYTES >> 10
        ));
    }
    let schema = ArgumentSchema::new(&tool.schema).map_err(|why| {
        format!(
            "{name} is not offered: {}",
            why.replace("`parameters`", "its inputSchema")
        )
    })?;
    let spec = tool_spec(&loaded.plugin, tool);
    let check = move |arguments: &Map<String, Value>| {
        schema.validate_arguments(&Value::Object(arguments.clone()))
    };
    let access = declared_access(&loaded.plugin, deps);
    let (loaded, host, tool) = (Arc::clone(loaded), host.clone(), Arc::new(tool.clone()));
    let run = move |cx: ToolContext, arguments, effect| {
        let call = PluginCall {
            loaded: Arc::clone(&loaded),
            host: host.clone(),
            tool: Arc::clone(&tool),
            effect,
        };
        async move { call.run(&cx, arguments).await }
    };
    Ok(ToolEntry::from_spec(spec, access, check, run))
}

/// Returns the declared effect of a tool. One that the manifest does not name counts as one that runs programs.
pub(super) fn tool_effect(plugin: &Plugin, name: &str) -> ToolEffect {
    let declared = plugin.effects.get(name).copied();
    declared.unwrap_or(ToolEffect::Executes)
}

fn tool_spec(plugin: &Plugin, tool: &ListedTool) -> ToolSpec {
    ToolSpec {
        name: Cow::Owned(tool.name.clone()),
        domain: DOMAIN,
        description: tool.description.clone(),
        on_this_device: String::new(),
        schema: tool.schema.clone(),
        effect: tool_effect(plugin, &tool.name),
        effect_depends_on: None,
        lane: CallLane::Conversation,
        aliases: &[],
        accepted: &[],
        known_as: &[],
        same_as: None,
        normalize: |_| {},
        examples: &[],
        limits: &[],
        people_fields: &[],
        stated_kind: None,
        categories: Vec::new(),
        origin: Cow::Owned(format!("plugin: {}", plugin.id)),
        only_ends: false,
        offered: true,
        always_asks: false,
    }
}

/// Returns the access of all calls of a plugin: its files are known to nobody else, so the workspaces as a whole.
fn declared_access(plugin: &Plugin, deps: &PluginDeps) -> DeclaredAccess {
    let roots = deps.workspace.root_paths();
    let access = match plugin.paths {
        PluginPaths::None => DeclaredAccess::no_access(),
        PluginPaths::Read => {
            DeclaredAccess::no_access().with_default_location(DefaultLocation::AllWorkspaces(None))
        }
        PluginPaths::Write => {
            DeclaredAccess::writing_paths(roots.map(|root| root.display().to_string()))
        }
    };
    access.starting_programs()
}
