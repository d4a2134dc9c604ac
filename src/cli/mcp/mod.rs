//! `mcp`: the tools for MCP clients, over stdin and stdout or HTTP. If a runner works with this home, or another device is
//! named, the client's calls go through that backend. Otherwise this process is the runner, as long as the client is there.

mod caller_link;
mod client_config;
mod client_roots;
mod import;

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use serde_json::json;
use tokio::io::{stdin, stdout};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::context::{CliContext, command_runtime};
use super::embedded_runner::EmbeddedRunner;
use super::exit::{CommandError, Exit};
use super::tools::parse_profile;
use super::wiring::AssembledRunner;
use super::{approvals, console, process_signals};
use crate::config::WorkspaceRule;
use crate::home::{
    ApprovalQuestions, DeviceIdentity, EmbeddedBackendAddress, Home, LockError, RunnerLock,
    load_mcp_token,
};
use crate::mcp::{McpServer, serve_client, serve_http};
use crate::runner::ShutdownSignal;
use crate::tool::ToolProfile;
use caller_link::{CallerLink, LinkConnection, StartRequest};
use client_roots::{RunnerFolders, narrow_workspaces};

/// The longest wait for the runner of another client to start, and the time between two looks.
const START_TIMEOUT: Duration = Duration::from_secs(10);
const START_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct McpArgs {
    #[command(subcommand)]
    command: Option<McpCommand>,
    /// Work in all workspaces, also in those outside the folders (roots) that the client names
    #[arg(long)]
    ignore_roots: bool,
    /// The tools to list: minimal, coding, all
    #[arg(long, value_name = "PROFILE", default_value = "all", value_parser = parse_profile)]
    profile: ToolProfile,
    /// Serve over HTTP on this port of 127.0.0.1 instead, 0 for any free one, until stopped
    #[arg(long, value_name = "PORT")]
    http: Option<u16>,
}

#[derive(Debug, Subcommand)]
enum McpCommand {
    /// Take over the MCP servers of Claude Desktop, Claude Code or Cursor, whose tools this device then offers
    Import(import::ImportArgs),
}

/// Serves the client until it closes its end.
pub fn run_mcp(args: &McpArgs, context: &CliContext) -> anyhow::Result<Exit> {
    if let Some(McpCommand::Import(args)) = &args.command {
        return import::run_import(args, context);
    }
    let runtime = command_runtime()?;
    let ended = runtime.block_on(Box::pin(serve_mcp(args, context)));
    // The thread that reads stdin cannot be joined.
    runtime.shutdown_background();
    ended.map(|()| Exit::Done)
}

async fn serve_mcp(args: &McpArgs, context: &CliContext) -> anyhow::Result<()> {
    let stop = ShutdownSignal::new();
    let _signals = process_signals::listen_for_signals(&stop)?;
    let (mut config, home) = context.caller_config()?;
    let is_named = config.caller.device.is_some() || context.names_backend();
    if !is_named {
        let began = Instant::now();
        loop {
            let held = match RunnerLock::try_acquire(&home) {
                Ok(_lock) => return Box::pin(serve_as_runner(args, context, &home, &stop)).await,
                Err(held @ LockError::Held { .. }) => held,
                Err(other) => return Err(other.into()),
            };
            if let Some(url) = EmbeddedBackendAddress::find_address(&home)? {
                config.set_embedded_backend(&url);
            }
            if config.backend.url.is_some() {
                break;
            }
            if began.elapsed() > START_TIMEOUT {
                return Err(held.into());
            }
            // The runner of another client starts.
            sleep(START_INTERVAL).await;
        }
    }
    let caller = CliContext::caller_client(&config, &home)?;
    let device = context.resolve_device(&config, &home, &caller).await?;
    let is_here = home.device_file().exists()
        && *DeviceIdentity::load_or_create(&home)?.device_id() == device;
    let folders = if args.ignore_roots || !is_here {
        // The roots are folders of this machine.
        None
    } else {
        let rule = WorkspaceRule::NotNeeded;
        let named = context.flag_workspaces()?;
        let context = context.with_flags(|flags| flags.workspaces.clear());
        let workspaces = context.config_with_runner_workspaces(rule)?.0.workspaces;
        Some(RunnerFolders { workspaces, named })
    };
    let connection = LinkConnection::new(caller, device, None);
    let server = ClientServer {
        args,
        context,
        home: &home,
    };
    server
        .serve_running(connection, folders, &stop.stop_token())
        .await
}

/// The side of the clients.
struct ClientServer<'a> {
    args: &'a McpArgs,
    context: &'a CliContext,
    home: &'a Home,
}

impl ClientServer<'_> {
    /// Serves a runner that is up. Roots are compared with these folders, if they count.
    async fn serve_running(
        &self,
        connection: LinkConnection,
        folders: Option<RunnerFolders>,
        stop: &CancellationToken,
    ) -> anyhow::Result<()> {
        let profile = self.args.profile;
        let make_server = move || {
            let folders = folders.clone();
            let link = CallerLink::to_running(connection.clone(), move |roots| match &folders {
                Some(folders) => folders.check_roots(roots),
                None => Ok(()),
            });
            McpServer::new(Arc::new(link), profile)
        };
        match self.args.http {
            Some(port) => self.serve_over_http(port, make_server, stop).await,
            None => serve_stdio(make_server(), stop).await,
        }
    }

    async fn serve_over_http(
        &self,
        port: u16,
        make_server: impl Fn() -> McpServer + Send + Sync + 'static,
        stop: &CancellationToken,
    ) -> anyhow::Result<()> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let url = format!("http://{}/mcp", listener.local_addr()?);
        let token = load_mcp_token(self.home)?;
        let file = self.home.mcp_token_file();
        if self.context.is_json() {
            console::print_json(&json!({"url": url, "tokenFile": file}));
        } else {
            let file = console::shorten_path(&file, self.context.environment().user_dir());
            console::print_row("MCP server", &url);
            console::print_row("Token", &format!("in {file}; send it as a Bearer token"));
        }
        Ok(serve_http(listener, token.expose(), make_server, stop).await?)
    }

    /// Serves the runner of this process, which the first request of a client over pipes starts.
    async fn serve_own(
        &self,
        starts: mpsc::Sender<StartRequest>,
        workspaces: &[PathBuf],
        stop: &CancellationToken,
    ) -> anyhow::Result<()> {
        let link = CallerLink::start_on_demand(starts);
        if self.args.http.is_none() {
            let server = McpServer::new(Arc::new(link), self.args.profile);
            return serve_stdio(server, stop).await;
        }
        // Its clients come and go, each with roots of its own.
        let connection = link.open_connection(None).await?;
        let folders = (!self.args.ignore_roots).then(|| RunnerFolders {
            workspaces: workspaces.to_vec(),
            named: Vec::new(),
        });
        self.serve_running(connection, folders, stop).await
    }
}

async fn serve_stdio(server: McpServer, stop: &CancellationToken) -> anyhow::Result<()> {
    Box::pin(serve_client(server, (stdin(), stdout()), stop))
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
        let side = ClientServer {
            args,
            context,
            home,
        };
        let ended = side.serve_own(starts, &config.workspaces, &over).await;
        stop.request_stop();
        ended
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
