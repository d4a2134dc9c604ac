//! `call`: runs a tool without a backend, with the same registry, gate and limits as for a remote caller.

use std::time::Instant;

use clap::Args;

use super::caller_client::CallerAnswer;
use super::context::{CliContext, command_runtime};
use super::exit::{CommandError, Exit};
use super::send::print_answer;
use super::tool_arguments::ToolCallArgs;
use super::wiring::{self, ToolHost};
use super::{approvals, process_signals, prompt_line};
use crate::config::WorkspaceRule;
use punie_core::ids::{RequestId, ToolName};
use punie_text::output::SecretBoundaries;
use punie_tool::request::{CallFailure, CallOutcome, SealContext, ToolReply};
use punie_tool::{CallGate, ToolContext, ToolError};

#[derive(Debug, Args)]
pub struct CallArgs {
    #[command(flatten)]
    call: ToolCallArgs,
}

/// Runs one tool.
pub fn run_call_command(args: &CallArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let (config, home) = context.config_and_home(WorkspaceRule::OrCurrentDir)?;
    let tool = ToolName::parse(args.call.tool.clone())
        .map_err(|bad| CommandError::with_exit(Exit::Usage, bad.to_string()))?;
    let runtime = command_runtime()?;
    let (id, answer) = runtime.block_on(async {
        let machine = wiring::assemble_lone_host(&config, &home, context.environment())?;
        if machine.registry.find(tool.as_str()).is_err() {
            // It may belong to a plugin that was never asked for its tools.
            machine.plugins.reload().await;
        }
        let schema = machine.registry.find(tool.as_str()).ok().map(|entry| entry.tool_spec().schema.to_value());
        let text = args.call.read_arguments(schema.as_ref())?;
        let uncut = SecretBoundaries::new(&machine.base.redactor);
        let cx = ToolContext { secret_boundaries: uncut, ..ToolContext::for_detached_call(RequestId::new()) };
        let stop = punie_engine::runner::ShutdownSignal::new();
        let _signals = process_signals::listen_for_signals(&stop, config.limits.drain)?;
        // The person who types this has approved the call, but not yet the hosts that its command wants to reach.
        approvals::ask_people(context, &config, &home, &stop);
        let begun = Instant::now();
        let outcome = tokio::select! {
            outcome = run_local_call(&machine, &tool, &text, &cx) => outcome,
            () = cancel_on_stop(&stop, &cx) => return Err(CommandError::with_exit(Exit::Failed, "stopped")),
        };
        machine.base.terminals.stop_all_commands(punie_host::terminals::StopSequence::kill_at_once()).await;
        let sealed = outcome.seal(&SealContext {
            redactor: &machine.base.redactor,
            store: &machine.base.outputs,
            request: &cx.request,
            tool: &tool,
            duration: begun.elapsed(),
            attempt: None,
        });
        let payload = serde_json::from_str(sealed.payload_json())?;
        anyhow::Ok((cx.request, CallerAnswer { outcome: sealed.outcome_kind().as_str().to_owned(), payload }))
    })?;
    runtime.shutdown_background();
    prompt_line::end_prompts();
    Ok(print_answer(&id, tool.as_str(), &answer, context.is_json()))
}

/// Cancels the call at the first signal and then waits before giving up on it.
async fn cancel_on_stop(stop: &punie_engine::runner::ShutdownSignal, cx: &ToolContext) {
    stop.wait_for_stop_request().await;
    cx.cancel.cancel();
    tokio::time::sleep(std::time::Duration::from_secs(15)).await;
}

async fn run_local_call(
    machine: &ToolHost,
    tool: &ToolName,
    args: &str,
    cx: &ToolContext,
) -> CallOutcome {
    match execute_local_call(machine, tool, args, cx).await {
        Ok(reply) => CallOutcome::Ok(reply),
        Err(error) if cx.is_cancelled() => CallOutcome::Cancelled(CallFailure::from(error)),
        Err(error) => CallOutcome::Error(CallFailure::from(error)),
    }
}

async fn execute_local_call(
    machine: &ToolHost,
    tool: &ToolName,
    args: &str,
    cx: &ToolContext,
) -> Result<ToolReply, ToolError> {
    let entry = machine.registry.find(tool.as_str())?;
    let ready = entry.decode_call(args)?;
    // The person who types this command has approved it.
    let _given_or_asked = machine
        .gate
        .permit_call(cx, entry.tool_spec(), ready.as_gate_input(args))
        .await?;
    ready.run_call(cx.clone()).await
}
