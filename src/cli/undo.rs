//! `undo`: reverts the changes of a request. Not here: the mechanism (trash).

use clap::Args;
use serde::Serialize;

use super::context::CliContext;
use super::exit::{CommandError, Exit};
use super::{audit, console, display_time, request_ids, wiring};
use crate::audit::AuditEvent;
use crate::config::WorkspaceRule;
use crate::trash::{UNTRACKED, UndoError};

#[derive(Debug, Args)]
pub struct UndoArgs {
    /// The request: its id, the end or the beginning of it, or @last
    request: String,
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
    if args.diff {
        return super::diff::show_diff(&args.request, true, context);
    }
    let (config, home) = context.config_and_home(WorkspaceRule::OrCurrentDir)?;
    let trash = wiring::open_trash(&config, &home);
    let workspace = wiring::open_workspace(&config, context.environment())?;
    let request = request_ids::expand_last(&home, &args.request)?;
    let undone = match trash.undo_request(&workspace, &request, args.dry_run) {
        Ok(undone) => undone,
        Err(UndoError::Already(request, at_ms)) => {
            let text = format!(
                "request {request} was undone already, at {}",
                display_time::format_utc(at_ms)
            );
            return Err(CommandError::with_exit(Exit::Failed, text));
        }
        Err(unready) => {
            return Err(CommandError::with_exit(
                exit_for_unready(&unready),
                unready.to_string(),
            ));
        }
    };
    if !args.dry_run {
        audit::record_owner_action(
            &home,
            audit::owner_entry(AuditEvent::Undo).with_request(&undone.request),
        );
    }
    if context.is_json() {
        console::print_json(&UndoOutput {
            request_id: undone.request.to_string(),
            undone: !args.dry_run,
            partial: undone.is_partial,
            changes: undone.lines,
        });
        return Ok(Exit::Done);
    }
    console::print_line(&if args.dry_run {
        format!(
            "Undoing {} would do this; nothing was changed:",
            undone.request
        )
    } else {
        let what = if undone.is_partial {
            "Put back what rm removed"
        } else {
            "Undone"
        };
        format!("{what}: {}", undone.request)
    });
    for line in &undone.lines {
        console::print_line(&format!("  {}", console::cell_text(line, usize::MAX)));
    }
    if undone.is_partial {
        console::print_line(UNTRACKED);
    }
    Ok(Exit::Done)
}

/// Returns the exit code for a request that cannot be undone.
pub fn exit_for_unready(unready: &UndoError) -> Exit {
    match unready {
        UndoError::Several(..) => Exit::Usage,
        UndoError::Trash(_) => Exit::CannotWrite,
        _ => Exit::Failed,
    }
}
