//! The question to the owner whether git may use the repository of a workspace that is a linked worktree or a
//! submodule.

use std::io::IsTerminal as _;

use super::context::CliContext;
use super::{console, wiring};
use crate::config::Config;
use punie_home::{Home, command_to_type};

/// Asks the owner once about each repository that is hidden from git in a workspace, and makes a rule of the answer.
/// Without a terminal, prints the command that allows it.
pub(super) fn ask_about_repositories(
    context: &CliContext,
    config: &Config,
    home: &Home,
) -> anyhow::Result<()> {
    // What keeps the rules from being read is told where they are needed.
    let Ok(folders) = wiring::open_session_folders(config, home, context.environment()) else {
        return Ok(());
    };
    let can_ask =
        !context.is_json() && std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    for linked in folders.undecided_repositories(&config.workspaces) {
        if !can_ask {
            console::print_stderr(&format!("{}\n", linked.describe_hidden()));
            continue;
        }
        let question = format!("{}. Let git use it? [y/N] ", linked.describe_place());
        let Some(answer) = console::ask_line(&question)? else {
            return Ok(());
        };
        let is_yes = matches!(answer.as_str(), "y" | "Y" | "yes");
        let recorded = folders.record_answer(&linked.repository, is_yes);
        let rule = recorded.map_err(anyhow::Error::msg)?;
        console::print_stderr(&format!(
            "Added the rule {rule} to policy.toml; `{}` takes it back.\n",
            command_to_type(&format!("policy revoke {rule}"))
        ));
    }
    Ok(())
}
