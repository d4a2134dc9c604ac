//! Converts the owner's list of effects and tools to ask about, and the owner's rules, for the gate.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use crate::acp::Workspace;
use crate::acp::permission::{AskAbout, StandingRules};
use crate::cli::exit::{Exit, Stop};
use crate::config::Config;
use crate::home::Home;
use crate::request::Effect;
use crate::tool::Registry;

/// Parses the list. An entry that is neither an effect nor a tool is an error, because it would silently ask for
/// nothing.
pub(super) fn asked_about(config: &Config, registry: &Registry) -> anyhow::Result<Vec<AskAbout>> {
    let about = |word: &String| match word.as_str() {
        "reads" => Ok(AskAbout::Effect(Effect::Reads)),
        "writes" => Ok(AskAbout::Effect(Effect::Writes)),
        "executes" => Ok(AskAbout::Effect(Effect::Executes)),
        name if registry.specs().any(|tool| tool.name == name) => Ok(AskAbout::Tool(name.to_owned())),
        other => {
            let text = format!(
                "policy.ask holds {other:?}, which is neither reads, writes, executes nor a tool (`punie-runner tools` \
                 lists them)"
            );
            Err(Stop::with(Exit::Config, text))
        }
    };
    config.policy.ask.iter().map(about).collect()
}

/// Loads the rules of policy.toml; an ambiguous or invalid file is a configuration error.
pub(super) fn rules(
    home: &Home,
    workspace: &Workspace,
    registry: &Registry,
) -> anyhow::Result<StandingRules> {
    let names: HashSet<String> = registry.specs().map(|tool| tool.name.to_string()).collect();
    let is_tool = Arc::new(move |name: &str| names.contains(name));
    let workspaces = workspace.roots().map(Path::to_owned).collect();
    StandingRules::load(home, workspaces, is_tool)
        .map_err(|broken| Stop::with(Exit::Config, format!("{}: {broken}", home.policy_file().display())))
}
