//! `skills`: lists the skills that were loaded from the home, and the problems with the others. The same for agents.

use std::collections::BTreeMap;
use std::path::Path;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::context::CliContext;
use super::document_import::{ImportArgs, UpdateArgs};
use super::exit::{CommandError, Exit};
use super::table::Column;
use super::{console, document_import};
use punie_home::{
    CatalogEntry, CopyTexts, DocumentKind, Home, HomeProblem, ProblemEffect, fit_catalog,
    list_import_sources, load_skills, plugin_of_document,
};
use punie_text::output::hidden_characters::escape_hidden_characters;

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
    /// Copy some from elsewhere into the home; those that are there and yours stay
    Import(ImportArgs),
    /// Look at the sources of imported ones again, and replace those that changed there
    Update(UpdateArgs),
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
    /// It may be used.
    pub enabled: bool,
    /// Its purpose.
    pub description: String,
    /// The whole document, as it is published.
    pub item: CatalogEntry,
    /// The text.
    pub body: String,
    /// The plugin that brings it.
    pub plugin: Option<String>,
}

impl ShownDocument {
    /// Returns where it comes from, if it is not the owner's.
    fn from(&self, sources: &BTreeMap<String, String>) -> Option<String> {
        match &self.plugin {
            Some(plugin) => Some(format!("plugin {plugin}")),
            None => sources.get(&self.id).cloned(),
        }
    }
}

/// Lists, shows, imports or updates the skills.
pub fn run_skills(args: &SkillsArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let load = |home: &Home| {
        let (skills, problems) = load_skills(home, CopyTexts::No);
        let shown = skills.into_iter().map(|skill| ShownDocument {
            plugin: plugin_of_document(home, &skill.file),
            item: skill.catalog_item(),
            id: skill.id,
            enabled: skill.enabled,
            description: skill.description,
            body: skill.body,
        });
        (shown.collect(), problems)
    };
    run_documents(args.look.as_ref(), DocumentKind::Skill, context, load)
}

/// Runs the command for documents of one kind.
pub fn run_documents(
    command: Option<&DocumentsCommand>,
    kind: DocumentKind,
    context: &CliContext,
    load: impl FnOnce(&Home) -> (Vec<ShownDocument>, Vec<HomeProblem>),
) -> anyhow::Result<Exit> {
    match command {
        Some(DocumentsCommand::Import(args)) => {
            return document_import::run_import(kind, args, context);
        }
        Some(DocumentsCommand::Update(args)) => {
            return document_import::run_update(kind, args, context);
        }
        _ => {}
    }
    let home = context.open_home()?;
    let (all, mut problems) = load(&home);
    if let Some(DocumentsCommand::Show { id }) = command {
        return show_document(all, &problems, kind, id, context.is_json());
    }
    let mut items: Vec<CatalogEntry> = all.iter().map(|shown| shown.item.clone()).collect();
    problems.extend(fit_catalog(&mut items, &kind.folder(&home)));
    let sources = list_import_sources(&home, kind);
    if context.is_json() {
        print_json_lines(&all, &problems, &sources);
        return Ok(Exit::Done);
    }
    let user = context.environment().user_dir();
    if all.is_empty() && problems.is_empty() {
        console::print_line(&format!("There are no {} in the home.", kind.plural()));
    } else if !all.is_empty() {
        let row = |shown: ShownDocument| {
            let from = shown.from(&sources).unwrap_or_default();
            let from = console::shorten_path(Path::new(&from), user);
            vec![
                shown.id,
                if shown.enabled { "yes" } else { "no" }.to_owned(),
                console::cell_text(&shown.description, usize::MAX),
                console::cell_text(&from, usize::MAX),
            ]
        };
        let columns = [
            Column::text("ID"),
            Column::text("USED"),
            Column::flexible("DESCRIPTION"),
            Column::path("FROM"),
        ];
        console::print_table(&columns, &all.into_iter().map(row).collect::<Vec<_>>());
    }
    for problem in problems {
        let text = format!("{}: {problem}", problem.effect.as_heading());
        console::print_paragraph("", &escape_hidden_characters(&text));
    }
    Ok(Exit::Done)
}

fn show_document(
    all: Vec<ShownDocument>,
    problems: &[HomeProblem],
    kind: DocumentKind,
    id: &str,
    as_json: bool,
) -> anyhow::Result<Exit> {
    let Some(one) = all.into_iter().find(|shown| shown.id == *id) else {
        let its = problems
            .iter()
            .filter(|problem| problem.effect == ProblemEffect::NotLoaded)
            .find(|problem| problem.path.parent().is_some_and(|at| at.ends_with(id)));
        let text = its.map_or_else(
            || format!("there is no {} {id:?} in the home", kind.singular()),
            ToString::to_string,
        );
        return Err(CommandError::with_exit(Exit::Failed, text));
    };
    console::print_unwrapped(if as_json { &one.item.body } else { &one.body });
    Ok(Exit::Done)
}

/// Prints each document as it is published, with the source of an imported one, and then the problems.
fn print_json_lines(
    all: &[ShownDocument],
    problems: &[HomeProblem],
    sources: &BTreeMap<String, String>,
) {
    for shown in all {
        match (
            shown.from(sources),
            serde_json::from_str::<Value>(&shown.item.body),
        ) {
            (Some(source), Ok(mut published)) => {
                published["from"] = source.into();
                console::print_json(&published);
            }
            _ => console::print_unwrapped(&shown.item.body),
        }
    }
    for problem in problems {
        console::print_json(&json!({
            "problem": problem.message,
            "path": problem.path.display().to_string(),
            "effect": problem.effect,
        }));
    }
}
