//! `undo`: reverts the changes of a request.

use clap::Args;
use serde::Serialize;

use super::context::CliContext;
use super::exit::{CommandError, Exit};
use super::history::unknown_request;
use super::{audit, console, display_time, request_ids, table, wiring};
use crate::config::WorkspaceRule;
use punie_engine::audit::AuditEvent;
use punie_engine::journal::JournalReader;
use punie_home::{Home, command_to_type};
use punie_host::Workspace;
use punie_undo::{Trash, UNTRACKED, UndoError};

#[derive(Debug, Args)]
pub struct UndoArgs {
    /// The request: its id, its end (4 characters or more), its beginning, or @last: here the newest request that has
    /// something to undo
    request: Option<String>,
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
    /// Only show the lines that would change
    #[arg(long)]
    diff: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UndoOutput {
    request_id: String,
    undone: bool,
    /// The request may have changed more than was restored.
    partial: bool,
    changes: Vec<String>,
}

/// Undoes a request.
pub fn run_undo(args: &UndoArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let Some(typed) = &args.request else {
        let text = format!(
            "name the request to undo: `{}`, or `{}` for the newest that has something to undo. `{}` lists them",
            command_to_type("undo ID"),
            command_to_type("undo @last"),
            command_to_type("history")
        );
        return Err(CommandError::with_exit(Exit::Usage, text));
    };
    let (config, home) = context.config_with_runner_workspaces(WorkspaceRule::OrCurrentDir)?;
    let trash = wiring::open_trash(&config, &home);
    let workspace = wiring::open_reachable_folders(&config, &home, context.environment());
    let request = if typed == request_ids::LAST {
        choose_newest(&home, &trash, &workspace, context.is_json())?
    } else {
        find_backup(&home, &trash, typed)?
    };
    if args.diff {
        return super::diff::show_diff(&request, true, context);
    }
    let undone = match trash.undo_request(&workspace, &request, args.dry_run) {
        Ok(undone) => undone,
        Err(UndoError::Already(request, at_ms)) => {
            let text = format!(
                "request {} was undone already, at {}",
                table::short_id(request.as_str()),
                display_time::format_moment(at_ms)
            );
            return Err(CommandError::with_exit(Exit::Failed, text));
        }
        Err(unready) => {
            return Err(undo_error(&home, &unready, &request));
        }
    };
    if !args.dry_run {
        audit::record_owner_action(
            &home,
            audit::owner_entry(AuditEvent::Undo).with_request(&undone.request),
        );
    }
    let exit = if undone.is_partial {
        Exit::Failed
    } else {
        Exit::Done
    };
    if context.is_json() {
        console::print_json(&UndoOutput {
            request_id: undone.request.to_string(),
            undone: !args.dry_run,
            partial: undone.is_partial,
            changes: undone.lines,
        });
        return Ok(exit);
    }
    let short_id = table::short_id(undone.request.as_str());
    console::print_line(&if args.dry_run {
        format!("Undoing {short_id} would do this; nothing was changed:")
    } else {
        let what = if undone.is_partial {
            "Undone in part"
        } else {
            "Undone"
        };
        format!("{what}: {short_id}")
    });
    for line in &undone.lines {
        console::print_line(&format!("  {}", console::cell_text(line, usize::MAX)));
    }
    if undone.is_partial {
        console::print_line(UNTRACKED);
    }
    Ok(exit)
}

/// Returns the newest request that has something to undo, and tells people which one it is.
fn choose_newest(
    home: &Home,
    trash: &Trash,
    workspace: &Workspace,
    as_json: bool,
) -> anyhow::Result<String> {
    let newest = trash.find_newest_undoable(workspace);
    let newest = newest.map_err(|unready| undo_error(home, &unready, request_ids::LAST))?;
    let Some(newest) = newest.map(String::from) else {
        let text = format!("no request has anything to undo. {UNTRACKED}");
        return Err(CommandError::with_exit(Exit::Failed, text));
    };
    if !as_json {
        let id = table::short_id(&newest);
        let title = request_title(home, &newest);
        console::print_line(&format!(
            "The newest request with something to undo: {id}{title}"
        ));
    }
    Ok(newest)
}

/// Returns the tool and the title of a request behind a comma, if the journal knows it.
fn request_title(home: &Home, request: &str) -> String {
    let read = || {
        let reader = JournalReader::find(&home.journal_file()).ok()??;
        let entry = reader.read_full_history(request).ok()??.entry?;
        let what = format!("{} {}", entry.tool, entry.title.unwrap_or_default());
        Some(format!(", {}", console::cell_text(&what, usize::MAX)))
    };
    read().unwrap_or_default()
}

/// Finds the request that is meant in the journal, or among the backups.
pub fn find_backup(home: &Home, trash: &Trash, typed: &str) -> anyhow::Result<String> {
    let backups = trash.list_entries()?;
    let ids = backups.iter().map(|backup| backup.request.as_str());
    request_ids::find_request(home, typed, ids)
}

/// Returns the error about a request that cannot be undone or restored.
pub fn undo_error(home: &Home, unready: &UndoError, request: &str) -> anyhow::Error {
    let exit = match unready {
        UndoError::Trash(_) => Exit::CannotWrite,
        _ => Exit::Failed,
    };
    let short_id = table::short_id(request);
    let mut text = unready.to_string().replace(request, short_id);
    match unready {
        UndoError::Unknown(_) if is_unknown(home, request) => return unknown_request(request),
        UndoError::Refused(..) => {
            let restore = command_to_type(&format!("trash restore {short_id} --to DIR"));
            text = format!("{text}\nTo get the old files in a folder of their own: `{restore}`");
        }
        _ => {}
    }
    CommandError::with_exit(exit, text)
}

/// Returns whether the journal does not know this request. A whole id may be of a `call`, which it never knows.
fn is_unknown(home: &Home, request: &str) -> bool {
    if uuid::Uuid::parse_str(request).is_ok() {
        return false;
    }
    let reader = JournalReader::find(&home.journal_file());
    reader.is_ok_and(|reader| {
        matches!(
            request_ids::find_in_journal(reader.as_ref(), request),
            Ok(None)
        )
    })
}
