//! `skills`: lists the skills that were loaded from the home, and the problems with the others.

use clap::{Args, Subcommand};
use serde_json::json;

use super::console;
use super::context::CliContext;
use super::exit::{CommandError, Exit};
use crate::home::{CopyTexts, HomeProblem, ProblemEffect, load_skills};

/// What to do with the home's documents; `list` without a word.
#[derive(Debug, Clone, Subcommand)]
pub enum DocumentsCommand {
    /// List all (the default)
    List,
    /// Show one
    Show {
        /// The name of its folder
        id: String,
    },
}

#[derive(Debug, Args)]
pub struct SkillsArgs {
    #[command(subcommand)]
    look: Option<DocumentsCommand>,
}

/// One skill or agent, as both commands show it.
pub struct ShownDocument {
    /// The name of its folder.
    pub id: String,
    /// Its row in the list, after the id.
    pub row: Vec<String>,
    /// The whole document, as it is published.
    pub published: String,
    /// The text.
    pub body: String,
}

/// Lists or shows the skills.
pub fn run_skills(args: &SkillsArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let (skills, problems) = load_skills(&context.open_home()?, CopyTexts::No);
    let shown = skills
        .into_iter()
        .map(|skill| ShownDocument {
            row: vec![
                skill.id.clone(),
                enabled_text(skill.enabled),
                console::cell_text(&skill.description, usize::MAX),
            ],
            published: skill.catalog_item().body,
            id: skill.id,
            body: skill.body,
        })
        .collect();
    show_documents(
        args.look.as_ref(),
        "skill",
        shown,
        &problems,
        context.is_json(),
    )
}

/// Formats whether it is enabled, for a cell.
pub fn enabled_text(enabled: bool) -> String {
    if enabled { "yes" } else { "no" }.to_owned()
}

/// Lists or shows documents of one kind.
pub fn show_documents(
    look: Option<&DocumentsCommand>,
    kind: &str,
    all: Vec<ShownDocument>,
    problems: &[HomeProblem],
    json: bool,
) -> anyhow::Result<Exit> {
    if let Some(DocumentsCommand::Show { id }) = look {
        let Some(one) = all.into_iter().find(|shown| shown.id == *id) else {
            let its = problems
                .iter()
                .filter(|problem| problem.effect == ProblemEffect::NotLoaded)
                .find(|problem| problem.path.parent().is_some_and(|at| at.ends_with(id)));
            let text = its.map_or_else(
                || format!("there is no {kind} {id:?} in the home"),
                ToString::to_string,
            );
            return Err(CommandError::with_exit(Exit::Failed, text));
        };
        console::print_unwrapped(if json { &one.published } else { &one.body });
        return Ok(Exit::Done);
    }
    if json {
        for shown in &all {
            console::print_unwrapped(&shown.published);
        }
        for problem in problems {
            console::print_json(&json!({
                "problem": problem.message,
                "path": problem.path.display().to_string(),
                "effect": problem.effect,
            }));
        }
        return Ok(Exit::Done);
    }
    if all.is_empty() && problems.is_empty() {
        console::print_line(&format!("There are no {kind}s in the home."));
    } else if !all.is_empty() {
        let rows: Vec<Vec<String>> = all.into_iter().map(|shown| shown.row).collect();
        console::print_table(&["ID", "USED", "DESCRIPTION"], &rows);
    }
    for problem in problems {
        console::print_paragraph("", &format!("{}: {problem}", problem.effect.as_heading()));
    }
    Ok(Exit::Done)
}
