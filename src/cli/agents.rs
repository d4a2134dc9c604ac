//! `agents`: lists the agents that were loaded from the home, and the problems with the others.

use clap::Args;

use super::context::Context;
use super::exit::Exit;
use super::print;
use super::skills::{Look, Shown, look, used};
use crate::config::WorkspaceRule;
use crate::home::load_agents;

#[derive(Debug, Args)]
pub struct AgentsArgs {
    #[command(subcommand)]
    look: Option<Look>,
}

/// Lists or shows the agents.
pub fn agents(args: &AgentsArgs, context: &Context) -> anyhow::Result<Exit> {
    let config = context.config(WorkspaceRule::NotNeeded)?;
    let (agents, problems) = load_agents(&Context::home(&config)?);
    let shown = agents
        .into_iter()
        .map(|agent| Shown {
            row: vec![agent.id.clone(), used(agent.enabled), print::cell(&agent.description, 80)],
            published: agent.catalog_item().body,
            id: agent.id,
            body: agent.body,
        })
        .collect();
    look(args.look.as_ref(), "agent", shown, &problems, context.json())
}
