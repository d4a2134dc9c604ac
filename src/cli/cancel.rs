//! `cancel`: cancels a request.

use clap::Args;
use serde_json::json;

use super::context::{CliContext, command_runtime};
use super::exit::{CommandError, Exit};
use super::{console, request_ids};
use punie_core::ids::RequestId;

#[derive(Debug, Args)]
pub struct CancelArgs {
    /// The request: the id that `send` gave; of this device's requests also its end (4 characters or more), or @last
    request: String,
}

/// Asks the backend to cancel a request.
pub fn run_cancel(args: &CancelArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let (config, home) = context.caller_config()?;
    let whole = match request_ids::expand_in_journal(&home, &args.request) {
        Ok(id) => id,
        Err(several) if Exit::from_error(&several) == Exit::Usage => return Err(several),
        // A journal that cannot be read must not keep a request from being cancelled.
        Err(_) => args.request.clone(),
    };
    let id = RequestId::parse(whole)
        .map_err(|bad| CommandError::with_exit(Exit::Usage, bad.to_string()))?;
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
