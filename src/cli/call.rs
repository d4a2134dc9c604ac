//! `call`: runs a tool without a backend, with the same registry, gate and limits as for a remote caller.

use std::time::Instant;

use clap::Args;

use super::caller::Answer;
use super::context::{Context, runtime};
use super::exit::{Exit, Stop};
use super::send::{ToolCall, show};
use super::stop;
use super::wiring::{self, Machine};
use crate::config::WorkspaceRule;
use crate::ids::{RequestId, ToolName};
use crate::request::{Failure, Outcome, Reply, Sealing};
use crate::tool::{Gate, ToolCx, ToolError};

#[derive(Debug, Args)]
pub struct CallArgs {
    #[command(flatten)]
    call: ToolCall,
}

/// Runs one tool.
pub fn call(args: &CallArgs, context: &Context) -> anyhow::Result<Exit> {
    let config = context.config(WorkspaceRule::OrCurrentDir)?;
    let home = Context::home(&config)?;
    let tool =
        ToolName::parse(args.call.tool.clone()).map_err(|bad| Stop::with(Exit::Usage, bad.to_string()))?;
    let text = args.call.args()?;
    let runtime = runtime()?;
    let (id, answer) = runtime.block_on(async {
        let machine = wiring::machine_alone(&config, &home, context.environment())?;
        let uncut = crate::request::uncut(&machine.redactor);
        let cx = ToolCx { uncut, ..ToolCx::detached(RequestId::new()) };
        let stop = crate::runner::Stop::new();
        let _signals = stop::on_signals(&stop)?;
        let begun = Instant::now();
        let outcome = tokio::select! {
            outcome = run(&machine, &tool, &text, &cx) => outcome,
            () = stop_and_wait(&stop, &cx) => return Err(Stop::with(Exit::Failed, "stopped")),
        };
        machine.terminals.stop_all(crate::acp::terminals::Ladder::kill()).await;
        let sealed = outcome.seal(&Sealing {
            redactor: &machine.redactor,
            store: &machine.outputs,
            request: &cx.request,
            tool: &tool,
            duration: begun.elapsed(),
            attempt: None,
        });
        let payload = serde_json::from_str(sealed.payload())?;
        anyhow::Ok((cx.request, Answer { outcome: sealed.kind().as_str().to_owned(), payload }))
    })?;
    runtime.shutdown_background();
    Ok(show(&id, tool.as_str(), &answer, context.json()))
}

/// Cancels the call at the first signal and then waits before giving up on it.
async fn stop_and_wait(stop: &crate::runner::Stop, cx: &ToolCx) {
    stop.requested().await;
    cx.cancel.cancel();
    tokio::time::sleep(std::time::Duration::from_secs(15)).await;
}

async fn run(machine: &Machine, tool: &ToolName, args: &str, cx: &ToolCx) -> Outcome {
    match answer(machine, tool, args, cx).await {
        Ok(reply) => Outcome::Ok(reply),
        Err(error) if cx.is_cancelled() => Outcome::Cancelled(Failure::from(error)),
        Err(error) => Outcome::Error(Failure::from(error)),
    }
}

async fn answer(machine: &Machine, tool: &ToolName, args: &str, cx: &ToolCx) -> Result<Reply, ToolError> {
    let entry = machine.registry.find(tool.as_str())?;
    let ready = entry.decode(args)?;
    // The person who types this command has approved it.
    let _given_or_asked = machine.gate.permit(cx, entry.spec(), ready.decoded(args)).await?;
    ready.run(cx.clone()).await
}
