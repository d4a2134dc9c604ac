//! `tools`: lists the tools, or shows all about one.

use clap::Args;
use serde_json::{Map, Value};

use super::console;
use super::context::{CliContext, command_runtime};
use super::exit::{CommandError, Exit};
use super::table::Column;
use super::wiring;
use crate::config::WorkspaceRule;
use punie_home::{command_to_type, shell_word};
use punie_host::permission::CallerRights;
use punie_tool::{
    CallLane, ModelFormat, SchemaArgument, ToolProfile, ToolSpec, domain_rank, is_entry_in_profile,
    list_arguments, render_catalog_markdown,
};

/// The columns of an example where no terminal shows it.
const EXAMPLE_WIDTH: usize = 80;
/// The indent of a continued example, without the blank before its next word.
const CONTINUED: &str = "   ";

#[derive(Debug, Args)]
pub struct ToolsArgs {
    /// The tool to show
    name: Option<String>,
    /// Also list the compatibility names, such as git_status for GitStatus
    #[arg(long, conflicts_with = "name")]
    all: bool,
    /// Write all of it as one page of Markdown
    #[arg(long, conflicts_with = "name")]
    markdown: bool,
    /// Write the tools as the API of a model takes them: anthropic, openai, openai-chat, gemini, mcp
    #[arg(long, value_name = "FORM", conflicts_with_all = ["name", "all", "markdown"], value_parser = parse_format)]
    format: Option<ModelFormat>,
    /// Only those of a profile: minimal, coding, all
    #[arg(long, value_name = "PROFILE", conflicts_with_all = ["name", "all", "markdown"], value_parser = parse_profile)]
    profile: Option<ToolProfile>,
    /// Only those that this caller may call, by its rights in config.toml
    #[arg(long, value_name = "CALLER", conflicts_with_all = ["name", "markdown"])]
    caller: Option<String>,
}

/// Parses the name of a profile.
pub fn parse_profile(text: &str) -> Result<ToolProfile, String> {
    find_by_name(&ToolProfile::NAMES, text)
}

fn parse_format(text: &str) -> Result<ModelFormat, String> {
    find_by_name(&ModelFormat::NAMES, text)
}

fn find_by_name<T: Copy>(names: &[(&str, T)], text: &str) -> Result<T, String> {
    let found = names.iter().find(|(name, _)| *name == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        format!("{text:?} is none of {}", names.join(", "))
    })
}

/// Lists the tools, or shows one.
pub fn run_tools(args: &ToolsArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let mut config = context.effective_config(WorkspaceRule::NotNeeded)?;
    let home = CliContext::config_home(&config)?;
    if args.markdown {
        // The page has the tools that an owner can switch on, too. Nothing runs here, so any folder will do.
        config.store.enabled = true;
        let current = context.environment().current_dir();
        config.workspaces.extend(current.map(ToOwned::to_owned));
        config.self_mod.root = config.workspaces.first().cloned();
    }
    let runtime = command_runtime()?;
    let _inside = runtime.enter();
    let machine = wiring::assemble_lone_host(&config, &home, context.environment())?;
    match &args.name {
        None if args.markdown => {
            console::print_unwrapped(
                render_catalog_markdown(machine.registry.device_specs()).trim_end(),
            );
        }
        None => {
            let entries = machine.registry.callable_entries();
            let specs = entries.iter().map(|entry| entry.tool_spec());
            let profile = args.profile;
            let all_rights = wiring::parse_caller_rights(&config, &machine.registry)?;
            let rights = args
                .caller
                .as_deref()
                .and_then(|caller| CallerRights::find_for(&all_rights, Some(caller)));
            let specs = specs.filter(|spec| {
                profile.is_none_or(|profile| is_entry_in_profile(&spec.catalog_body(), profile))
                    && rights.is_none_or(|rights| rights.offers_tool(spec))
            });
            match args.format {
                Some(format) => print_for_model(specs, format),
                None => list_tools(specs, args.all, context.is_json()),
            }
            for report in machine.plugins.reports().0 {
                for problem in report.problems {
                    console::print_error(&format!("{}: {problem}", report.name));
                }
            }
            if let (Some(caller), None, false) = (&args.caller, args.format, context.is_json()) {
                console::print_line(&describe_caller(caller, rights));
            }
        }
        Some(name) => {
            let entry = machine
                .registry
                .find(name)
                .map_err(|error| CommandError::with_exit(Exit::Failed, error.model_text()))?;
            show_tool(entry.tool_spec(), context.is_json());
        }
    }
    Ok(Exit::Done)
}

/// Describes the rights of a caller in one line.
fn describe_caller(caller: &str, rights: Option<&CallerRights>) -> String {
    match rights {
        None => {
            format!("The caller {caller:?} has no rights of its own: it may call all of these.")
        }
        Some(rights) => format!(
            "The caller {caller:?} has the rights of [{}]: {}.",
            rights.table_name(),
            rights.describe()
        ),
    }
}

/// Prints the tools without the names for compatibility, as one JSON array.
fn print_for_model<'a>(specs: impl Iterator<Item = &'a ToolSpec>, format: ModelFormat) {
    let offered = specs.filter(|spec| spec.offered && spec.same_as.is_none());
    let tools: Vec<Value> = offered
        .map(|spec| format.format_tool(&spec.catalog_body()))
        .collect();
    console::print_json(&tools);
}

