//! `plugins`: lists the plugins of the home, their tools, and what is wrong with them.

use std::path::Path;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::console;
use super::context::{CliContext, command_runtime};
use super::document_import::{InstallArgs, UpdatePluginsArgs};
use super::exit::Exit;
use super::{document_import, wiring};
use crate::config::WorkspaceRule;
use punie_core::owner_choices::WorkspaceAccess;
use punie_handlers::plugin::PluginReport;
use punie_home::{HomeProblem, Plugin, command_to_type};
use punie_host::terminals::StopSequence;

#[derive(Debug, Args)]
pub struct PluginsArgs {
    #[command(subcommand)]
    look: Option<PluginsCommand>,
}

/// What to do with the plugins; `list` without a word.
#[derive(Debug, Subcommand)]
enum PluginsCommand {
    /// List all (the default)
    List,
    /// Copy some into the home, and let them run; asks about each
    Install(InstallArgs),
    /// Look at the sources of installed ones again, and replace those that changed there
    Update(UpdatePluginsArgs),
}

/// Lists, installs or updates the plugins.
pub fn run_plugins(args: &PluginsArgs, context: &CliContext) -> anyhow::Result<Exit> {
    match &args.look {
        None | Some(PluginsCommand::List) => list_plugins(context),
        Some(PluginsCommand::Install(args)) => document_import::run_install(args, context),
        Some(PluginsCommand::Update(args)) => document_import::run_plugin_update(args, context),
    }
}

/// Lists the plugins. Those that were never asked for their tools are started for that.
fn list_plugins(context: &CliContext) -> anyhow::Result<Exit> {
    // Servers that start in the first workspace are not started where none is known.
    let (config, home) = context.config_with_runner_workspaces(WorkspaceRule::NotNeeded)?;
    let runtime = command_runtime()?;
    let (reports, problems) = runtime.block_on(async {
        let machine = wiring::assemble_lone_host(&config, &home, context.environment())?;
        machine.plugins.reload().await;
        let stop = StopSequence::kill_at_once();
        machine.base.terminals.stop_all_commands(stop).await;
        anyhow::Ok(machine.plugins.reports())
    })?;
    runtime.shutdown_background();
    if context.is_json() {
        reports
            .iter()
            .map(report_json)
            .for_each(|report| console::print_json(&report));
        problems
            .iter()
            .map(problem_json)
            .for_each(|problem| console::print_json(&problem));
    } else {
        print_reports(&reports, &problems);
        if reports.is_empty() && problems.is_empty() {
            console::print_paragraph(
                "",
                &format!(
                    "There are no plugins in the home. `{}` copies some into {}.",
                    command_to_type("plugins install SOURCE"),
                    home.plugins_dir().display()
                ),
            );
        }
    }
    Ok(Exit::Done)
}

/// Returns the name of the folder of a plugin that cannot be loaded.
fn problem_id(problem: &HomeProblem) -> String {
    let folder = problem.path.parent().and_then(|folder| folder.file_name());
    folder.unwrap_or_default().to_string_lossy().into_owned()
}

fn report_json(report: &PluginReport) -> Value {
    let tools = report
        .tools
        .iter()
        .map(|(name, effect)| json!({"name": name, "effect": effect.as_str()}));
    json!({
        "id": report.id,
        "state": if report.problems.is_empty() { "ok" } else { "problem" },
        "name": report.name,
        "description": report.description,
        "version": report.version,
        "paths": report.paths,
        "network": if report.network { "ask" } else { "none" },
        "tools": tools.collect::<Vec<_>>(),
        "problems": report.problems,
    })
}

fn problem_json(problem: &HomeProblem) -> Value {
    json!({
        "id": problem_id(problem),
        "state": "problem",
        "tools": [],
        "problems": [problem.message],
        "path": problem.path.display().to_string(),
    })
}

fn print_reports(reports: &[PluginReport], problems: &[HomeProblem]) {
    let row = |report: &PluginReport| {
        let names: Vec<&str> = report.tools.iter().map(|(name, _)| name.as_str()).collect();
        vec![
            report.id.clone(),
            if report.problems.is_empty() {
                "ok"
            } else {
                "problem"
            }
            .to_owned(),
            access_text(report.paths, report.network),
            console::cell_text(&names.join(", "), usize::MAX),
        ]
    };
    let broken = |problem: &HomeProblem| {
        vec![
            problem_id(problem),
            "problem".to_owned(),
            String::new(),
            String::new(),
        ]
    };
    let mut rows: Vec<Vec<String>> = reports.iter().map(row).collect();
    rows.extend(problems.iter().map(broken));
    rows.sort();
    if !rows.is_empty() {
        console::print_table(&["ID", "STATE", "MAY USE", "TOOLS"], &rows);
    }
    for report in reports {
        for problem in &report.problems {
            console::print_paragraph("", &format!("{}: {problem}.", report.id));
        }
    }
    for problem in problems {
        console::print_paragraph("", &format!("not loaded: {problem}."));
    }
}

/// Describes what a plugin asks for, before it is installed.
pub fn describe_access(plugin: &Plugin) -> Vec<String> {
    // A path in the folder is shown as the manifest has it: the copy that is asked about lies elsewhere.
    let program = plugin.program.iter().map(|program| {
        let within = Path::new(program).strip_prefix(&plugin.folder);
        within.map_or_else(
            |_| program.clone(),
            |within| format!("./{}", within.display()),
        )
    });
    let program: Vec<String> = program.chain(plugin.args.iter().cloned()).collect();
    let mut lines = vec![plugin.description.clone()];
    if plugin.program.is_some() {
        let access = access_text(plugin.paths, plugin.has_network);
        lines.push(format!("runs: {}", program.join(" ")));
        lines.push(format!("may use: {access}"));
    } else {
        lines.push("has skills or agents, and no program of its own".to_owned());
    }
    lines.retain(|line| !line.trim().is_empty());
    lines
}

/// Describes the access of a plugin, for a cell.
fn access_text(paths: WorkspaceAccess, has_network: bool) -> String {
    let paths = match paths {
        WorkspaceAccess::Hidden => None,
        WorkspaceAccess::Read => Some("reads files"),
        WorkspaceAccess::Write => Some("writes files"),
    };
    let network = has_network.then_some("asks for hosts");
    let all: Vec<&str> = paths.into_iter().chain(network).collect();
    if all.is_empty() {
        "nothing".to_owned()
    } else {
        all.join(", ")
    }
}
