//! Converts the owner's list of effects and tools to ask about, the rights of callers, and the owner's rules, for the
//! gate.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use crate::cli::exit::{CommandError, Exit};
use crate::config::{CallerTable, Config};
use punie_home::{Home, command_to_type};
use punie_host::Workspace;
use punie_host::active_rules::ActiveRules;
use punie_host::permission::{AskCondition, CallerRights};
use punie_tool::ToolRegistry;
use punie_tool::request::ToolEffect;

/// Parses the list. An entry that is neither an effect nor a tool is an error, because it would silently ask for
/// nothing.
pub(super) fn parse_ask_list(
    config: &Config,
    registry: &ToolRegistry,
) -> anyhow::Result<Vec<AskCondition>> {
    let about = |word: &String| match word.as_str() {
        "reads" => Ok(AskCondition::Effect(ToolEffect::Reads)),
        "writes" => Ok(AskCondition::Effect(ToolEffect::Writes)),
        "executes" => Ok(AskCondition::Effect(ToolEffect::Executes)),
        name => {
            check_tool_word("policy.ask", name, registry)?;
            Ok(AskCondition::Tool(name.to_owned()))
        }
    };
    config.policy.ask.iter().map(about).collect()
}

/// Converts the rights of callers. A word that is neither an effect nor a tool is an error here, too.
pub fn parse_caller_rights(
    config: &Config,
    registry: &ToolRegistry,
) -> anyhow::Result<Vec<CallerRights>> {
    let rights_of = |(name, table): (&String, &CallerTable)| {
        let words = table.tools.iter().flatten();
        for word in words.filter(|word| !word.starts_with("guest:")) {
            check_tool_word(&format!("callers.{name}.tools"), word, registry)?;
        }
        Ok(CallerRights {
            name: name.clone(),
            tools: table.tools.clone(),
            profile: table.profile,
            workspaces: table.workspaces.clone(),
            rate: table.rate,
        })
    };
    config.callers.iter().map(rights_of).collect()
}

/// Refuses a word that is neither an effect nor a tool of this device, with the one that was probably meant.
fn check_tool_word(key: &str, word: &str, registry: &ToolRegistry) -> anyhow::Result<()> {
    let effects = ["reads", "writes", "executes"];
    let names = registry.device_specs().map(|tool| tool.name.as_ref());
    let known: Vec<&str> = effects.into_iter().chain(names).collect();
    if known.contains(&word) {
        return Ok(());
    }
    let near = known
        .into_iter()
        .map(|name| (strsim::normalized_damerau_levenshtein(word, name), name))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(likeness, _)| *likeness > 0.6);
    let meant = near.map_or_else(String::new, |(_, name)| format!(". Did you mean {name:?}?"));
    let text = format!(
        "{key} holds {word:?}, which is neither reads, writes, executes nor a tool (`{}` lists them){meant}",
        command_to_type("tools")
    );
    Err(CommandError::with_exit(Exit::Config, text))
}

/// Loads the rules of policy.toml; an ambiguous or invalid file is a configuration error.
pub(super) fn load_policy_rules(
    home: &Home,
    workspace: &Workspace,
    registry: &ToolRegistry,
) -> anyhow::Result<ActiveRules> {
    let names: HashSet<String> = registry
        .device_specs()
        .map(|tool| tool.name.to_string())
        .collect();
    let is_tool = Arc::new(move |name: &str| names.contains(name));
    let workspaces = workspace.root_paths().map(Path::to_owned).collect();
    ActiveRules::load_from_home(home, workspaces, is_tool).map_err(|broken| {
        let file = home.policy_file();
        let line = broken
            .line
            .map_or_else(String::new, |line| format!(", line {line}"));
        let text = format!("{}{line}: {}", file.display(), broken.text);
        CommandError::with_exit(Exit::Config, text)
    })
}