fn list_tools<'a>(specs: impl Iterator<Item = &'a ToolSpec>, all: bool, json: bool) {
    if json {
        specs
            .filter(|spec| spec.offered)
            .for_each(|spec| console::print_json(&spec.catalog_body()));
        return;
    }
    let (mut shown, hidden): (Vec<&ToolSpec>, Vec<&ToolSpec>) =
        specs.partition(|spec| all || spec.same_as.is_none());
    shown.sort_by_key(|spec| domain_rank(spec.domain));
    let mut last_domain = "";
    let mut row = |spec: &&ToolSpec| {
        let is_new = last_domain != spec.domain;
        last_domain = spec.domain;
        let what = match spec.same_as {
            _ if !spec.offered => format!("(not offered: {})", spec.on_this_device),
            Some(name) => format!("(compatibility name: use {name})"),
            None => spec.summary(),
        };
        vec![
            if is_new { spec.domain } else { "" }.to_owned(),
            spec.name.to_string(),
            spec.effect.as_str().to_owned(),
            console::cell_text(&what, usize::MAX),
        ]
    };
    let rows: Vec<Vec<String>> = shown.iter().map(&mut row).collect();
    console::print_table(&["DOMAIN", "TOOL", "EFFECT", "WHAT IT DOES"], &rows);
    if !hidden.is_empty() {
        console::print_line(&format!(
            "\n{} more names exist for compatibility: `{}`.",
            hidden.len(),
            command_to_type("tools --all")
        ));
    }
    console::print_line(&format!(
        "One tool with its arguments: `{}`.",
        command_to_type("tools Bash")
    ));
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
        "{} ({}, {}{lane})\n",
        spec.name,
        spec.domain,
        spec.effect.as_str(),
    ));
    for paragraph in spec.description.split("\n\n") {
        console::print_paragraph("", &paragraph.replace('\n', " "));
        console::print_line("");
    }
    if let Some(name) = spec.same_as {
        console::print_paragraph("", &format!("A compatibility name: use {name}.\n"));
    }
    if !spec.offered {
        console::print_paragraph("", &format!("Not offered here: {}.\n", spec.on_this_device));
    }
    show_arguments(spec);
    if !spec.aliases.is_empty() {
        let also: Vec<String> = spec
            .aliases
            .iter()
            .map(|(alias, key)| format!("{alias} for {key}"))
            .collect();
        console::print_line("");
        console::print_paragraph("", &format!("Also understood: {}", also.join(", ")));
    }
    if !spec.limits.is_empty() {
        console::print_line("\nLimits:");
        spec.limits
            .iter()
            .for_each(|limit| console::print_paragraph("  ", limit));
    }
    if !spec.examples.is_empty() {
        console::print_line("\nExamples:");
        let width = console::terminal_width().unwrap_or(EXAMPLE_WIDTH);
        for example in spec.examples {
            console::print_unwrapped(&format_example(&spec.name, example, width));
        }
    }
}

/// Formats an example as a command to copy, continued on the next line where it is too long. A long list has a line for
/// each item.
fn format_example(tool: &str, example: &str, width: usize) -> String {
    let arguments: Map<String, Value> = serde_json::from_str(example).unwrap_or_default();
    let mut text = String::new();
    let mut line = format!("  {}", command_to_type(&format!("call {tool}")));
    let fits = |line: &str, word: &str| {
        let last = line.rsplit('\n').next().unwrap_or_default();
        let first = word.split('\n').next().unwrap_or_default();
        last.len() + first.len() + " \\".len() <= width
    };
    for (key, value) in arguments {
        let mut word = format!(" {key}={}", shell_word(&value_text(&value)));
        if let Value::Array(items) = &value
            && !fits(CONTINUED, &word)
        {
            let items: Vec<String> = items.iter().map(Value::to_string).collect();
            let list = format!("[{}]", items.join(&format!(",\n   {CONTINUED}")));
            word = format!(" {key}={}", shell_word(&list));
        }
        if !fits(&line, &word) {
            text.extend([line.as_str(), " \\\n"]);
            CONTINUED.clone_into(&mut line);
        }
        line += &word;
    }
    text + &line
}

/// Returns a value as it stands behind `key=`.
fn value_text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn show_arguments(spec: &ToolSpec) {
    let row = |argument: SchemaArgument| {
        let default = if argument.is_required {
            "required".to_owned()
        } else {
            argument.default.unwrap_or_default()
        };
        vec![
            argument.key,
            argument.type_text.replace('`', ""),
            default,
            argument.meaning.replace('\n', " "),
        ]
    };
    let rows: Vec<Vec<String>> = list_arguments(&spec.schema.to_value())
        .into_iter()
        .map(row)
        .collect();
    if rows.is_empty() {
        return console::print_line("It takes no arguments.");
    }
    let columns = [
        Column::text("ARGUMENT"),
        Column::wrapped("TYPE"),
        Column::text("DEFAULT"),
        Column::wrapped("WHAT"),
    ];
    console::print_table(&columns, &rows);
}
