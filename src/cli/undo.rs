//! `undo`: reverts the changes of a request. Not here: the mechanism (trash).

use clap::Args;
use serde::Serialize;

use super::context::Context;
use super::exit::{Exit, Stop};
use super::{audit, moments, print, wiring};
use crate::audit::Event;
use crate::config::WorkspaceRule;
use crate::trash::{UNTRACKED, UndoError};

#[derive(Debug, Args)]
pub struct UndoArgs {
    /// The request; the beginning or the end of its id is enough
    request: String,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    request_id: String,
    undone: bool,
    /// The request may have changed more than was restored.
    partial: bool,
    changes: Vec<String>,
}

/// Undoes a request.
pub fn undo(args: &UndoArgs, context: &Context) -> anyhow::Result<Exit> {
    let config = context.config(WorkspaceRule::OrCurrentDir)?;
    let home = Context::home(&config)?;
    let trash = wiring::trash(&config, &home);
    let workspace = wiring::workspace(&config, context.environment())?;
    let undone = match trash.undo(&workspace, &args.request, args.dry_run) {
        Ok(undone) => undone,
        Err(UndoError::Already(request, at_ms)) => {
            let text = format!("request {request} was undone already, at {}", moments::utc(at_ms));
            return Err(Stop::with(Exit::Failed, text));
        }
        Err(unready) => return Err(Stop::with(exit(&unready), unready.to_string())),
    };
    if !args.dry_run {
        audit::note(&home, audit::by_owner(Event::Undo).about(&undone.request));
    }
    if context.json() {
        print::json(&Answer {
            request_id: undone.request.to_string(),
            undone: !args.dry_run,
            partial: undone.is_partial,
            changes: undone.lines,
        });
        return Ok(Exit::Done);
    }
    print::line(&if args.dry_run {
        format!("Undoing {} would do this; nothing was changed:", undone.request)
    } else {
        let what = if undone.is_partial { "Put back what rm removed" } else { "Undone" };
        format!("{what}: {}", undone.request)
    });
    for line in &undone.lines {
        print::line(&format!("  {}", print::cell(line, usize::MAX)));
    }
    if undone.is_partial {
        print::line(UNTRACKED);
    }
    Ok(Exit::Done)
}

/// Returns the exit code for a request that cannot be undone.
pub fn exit(unready: &UndoError) -> Exit {
    match unready {
        UndoError::Several(..) => Exit::Usage,
        UndoError::Trash(_) => Exit::CannotWrite,
        _ => Exit::Failed,
    }
}
