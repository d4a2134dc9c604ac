//! `agents`: lists the agents that were loaded from the home, and the problems with the others.

use clap::Args;

use super::console;
use super::context::CliContext;
use super::exit::Exit;
use super::skills::{DocumentsCommand, ShownDocument, enabled_text, show_documents};
use crate::home::{CopyTexts, load_agents};

#[derive(Debug, Args)]
pub struct AgentsArgs {
    #[command(subcommand)]
    look: Option<DocumentsCommand>,
}

/// Lists or shows the agents.
pub fn run_agents(args: &AgentsArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let (agents, problems) = load_agents(&context.open_home()?, CopyTexts::No);
    let shown = agents
        .into_iter()
        .map(|agent| ShownDocument {
            row: vec![
                agent.id.clone(),
                enabled_text(agent.enabled),
                console::cell_text(&agent.description, usize::MAX),
            ],
            published: agent.catalog_item().body,
            id: agent.id,
            body: agent.body,
        })
        .collect();
    show_documents(
        args.look.as_ref(),
        "agent",
        shown,
        &problems,
        context.is_json(),
    )
}
