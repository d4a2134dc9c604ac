//! A plugin's tool as an entry of the registry, if it may have its name and its schema can be used.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use serde_json::{Map, Value};

use super::PluginDeps;
use super::loaded_plugin::{Listing, LoadedPlugin};
use super::mcp::ListedTool;
use super::plugin_call::PluginCall;
use super::plugin_host::HostState;
use punie_core::ids::ToolName;
use punie_core::owner_choices::WorkspaceAccess;
use punie_home::Plugin;
use punie_tool::{
    ArgumentSchema, CallLane, DeclaredAccess, DefaultLocation, SchemaText, ToolContext, ToolEffect,
    ToolEntry, ToolRegistry, ToolSpec,
};

/// The domain of such tools.
const DOMAIN: &str = "plugin";
/// The longest name of a tool of a server in `config.toml`: the APIs of models accept no longer ones.
const MAX_NAME: usize = 64;
/// The most bytes of a tool's description and schema.
const MAX_TOOL_BYTES: usize = 64 << 10;

/// The tools of all plugins that are offered, and the problems.
#[derive(Default)]
pub(super) struct PluginTools {
    pub entries: Vec<ToolEntry>,
    /// The offered names, by plugin.
    pub offered: BTreeMap<String, Vec<(String, ToolEffect)>>,
    pub problems: BTreeMap<String, Vec<String>>,
}

