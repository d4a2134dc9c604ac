//! `diff`: shows what a request changed.

use clap::Args;

use super::context::CliContext;
use super::exit::Exit;
use super::{console, undo, wiring};
use crate::config::WorkspaceRule;
use punie_text::output::hidden_characters::escape_hidden_characters;

#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The request: its id, the end or the beginning of it, or @last
    request: String,
}

/// Shows what a request changed.
pub fn run_diff(args: &DiffArgs, context: &CliContext) -> anyhow::Result<Exit> {
    show_diff(&args.request, false, context)
}

/// Shows what a request changed, or what undoing it would change.
pub fn show_diff(request: &str, is_reversed: bool, context: &CliContext) -> anyhow::Result<Exit> {
    let (config, home) = context.config_and_home(WorkspaceRule::NotNeeded)?;
    let trash = wiring::open_trash(&config, &home);
    let request = undo::find_backup(&home, &trash, request)?;
    let diff = trash.diff_request(&request, is_reversed);
    let diff = diff.map_err(|unready| undo::undo_error(&home, &unready, &request))?;
    if context.is_json() {
        console::print_json(&serde_json::json!({ "diff": diff }));
    } else if diff.is_empty() {
        console::print_line("The request changed nothing that is kept.");
    } else {
        for line in escape_hidden_characters(&diff).lines() {
            console::print_line(line);
        }
    }
    Ok(Exit::Done)
}
