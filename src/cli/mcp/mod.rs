//! `mcp`: the tools for an MCP client, over stdin and stdout. If a runner works with this home, or another device is
//! named, the client's calls go through that backend. Otherwise this process is the runner, as long as the client is there.

mod caller_link;
mod client_roots;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use tokio::io::{stdin, stdout};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::context::{CliContext, command_runtime};
use super::embedded_runner::EmbeddedRunner;
use super::exit::{CommandError, Exit};
use super::wiring::AssembledRunner;
use super::{approvals, signals};
use crate::config::WorkspaceRule;
use crate::home::{ApprovalQuestions, DeviceIdentity, Home, LockError, RunnerLock};
use crate::mcp::{McpServer, serve_client};
use crate::runner::ShutdownSignal;
use caller_link::{CallerLink, LinkConnection, StartRequest};
use client_roots::{check_within_roots, narrow_workspaces};

#[derive(Debug, Args)]
pub struct McpArgs {
    /// Work in all workspaces, also in those outside the folders (roots) that the client names
    #[arg(long)]
    ignore_roots: bool,
}

/// Serves the client until it closes its end.
pub fn run_mcp(args: &McpArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let runtime = command_runtime()?;
    let ended = runtime.block_on(Box::pin(serve_mcp(args, context)));
    // The thread that reads stdin cannot be joined.
    runtime.shutdown_background();
    ended.map(|()| Exit::Done)
}

async fn serve_mcp(args: &McpArgs, context: &CliContext) -> anyhow::Result<()> {
    let stop = ShutdownSignal::new();
    let _signals = signals::listen_for_signals(&stop)?;
    let (config, home) = context.caller_config()?;
    let is_named = config.caller.device.is_some() || context.names_backend();
    if !is_named {
        match RunnerLock::try_acquire(&home) {
            Ok(_lock) => return Box::pin(serve_as_runner(args, context, &home, &stop)).await,
            Err(LockError::Held { .. }) => {}
            Err(other) => return Err(other.into()),
        }
    }
    let caller = CliContext::caller_client(&config, &home)?;
    let device = context.resolve_device(&config, &home, &caller).await?;
    let is_here = home.device_file().exists()
        && *DeviceIdentity::load_or_create(&home)?.device_id() == device;
    let workspaces = if args.ignore_roots || !is_here {
        // The roots are folders of this machine.
        None
    } else {
        let rule = WorkspaceRule::NotNeeded;
        Some(context.config_with_runner_workspaces(rule)?.0.workspaces)
    };
    let connection = LinkConnection::new(caller, device, None);
    let link = CallerLink::to_running(connection, move |roots| match &workspaces {
        Some(workspaces) => check_within_roots(workspaces, roots),
        None => Ok(()),
    });
    serve_stdio(link, &stop.stop_token()).await
}

async fn serve_stdio(link: CallerLink, stop: &CancellationToken) -> anyhow::Result<()> {
    let server = McpServer::new(Arc::new(link));
    serve_client(server, (stdin(), stdout()), stop)
        .await
        .map_err(|why| CommandError::with_exit(Exit::Failed, format!("the MCP client: {why}")))
}

/// Serves the client and runs as the runner, which the client's first request starts.
async fn serve_as_runner(
    args: &McpArgs,
    context: &CliContext,
    home: &Home,
    stop: &ShutdownSignal,
) -> anyhow::Result<()> {
    let config = context.runner_config(WorkspaceRule::OrCurrentDir)?;
    ApprovalQuestions::in_home(home).close_earlier_questions();
    if !CliContext::is_interactive() {
        approvals::ask_people(context, &config, home, stop);
    }
    let (starts, mut asked) = mpsc::channel::<StartRequest>(1);
    let over = CancellationToken::new();
    let running = async {
        let _over = over.clone().drop_guard();
        loop {
            let wanted = tokio::select! {
                Some(wanted) = asked.recv() => wanted,
                () = stop.wait_for_stop_request() => return Ok(()),
            };
            let roots = wanted.roots().filter(|_| !args.ignore_roots);
            let narrowed = match roots {
                Some(roots) => narrow_workspaces(&config.workspaces, roots),
                None => Ok(config.workspaces.clone()),
            };
            let started = match narrowed {
                Ok(workspaces) => start_runner(context, home, workspaces).await,
                Err(why) => Err(anyhow::anyhow!(why)),
            };
            match started {
                Ok(runner) => return run_started(runner, wanted, stop).await,
                Err(error) => wanted.report_start(Err(format!("{error:#}"))),
            }
        }
    };
    let serving = async {
        let link = CallerLink::start_on_demand(starts);
        let served = serve_stdio(link, &over).await;
        stop.request_stop();
        served
    };
    let (ran, served) = tokio::join!(running, serving);
    ran.and(served)
}

async fn start_runner(
    context: &CliContext,
    home: &Home,
    workspaces: Vec<PathBuf>,
) -> anyhow::Result<EmbeddedRunner> {
    let narrowed = context.with_flags(|flags| flags.workspaces = workspaces);
    EmbeddedRunner::start(&narrowed, home, 0).await
}

/// Runs a started runner until it is told to stop.
async fn run_started(
    started: EmbeddedRunner,
    wanted: StartRequest,
    stop: &ShutdownSignal,
) -> anyhow::Result<()> {
    let EmbeddedRunner {
        backend,
        config,
        device,
        assembled,
        _address,
        ..
    } = started;
    let AssembledRunner {
        runner,
        processes,
        registry,
        ..
    } = assembled;
    let home = CliContext::config_home(&config)?;
    let caller = CliContext::caller_client(&config, &home)?;
    wanted.report_start(Ok(LinkConnection::new(caller, device, Some(registry))));
    let _warming = processes.start_background_work();
    let running = Box::pin(runner.run_until_stopped(stop));
    let ended = Box::pin(processes.serve_runner(stop, running)).await;
    backend.stop_server().await;
    Ok(ended?)
}
