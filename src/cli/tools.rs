//! `tools`: lists the tools, or shows all about one.

use clap::Args;

use super::context::{Context, runtime};
use super::exit::{Exit, Stop};
use super::print;
use super::wiring;
use crate::config::WorkspaceRule;
use crate::tool::{Lane, ToolSpec, page};

#[derive(Debug, Args)]
pub struct ToolsArgs {
    /// The tool to show everything about
    name: Option<String>,
    /// Write all of it as one page of Markdown
    #[arg(long, conflicts_with = "name")]
    markdown: bool,
}

/// Lists the tools, or shows one.
pub fn tools(args: &ToolsArgs, context: &Context) -> anyhow::Result<Exit> {
    let mut config = context.config(WorkspaceRule::NotNeeded)?;
    let home = Context::home(&config)?;
    if config.workspaces.is_empty() {
        // Nothing runs here, so any folder will do for assembling the tools.
        config.workspaces.push(home.root().to_owned());
    }
    let runtime = runtime()?;
    let _inside = runtime.enter();
    let machine = wiring::machine_alone(&config, &home, context.environment())?;
    match &args.name {
        None if args.markdown => print::line(page(machine.registry.specs()).trim_end()),
        None => list(machine.registry.specs(), context.json()),
        Some(name) => {
            let entry =
                machine.registry.find(name).map_err(|error| Stop::with(Exit::Failed, error.text()))?;
            one(entry.spec(), context.json());
        }
    }
    Ok(Exit::Done)
}

fn list<'a>(specs: impl Iterator<Item = &'a ToolSpec>, json: bool) {
    if json {
        specs.filter(|spec| spec.offered).for_each(|spec| print::json(&spec.catalog_body()));
        return;
    }
    let rows: Vec<Vec<String>> = specs
        .map(|spec| {
            let what = if spec.offered { &spec.description } else { "(not offered: it cannot work here)" };
            let what = print::cell(what, 90);
            vec![spec.name.to_string(), spec.domain.to_owned(), spec.effect.as_str().to_owned(), what]
        })
        .collect();
    print::table(&["TOOL", "DOMAIN", "EFFECT", "WHAT IT DOES"], &rows);
}

fn one(spec: &ToolSpec, json: bool) {
    if json {
        return print::json(&spec.catalog_body());
    }
    let lane = if spec.lane == Lane::Control { ", runs beside everything" } else { "" };
    print::line(&format!(
        "{} ({}, {}{lane})\n\n{}\n",
        spec.name,
        spec.domain,
        spec.effect.as_str(),
        spec.description
    ));
    print::line(&format!("Arguments:\n{}", serde_json::to_string_pretty(&spec.schema).unwrap_or_default()));
    if !spec.aliases.is_empty() {
        let also: Vec<String> =
            spec.aliases.iter().map(|(alias, key)| format!("{alias} for {key}")).collect();
        print::line(&format!("\nAlso understood: {}", also.join(", ")));
    }
    if !spec.limits.is_empty() {
        print::line("\nLimits:");
        spec.limits.iter().for_each(|limit| print::line(&format!("  {limit}")));
    }
    if !spec.examples.is_empty() {
        print::line("\nExamples:");
        for example in spec.examples {
            print::line(&format!("  punie-runner call {} '{}'", spec.name, example.replace('\'', r"'\''")));
        }
    }
}
