//! `cancel`: cancels a request.

use clap::Args;
use serde_json::json;

use super::console;
use super::context::{CliContext, command_runtime};
use super::exit::{CommandError, Exit};
use crate::config::WorkspaceRule;
use crate::ids::RequestId;

#[derive(Debug, Args)]
pub struct CancelArgs {
    /// The request's id
    request: String,
}

/// Asks the backend to cancel a request.
pub fn run_cancel(args: &CancelArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let id = RequestId::parse(args.request.clone())
        .map_err(|bad| CommandError::with_exit(Exit::Usage, bad.to_string()))?;
    let (config, home) = context.config_and_home(WorkspaceRule::NotNeeded)?;
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