impl PluginTools {
    /// Chooses the tools of these plugins, in the order of their ids: the first one of a name is offered.
    pub fn choose(
        plugins: &BTreeMap<String, Arc<LoadedPlugin>>,
        deps: &PluginDeps,
        registry: &ToolRegistry,
        host: &Weak<HostState>,
    ) -> Self {
        let mut chosen = Self::default();
        let mut owners: BTreeMap<String, String> = BTreeMap::new();
        for (id, loaded) in plugins {
            let problems = chosen.problems.entry(id.clone()).or_default();
            let offered = chosen.offered.entry(id.clone()).or_default();
            if let Listing::Failed(why) = &loaded.listing {
                problems.push(why.clone());
            }
            let allowed = loaded.plugin.configured.as_ref();
            let allowed = allowed.and_then(|configured| configured.tools.as_ref());
            let is_allowed = |name: &String| allowed.is_none_or(|allowed| allowed.contains(name));
            let tools = loaded.listed_tools().iter();
            for tool in tools.filter(|tool| is_allowed(&tool.name)) {
                let name = loaded.plugin.offered_name(&tool.name);
                let entry = match owners.get(&name) {
                    Some(owner) => Err(format!(
                        "{name} is not offered, because the {owner} has a tool of this name. Rename one of them"
                    )),
                    None if registry.has_device_tool(&name) => Err(format!(
                        "{name} is not offered, because this device has a tool of this name, which stays. Rename it"
                    )),
                    None => build_entry(loaded, tool, deps, host),
                };
                match entry {
                    Ok(entry) => {
                        owners.insert(name.clone(), loaded.plugin.title());
                        offered.push((name, entry.tool_spec().effect));
                        chosen.entries.push(entry);
                    }
                    Err(problem) => problems.push(problem),
                }
            }
            let named = loaded.plugin.effects.keys().map(|name| ("effects", name));
            let named = named.chain(allowed.into_iter().flatten().map(|name| ("tools", name)));
            let unknown = named.filter(|(_, name)| {
                matches!(loaded.listing, Listing::Listed(_))
                    && loaded.listed_tools().iter().all(|tool| tool.name != **name)
            });
            problems.extend(unknown.map(|(key, name)| {
                let file = match &loaded.plugin.configured {
                    Some(configured) => format!("mcp.servers.{} in config.toml", configured.name),
                    None => "plugin.toml".to_owned(),
                };
                format!("{key} of {file} names {name}, which is none of its tools. Remove it there")
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
    let name = &loaded.plugin.offered_name(&tool.name);
    if ToolName::parse(name.clone()).is_err() {
        let shown: String = name.chars().take(80).collect();
        return Err(format!(
            "{shown:?} cannot be the name of a tool. Use 1 to 128 characters of A-Z a-z 0-9 _ - and the full stop"
        ));
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    let is_narrow = name.len() <= MAX_NAME && name.chars().all(fits);
    if loaded.plugin.configured.is_some() && !is_narrow {
        return Err(format!(
            "{name} is not offered, because models accept names of at most {MAX_NAME} characters of A-Z a-z 0-9 _ -. A \
             shorter name of the server may help"
        ));
    }
    if tool.description.len() + tool.schema.to_string().len() > MAX_TOOL_BYTES {
        return Err(format!(
            "{name} is not offered, because its description and schema have more than {} KiB. Shorten them",
            MAX_TOOL_BYTES >> 10
        ));
    }
    // Clients refuse a whole list of tools for one that is otherwise.
    if tool.schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err(format!(
            "{name} is not offered, because its inputSchema has no \"type\": \"object\", which the protocol asks for"
        ));
    }
    let schema = ArgumentSchema::new(&tool.schema).map_err(|why| {
        format!(
            "{name} is not offered: {}",
            why.replace("`parameters`", "its inputSchema")
        )
    })?;
    let spec = tool_spec(&loaded.plugin, tool);
    let check =
        move |arguments: &Map<String, Value>| schema.validate(&Value::Object(arguments.clone()));
    let access = declared_access(&loaded.plugin, spec.effect, deps);
    let loaded = Arc::clone(loaded);
    let host = host.clone();
    let tool = Arc::new(tool.clone());
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

/// Returns the effect of a tool: the one that the owner declared, else one that runs programs. What a server in
/// `config.toml` claims counts where it cannot change the workspaces by a false claim.
pub(super) fn tool_effect(plugin: &Plugin, tool: &ListedTool) -> ToolEffect {
    if let Some(declared) = plugin.effects.get(&tool.name) {
        return *declared;
    }
    let is_believed = plugin.configured.is_some() && plugin.paths != WorkspaceAccess::Write;
    match tool {
        _ if !is_believed => ToolEffect::Executes,
        tool if tool.is_read_only => ToolEffect::Reads,
        tool if tool.is_additive => ToolEffect::Writes,
        _ => ToolEffect::Executes,
    }
}

fn tool_spec(plugin: &Plugin, tool: &ListedTool) -> ToolSpec {
    ToolSpec {
        name: Cow::Owned(plugin.offered_name(&tool.name)),
        domain: DOMAIN,
        description: tool.description.clone(),
        on_this_device: String::new(),
        schema: SchemaText::new(&tool.schema),
        effect: tool_effect(plugin, tool),
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
        origin: Cow::Owned(match &plugin.configured {
            Some(configured) => format!("mcp: {}", configured.name),
            None => format!("plugin: {}", plugin.id),
        }),
        only_ends: false,
        offered: true,
        always_asks: false,
    }
}

/// Returns the access of the calls of a tool: its files are known to nobody else, so the workspaces as a whole.
fn declared_access(plugin: &Plugin, effect: ToolEffect, deps: &PluginDeps) -> DeclaredAccess {
    let roots = deps.workspace.root_paths();
    let access = match plugin.paths {
        WorkspaceAccess::Hidden => DeclaredAccess::none(),
        // The owner says that this tool only reads, whatever its server may do.
        WorkspaceAccess::Write if effect != ToolEffect::Reads => {
            DeclaredAccess::writing_paths(roots.map(|root| root.display().to_string()))
        }
        WorkspaceAccess::Read | WorkspaceAccess::Write => {
            DeclaredAccess::none().with_default_location(DefaultLocation::AllWorkspaces(None))
        }
    };
    if plugin.remote_server().is_some() {
        return access;
    }
    access.starting_programs()
}
