//! `agents`: lists the agents that were loaded from the home, and the problems with the others.

use clap::Args;

use super::context::CliContext;
use super::exit::Exit;
use super::skills::{DocumentsCommand, ShownDocument, run_documents};
use punie_home::{CopyTexts, DocumentKind, Home, load_agents, plugin_of_document};

#[derive(Debug, Args)]
pub struct AgentsArgs {
    #[command(subcommand)]
    look: Option<DocumentsCommand>,
}

/// Lists, shows, imports or updates the agents.
pub fn run_agents(args: &AgentsArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let load = |home: &Home| {
        let (agents, problems) = load_agents(home, CopyTexts::No);
        let shown = agents.into_iter().map(|agent| ShownDocument {
            plugin: plugin_of_document(home, &agent.file),
            item: agent.catalog_item(),
            id: agent.id,
            enabled: agent.enabled,
            description: agent.description,
            body: agent.body,
        });
        (shown.collect(), problems)
    };
    run_documents(args.look.as_ref(), DocumentKind::Agent, context, load)
}
