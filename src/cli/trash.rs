//! `trash`: lists, restores and empties the stored before-images and removed files.

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;

use super::context::CliContext;
use super::exit::{CommandError, Exit};
use super::table::Column;
use super::{audit, console, display_time, undo, wiring};
use crate::config::WorkspaceRule;
use punie_engine::audit::{AuditEntry, AuditEvent};
use punie_engine::runner::Clock;
use punie_home::Home;
use punie_text::output::number_format;
use punie_undo::{Trash, TrashEntry};

#[derive(Debug, Args)]
pub struct TrashArgs {
    #[command(subcommand)]
    word: Option<TrashCommand>,
}

#[derive(Debug, Subcommand)]
enum TrashCommand {
    /// List the backups, the latest first (the default)
    List,
    /// Copy the backed-up files of a request into a folder; your current files are not touched
    Restore(RestoreArgs),
    /// Delete all backups; nothing can be undone afterwards
    Empty(EmptyArgs),
}

#[derive(Debug, Args)]
struct RestoreArgs {
    /// The request: its id, its end (4 characters or more), its beginning, or @last
    request: String,
    /// The folder to copy to; it must be new or empty
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
}

#[derive(Debug, Args)]
struct EmptyArgs {
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// One request, as `--json` shows it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TrashLine<'a> {
    request_id: &'a str,
    tool: &'a str,
    at_ms: i64,
    at: String,
    undone_at_ms: Option<i64>,
    files: u64,
    bytes: u64,
    paths: Vec<String>,
}

/// The result of emptying.
#[derive(Serialize)]
struct EmptiedTrash {
    requests: u64,
    bytes: u64,
}

/// Lists, restores or empties the trash.
pub fn run_trash(args: &TrashArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let (config, home) = context.config_and_home(WorkspaceRule::NotNeeded)?;
    let trash = wiring::open_trash(&config, &home);
    match &args.word {
        None | Some(TrashCommand::List) => list_trash(&trash, context.is_json()),
        Some(TrashCommand::Restore(args)) => {
            restore_request(&home, &trash, args, context.is_json())
        }
        Some(TrashCommand::Empty(args)) => empty_trash(&home, &trash, args, context.is_json()),
    }
}

fn list_trash(trash: &Trash, as_json: bool) -> anyhow::Result<Exit> {
    let all = trash.list_entries()?;
    if as_json {
        for kept in &all {
            console::print_json(&TrashLine::from_trash_entry(kept));
        }
    } else {
        let now_ms = Clock::system().now_ms();
        let rows: Vec<Vec<String>> = all.iter().map(|kept| trash_row(kept, now_ms)).collect();
        let columns = [
            Column::text("WHEN"),
            Column::text("TOOL"),
            Column::number("FILES"),
            Column::number("SIZE"),
            Column::path("PATHS"),
            Column::id("REQUEST"),
        ];
        console::print_list(&columns, &rows, "The trash is empty.");
    }
    Ok(Exit::Done)
}

impl<'a> TrashLine<'a> {
    fn from_trash_entry(kept: &'a TrashEntry) -> Self {
        Self {
            request_id: kept.request.as_str(),
            tool: &kept.tool,
            at_ms: kept.at_ms,
            at: display_time::format_rfc3339(kept.at_ms),
            undone_at_ms: kept.undone_at_ms,
            files: kept.file_count(),
            bytes: kept.total_bytes(),
            paths: kept
                .changed_paths()
                .iter()
                .map(|path| path.display().to_string())
                .collect(),
        }
    }
}

fn trash_row(kept: &TrashEntry, now_ms: i64) -> Vec<String> {
    let paths = kept.changed_paths();
    let first = paths
        .first()
        .map_or_else(String::new, |path| path.display().to_string());
    let more = if paths.len() > 1 {
        format!(" and {} more", paths.len() - 1)
    } else {
        String::new()
    };
    let undone = if kept.undone_at_ms.is_some() {
        "undone: "
    } else {
        ""
    };
    vec![
        display_time::format_when(kept.at_ms, now_ms),
        console::cell_text(&kept.tool, 30),
        number_format::group_digits(kept.file_count()),
        number_format::format_size(kept.total_bytes()),
        console::cell_text(&format!("{undone}{first}{more}"), usize::MAX),
        kept.request.to_string(),
    ]
}

fn restore_request(
    home: &Home,
    trash: &Trash,
    args: &RestoreArgs,
    as_json: bool,
) -> anyhow::Result<Exit> {
    let request = undo::find_backup(home, trash, &args.request)?;
    let copied = trash
        .restore_copy(&request, &args.to)
        .map_err(|unready| undo::undo_error(home, &unready, &request))?;
    audit::record_owner_action(
        home,
        audit::owner_entry(AuditEvent::TrashRestored).with_request(&copied.request),
    );
    if as_json {
        console::print_json(&serde_json::json!({
            "requestId": copied.request.as_str(), "copied": copied.lines, "to": args.to.display().to_string(),
        }));
        return Ok(Exit::Done);
    }
    console::print_line(&format!("Copied to {}:", args.to.display()));
    for line in &copied.lines {
        console::print_line(&format!("  {}", console::cell_text(line, usize::MAX)));
    }
    Ok(Exit::Done)
}

fn empty_trash(
    home: &Home,
    trash: &Trash,
    args: &EmptyArgs,
    as_json: bool,
) -> anyhow::Result<Exit> {
    if !args.yes {
        if !std::io::stdin().is_terminal() || !console::is_terminal() {
            return Err(CommandError::with_exit(
                Exit::Usage,
                "this deletes all backups, and nobody can be asked without a terminal: add --yes",
            ));
        }
        let all = trash.list_entries()?;
        let bytes: u64 = all.iter().map(TrashEntry::total_bytes).sum();
        let is_confirmed = console::ask_yes_no(&format!(
            "Delete the backups of {} ({})? They can no longer be undone.",
            number_format::format_count(all.len() as u64, "request"),
            number_format::format_size(bytes)
        ))?;
        if !is_confirmed {
            console::print_line("Nothing was deleted.");
            return Ok(Exit::Failed);
        }
    }
    let (requests, bytes) = trash.empty_trash()?;
    audit::record_owner_action(
        home,
        AuditEntry {
            count: Some(requests),
            ..audit::owner_entry(AuditEvent::TrashEmptied)
        },
    );
    if as_json {
        console::print_json(&EmptiedTrash { requests, bytes });
    } else {
        console::print_line(&format!(
            "Deleted the backups of {} ({}).",
            number_format::format_count(requests, "request"),
            number_format::format_size(bytes)
        ));
    }
    Ok(Exit::Done)
}
