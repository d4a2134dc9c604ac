//! `mcp`: the tools for MCP clients, over stdin and stdout or HTTP. This process is a client of the runner that all clients
//! of the home share, or of another device that the command names.

mod caller_link;
mod client_config;
mod home_device;
mod import;
mod link_connection;
mod program_tools;

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;
use tokio::io::{stdin, stdout};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::context::{CliContext, command_runtime};
use super::exit::{CommandError, Exit};
use super::tools::parse_profile;
use super::{console, process_signals};
use crate::mcp::{McpServer, serve_client, serve_http};
use caller_link::{CallerLink, LinkedDevice};
use home_device::HomeDevice;
use link_connection::LinkConnection;
use punie_engine::runner::ShutdownSignal;
use punie_home::{DeviceIdentity, load_mcp_token};
use punie_tool::ToolProfile;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct McpArgs {
    #[command(subcommand)]
    command: Option<McpCommand>,
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
    let _signals = process_signals::listen_for_signals(&stop, Duration::ZERO)?;
    let (link, folders) = link_device(context).await?;
    let link = Arc::new(link);
    let profile = args.profile;
    let make_server = move || McpServer::new(link.clone(), profile, folders.clone());
    match args.http {
        Some(port) => serve_over_http(port, context, make_server, &stop.stop_token()).await,
        None => serve_stdio(make_server(), &stop.stop_token()).await,
    }
}

/// Returns the way to the device that the command names, else to that of this home; and the folders that the command
/// names for it, unless it is on another machine.
async fn link_device(context: &CliContext) -> anyhow::Result<(CallerLink, Option<Vec<PathBuf>>)> {
    let folders = context.session_folders();
    // They are the session's folders, and not the workspaces of the runner.
    let context = context.with_flags(|flags| flags.workspaces.clear());
    if !context.names_device() {
        context.start_logging_despite_faults()?;
        let device = HomeDevice::new(context.with_flags(|_| ()));
        let device = LinkedDevice::OfHome(Box::new(device));
        return Ok((CallerLink::new(context, device), Some(folders)));
    }
    let (config, home) = context.caller_config()?;
    let caller = CliContext::caller_client(&config, &home)?;
    let device = context.resolve_device(&config, &home, &caller).await?;
    let is_here = home.device_file().exists()
        && *DeviceIdentity::load_or_create(&home)?.device_id() == device;
    let device = LinkedDevice::Named(Box::new(LinkConnection::new(caller, device)));
    Ok((CallerLink::new(context, device), is_here.then_some(folders)))
}

async fn serve_over_http(
    port: u16,
    context: &CliContext,
    make_server: impl Fn() -> McpServer + Send + Sync + 'static,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let home = context.open_home()?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    let url = format!("http://{}/mcp", listener.local_addr()?);
    let token = load_mcp_token(&home)?;
    let file = home.mcp_token_file();
    if context.is_json() {
        console::print_json(&json!({"url": url, "tokenFile": file}));
    } else {
        let file = console::shorten_path(&file, context.environment().user_dir());
        console::print_row("MCP server", &url);
        console::print_row("Token", &format!("in {file}; send it as a Bearer token"));
    }
    Ok(serve_http(listener, token.expose(), make_server, stop).await?)
}

async fn serve_stdio(server: McpServer, stop: &CancellationToken) -> anyhow::Result<()> {
    Box::pin(serve_client(server, (stdin(), stdout()), stop))
        .await
        .map_err(|why| CommandError::with_exit(Exit::Failed, format!("the MCP client: {why}")))
}
