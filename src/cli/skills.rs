//! `skills`: lists the skills that were loaded from the home, and the problems with the others.

use clap::{Args, Subcommand};
use serde_json::json;

use super::context::Context;
use super::exit::{Exit, Stop};
use super::print;
use crate::config::WorkspaceRule;
use crate::home::{Problem, load_skills};

/// What to do with the home's documents; `list` without a word.
#[derive(Debug, Clone, Subcommand)]
pub enum Look {
    /// All of them, one a line
    List,
    /// One, whole
    Show {
        /// The name of its folder
        id: String,
    },
}

#[derive(Debug, Args)]
pub struct SkillsArgs {
    #[command(subcommand)]
    look: Option<Look>,
}

/// One skill or agent, as both commands show it.
pub struct Shown {
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
pub fn skills(args: &SkillsArgs, context: &Context) -> anyhow::Result<Exit> {
    let config = context.config(WorkspaceRule::NotNeeded)?;
    let (skills, problems) = load_skills(&Context::home(&config)?);
    let shown = skills
        .into_iter()
        .map(|skill| Shown {
            row: vec![skill.id.clone(), used(skill.enabled), print::cell(&skill.description, 80)],
            published: skill.catalog_item().body,
            id: skill.id,
            body: skill.body,
        })
        .collect();
    look(args.look.as_ref(), "skill", shown, &problems, context.json())
}

/// Formats whether it is enabled, for a cell.
pub fn used(enabled: bool) -> String {
    if enabled { "yes" } else { "no" }.to_owned()
}

/// Lists or shows documents of one kind.
pub fn look(
    look: Option<&Look>,
    kind: &str,
    all: Vec<Shown>,
    problems: &[Problem],
    json: bool,
) -> anyhow::Result<Exit> {
    if let Some(Look::Show { id }) = look {
        let Some(one) = all.into_iter().find(|shown| shown.id == *id) else {
            let its =
                problems.iter().find(|problem| problem.path.parent().is_some_and(|at| at.ends_with(id)));
            let text =
                its.map_or_else(|| format!("there is no {kind} {id:?} in the home"), ToString::to_string);
            return Err(Stop::with(Exit::Failed, text));
        };
        print::line(if json { &one.published } else { &one.body });
        return Ok(Exit::Done);
    }
    if json {
        for shown in &all {
            print::line(&shown.published);
        }
        for problem in problems {
            print::json(&json!({"problem": problem.what, "path": problem.path.display().to_string()}));
        }
        return Ok(Exit::Done);
    }
    if all.is_empty() && problems.is_empty() {
        print::line(&format!("There are no {kind}s in the home."));
    } else {
        let rows: Vec<Vec<String>> = all.into_iter().map(|shown| shown.row).collect();
        print::table(&["ID", "USED", "DESCRIPTION"], &rows);
    }
    for problem in problems {
        print::line(&format!("not loaded: {problem}"));
    }
    Ok(Exit::Done)
}
