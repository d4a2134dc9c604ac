//! `background`, a hidden command: the runner that clients share. It belongs to none of them, and ends when nobody
//! needs it any more.

mod detached_start;
mod idle_watch;
mod shared_runner;

use clap::Args;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::context::{CliContext, command_runtime};
use super::embedded_runner::{EmbeddedRunner, RunningRunner};
use super::exit::Exit;
use super::{approvals, console, process_signals};
use crate::config::WorkspaceRule;
use idle_watch::IdleWatch;
use punie_core::clock::ExpiryClock;
use punie_engine::runner::ShutdownSignal;
use punie_home::{ApprovalQuestions, BackgroundRunner, Home, RunnerLock, SuccessorProgram};
pub use shared_runner::ensure_runner;

#[derive(Debug, Args)]
pub struct BackgroundArgs {
    /// Be the runner, in place of starting it
    #[arg(long)]
    detached: bool,
}

/// The line that a started runner prints, and its starter after it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum StartReport {
    /// The runner serves.
    Ready,
    /// It did not start, for this reason.
    Failed(String),
}

/// Starts the runner of this home in the background, or is that runner.
pub fn run_background(args: &BackgroundArgs, context: &CliContext) -> anyhow::Result<Exit> {
    if !args.detached {
        let report = detached_start::start_detached(context);
        let report = report.unwrap_or_else(|error| StartReport::Failed(format!("{error:#}")));
        console::print_json(&report);
        return Ok(Exit::Done);
    }
    let ended = run_detached(context);
    if let Err(error) = &ended {
        console::print_json(&StartReport::Failed(format!("{error:#}")));
    }
    ended
}

/// Runs until nobody needs the runner, or it is told to stop.
fn run_detached(context: &CliContext) -> anyhow::Result<Exit> {
    let config = context.runner_config(WorkspaceRule::NotNeeded)?;
    let home = CliContext::config_home(&config)?;
    let _lock = RunnerLock::try_acquire(&home)?;
    ApprovalQuestions::in_home(&home).close_earlier(&ExpiryClock::default());
    // The order was for the runner before this one.
    SuccessorProgram::clear(&home)?;
    let runtime = command_runtime()?;
    runtime.block_on(async {
        let stop = ShutdownSignal::new();
        let _signals = process_signals::listen_for_signals(&stop, config.limits.drain)?;
        approvals::ask_people(context, &config, &home, &stop);
        Box::pin(serve_clients(context, &home, &stop)).await
    })?;
    runtime.shutdown_background();
    Ok(Exit::Done)
}

async fn serve_clients(
    context: &CliContext,
    home: &Home,
    stop: &ShutdownSignal,
) -> anyhow::Result<()> {
    let embedded = EmbeddedRunner::start(context, home, 0, WorkspaceRule::NotNeeded).await?;
    let limit = embedded.config.mcp.linger;
    let beside = async |running: RunningRunner<'_>| {
        report_when_ready(home, &running.published).await;
        let watch = IdleWatch {
            home,
            journal: running.journal,
            editors: running.editors,
            limit,
        };
        watch.wait_until_unneeded().await;
        stop.request_finish();
        std::future::pending().await
    };
    Box::pin(embedded.run_beside(home, stop, beside)).await
}

/// Tells the starter that clients are served, once they see all tools.
async fn report_when_ready(home: &Home, published: &CancellationToken) {
    published.cancelled().await;
    let record = BackgroundRunner {
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    if let Err(error) = record.record(home) {
        tracing::warn!(%error, "a newer program will not take over from this runner");
    }
    tracing::info!("the runner in the background is up");
    console::print_json(&StartReport::Ready);
}
