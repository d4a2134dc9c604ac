//! `tools`: lists the tools, or shows all about one.

use clap::Args;

use super::console;
use super::context::{CliContext, command_runtime};
use super::exit::{CommandError, Exit};
use super::wiring;
use crate::config::WorkspaceRule;
use crate::tool::{CallLane, ToolSpec, render_catalog_markdown};

#[derive(Debug, Args)]
pub struct ToolsArgs {
    /// The tool to show
    name: Option<String>,
    /// Print all tools as one page of Markdown
    #[arg(long, conflicts_with = "name")]
    markdown: bool,
}

/// Lists the tools, or shows one.
pub fn run_tools(args: &ToolsArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let mut config = context.effective_config(WorkspaceRule::NotNeeded)?;
    let home = CliContext::config_home(&config)?;
    if config.workspaces.is_empty() {
        // Nothing runs here, so any folder will do for assembling the tools.
        config.workspaces.push(home.root_dir().to_owned());
    }
    let runtime = command_runtime()?;
    let _inside = runtime.enter();
    let machine = wiring::assemble_lone_host(&config, &home, context.environment())?;
    match &args.name {
        None if args.markdown => {
            console::print_line(
                render_catalog_markdown(machine.registry.device_specs()).trim_end(),
            );
        }
        None => list_tools(machine.registry.device_specs(), context.is_json()),
        Some(name) => {
            let entry = machine
                .registry
                .find_tool(name)
                .map_err(|error| CommandError::with_exit(Exit::Failed, error.model_text()))?;
            show_tool(entry.tool_spec(), context.is_json());
        }
    }
    Ok(Exit::Done)
}

fn list_tools<'a>(specs: impl Iterator<Item = &'a ToolSpec>, json: bool) {
    if json {
        specs
            .filter(|spec| spec.offered)
            .for_each(|spec| console::print_json(&spec.catalog_body()));
        return;
    }
    let rows: Vec<Vec<String>> = specs
        .map(|spec| {
            let what = if spec.offered {
                &spec.description
            } else {
                "(not offered: it cannot work here)"
            };
            let what = console::cell_text(what, 90);
            vec![
                spec.name.to_string(),
                spec.domain.to_owned(),
                spec.effect.as_str().to_owned(),
                what,
            ]
        })
        .collect();
    console::print_table(&["TOOL", "DOMAIN", "EFFECT", "WHAT IT DOES"], &rows);
}

fn show_tool(spec: &ToolSpec, json: bool) {
    if json {
        return console::print_json(&spec.catalog_body());
    }
    let lane = if spec.lane == CallLane::Control {
        ", runs beside everything"
    } else {
        ""
    };
    console::print_line(&format!(
        "{} ({}, {}{lane})\n\n{}\n",
        spec.name,
        spec.domain,
        spec.effect.as_str(),
        spec.description
    ));
    console::print_line(&format!(
        "Arguments:\n{}",
        serde_json::to_string_pretty(&spec.schema).unwrap_or_default()
    ));
    if !spec.aliases.is_empty() {
        let also: Vec<String> = spec
            .aliases
            .iter()
            .map(|(alias, key)| format!("{alias} for {key}"))
            .collect();
        console::print_line(&format!("\nAlso understood: {}", also.join(", ")));
    }
    if !spec.limits.is_empty() {
        console::print_line("\nLimits:");
        spec.limits
            .iter()
            .for_each(|limit| console::print_line(&format!("  {limit}")));
    }
    if !spec.examples.is_empty() {
        console::print_line("\nExamples:");
        for example in spec.examples {
            console::print_line(&format!(
                "  punie-runner call {} '{}'",
                spec.name,
                example.replace('\'', r"'\''")
            ));
        }
    }
}
