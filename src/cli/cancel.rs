//! `cancel`: cancels a request.

use clap::Args;
use serde_json::json;

use super::context::{CliContext, command_runtime};
use super::exit::{CommandError, Exit};
use super::{console, history};
use crate::ids::RequestId;
use crate::journal::JournalReader;

#[derive(Debug, Args)]
pub struct CancelArgs {
    /// The request's id, as `send` gave it; of a request that this device knows, a part as for `history`
    request: String,
}

/// Asks the backend to cancel a request.
pub fn run_cancel(args: &CancelArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let id = RequestId::parse(args.request.clone())
        .map_err(|bad| CommandError::with_exit(Exit::Usage, bad.to_string()))?;
    let (config, home) = context.caller_config()?;
    let reader = JournalReader::find_journal(&home.journal_file())
        .ok()
        .flatten();
    // What the journal of this device does not know may be a request for another device.
    let id = match history::find_request(reader.as_ref(), id.as_str()) {
        Ok((whole, _)) => RequestId::parse(whole)?,
        Err(_) => id,
    };
    let caller = CliContext::caller_client(&config, &home)?;
    let state = command_runtime()?.block_on(caller.cancel_request(&id))?;
    if context.is_json() {
        console::print_json(&json!({"requestId": id.as_str(), "state": state}));
    } else {
        console::print_line(match state.as_str() {
            "cancelling" => {
                "The device is told to stop it; its answer will say what had been done."
            }
            "finished" => "It had finished before; its answer stands.",
            _ => "The backend knows no such request.",
        });
    }
    Ok(if state == "unknown" {
        Exit::Failed
    } else {
        Exit::Done
    })
}
