//! Converts the owner's list of effects and tools to ask about, and the owner's rules, for the gate.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use crate::acp::Workspace;
use crate::acp::permission::{ActiveRules, AskCondition};
use crate::cli::exit::{CommandError, Exit};
use crate::config::Config;
use crate::home::{Home, command_to_type};
use crate::request::ToolEffect;
use crate::tool::ToolRegistry;

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
        name if registry.device_specs().any(|tool| tool.name == name) => {
            Ok(AskCondition::Tool(name.to_owned()))
        }
        other => {
            let names = registry.device_specs().map(|tool| tool.name.as_ref());
            let near = ["reads", "writes", "executes"]
                .into_iter()
                .chain(names)
                .map(|name| (strsim::normalized_damerau_levenshtein(other, name), name))
                .max_by(|a, b| a.0.total_cmp(&b.0))
                .filter(|(likeness, _)| *likeness > 0.6);
            let meant =
                near.map_or_else(String::new, |(_, name)| format!(". Did you mean {name:?}?"));
            let text = format!(
                "policy.ask holds {other:?}, which is neither reads, writes, executes nor a tool (`{}` lists \
                 them){meant}",
                command_to_type("tools")
            );
            Err(CommandError::with_exit(Exit::Config, text))
        }
    };
    config.policy.ask.iter().map(about).collect()
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
