//! `cancel`: cancels a request.

use clap::Args;
use serde_json::json;

use super::context::{Context, runtime};
use super::exit::{Exit, Stop};
use super::print;
use crate::config::WorkspaceRule;
use crate::ids::RequestId;

#[derive(Debug, Args)]
pub struct CancelArgs {
    /// The request's id, as `send` gave it
    request: String,
}

/// Asks the backend to cancel a request.
pub fn cancel(args: &CancelArgs, context: &Context) -> anyhow::Result<Exit> {
    let id =
        RequestId::parse(args.request.clone()).map_err(|bad| Stop::with(Exit::Usage, bad.to_string()))?;
    let config = context.config(WorkspaceRule::NotNeeded)?;
    let home = Context::home(&config)?;
    let caller = Context::caller(&config, &home)?;
    let state = runtime()?.block_on(caller.cancel(&id))?;
    if context.json() {
        print::json(&json!({"requestId": id.as_str(), "state": state}));
    } else {
        print::line(match state.as_str() {
            "cancelling" => "The device is told to stop it; its answer will say what had been done.",
            "finished" => "It had finished before; its answer stands.",
            _ => "The backend knows no such request.",
        });
    }
    Ok(if state == "unknown" { Exit::Failed } else { Exit::Done })
}
