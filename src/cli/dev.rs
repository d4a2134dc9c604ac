//! `dev`: an embedded backend and a runner in one process, paired with each other. For users without an account.

use clap::Args;
use serde::Serialize;

use super::context::{CliContext, command_runtime};
use super::embedded_runner::{EmbeddedRunner, RunningRunner};
use super::exit::Exit;
use super::runner_screen::RunnerScreen;
use super::{
    approvals, console, level_question, process_signals, repository_question, runner_screen,
};
use crate::config::{Config, WorkspaceRule};
use punie_core::clock::ExpiryClock;
use punie_dev_backend::DevBackend;
use punie_engine::runner::ShutdownSignal;
use punie_home::{
    ApprovalQuestions, BackendTokens, Home, RunnerLock, TokenName, change_hint_flags,
    command_to_type,
};

#[derive(Debug, Default, Args)]
pub struct DevArgs {
    /// The port on 127.0.0.1; 0: the one before, or any free one
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub port: u16,
}

/// The first line of stdout, for scripts.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadyMessage {
    /// The backend's address.
    pub url: String,
    /// The console's address; always null for now.
    pub console_url: Option<String>,
    /// The token for sending requests, for an agent.
    pub caller_token: String,
    /// The token for sending requests and approving, for the commands of this home.
    pub approver_token: String,
    /// The key for calling any function, as `npx convex run` does.
    pub admin_key: String,
    /// The device, if one runs in the same process.
    pub device_id: Option<String>,
    /// The code for pairing a new device; null while pairing is closed.
    pub pairing_code: Option<String>,
    /// The home.
    pub home: String,
    /// The device's workspaces.
    pub workspaces: Vec<String>,
}

/// Serves and runs until stopped.
pub fn run_dev(args: &DevArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let config = context.runner_config(WorkspaceRule::OrCurrentDir)?;
    let home = CliContext::config_home(&config)?;
    let _lock = RunnerLock::try_acquire(&home)?;
    // Before anybody is asked at the terminal.
    ApprovalQuestions::in_home(&home).close_earlier(&ExpiryClock::default());
    level_question::ask_about_level(context, &config, &home)?;
    repository_question::ask_about_repositories(context, &config, &home)?;
    let runtime = command_runtime()?;
    runtime.block_on(async {
        let stop = ShutdownSignal::new();
        let _signals = process_signals::listen_for_signals(&stop, config.limits.drain)?;
        approvals::ask_people(context, &config, &home, &stop);
        Box::pin(serve_dev(args.port, context, &home, &stop)).await
    })?;
    runtime.shutdown_background();
    runner_screen::print_stopped(context.is_json());
    Ok(Exit::Done)
}

/// Runs an embedded backend with a paired runner until stopped.
async fn serve_dev(
    port: u16,
    context: &CliContext,
    home: &Home,
    stop: &ShutdownSignal,
) -> anyhow::Result<()> {
    let embedded = EmbeddedRunner::start(context, home, port, WorkspaceRule::OrCurrentDir).await?;
    let config = &embedded.config;
    let ready = ReadyMessage {
        device_id: Some(embedded.device.to_string()),
        workspaces: config
            .workspaces
            .iter()
            .map(|path| path.display().to_string())
            .collect(),
        ..backend_ready_message(&embedded.backend, &embedded.tokens, config)?
    };
    print_ready_message(&ready, context, config, &embedded.tokens);
    let is_json = context.is_json();
    let show = async |running: RunningRunner<'_>| {
        if is_json {
            return std::future::pending().await;
        }
        let screen = RunnerScreen {
            processes: running.processes,
            journal: running.journal,
            connected: running.connected,
            stop,
        };
        screen.show_lines().await
    };
    Box::pin(embedded.run_beside(home, stop, show)).await
}

/// Describes the backend, without a device.
pub fn backend_ready_message(
    backend: &DevBackend,
    tokens: &BackendTokens,
    config: &Config,
) -> anyhow::Result<ReadyMessage> {
    let read_token = |name| -> anyhow::Result<String> {
        let token = tokens.read(name)?;
        Ok(token.map_or_else(String::new, |token| token.expose().clone()))
    };
    Ok(ReadyMessage {
        url: backend.listen_url().to_owned(),
        console_url: None,
        caller_token: read_token(TokenName::Caller)?,
        approver_token: read_token(TokenName::Approver)?,
        admin_key: backend.admin_key().to_owned(),
        device_id: None,
        pairing_code: backend.pairing_code()?,
        home: config.home.display().to_string(),
        workspaces: Vec::new(),
    })
}

fn print_ready_message(
    ready: &ReadyMessage,
    context: &CliContext,
    config: &Config,
    tokens: &BackendTokens,
) {
    if context.is_json() {
        return console::print_json(ready);
    }
    let environment = context.environment();
    let shown_path = |name| console::shorten_path(&tokens.path(name), environment.user_dir());
    console::print_row("Backend", &ready.url);
    if let Some(device) = &ready.device_id {
        console::print_row("Device", device);
    }
    let caller = TokenName::Caller;
    let approver = TokenName::Approver;
    console::print_row("Caller token", &format!("in {}", shown_path(caller)));
    console::print_row("Approver", &approver_row(&shown_path(approver)));
    runner_screen::print_workspaces(&config.workspaces, environment);
    console::print_row("Try it", &send_hint(context, &ready.url));
}

/// Returns the row about the token that approves, in this file.
pub fn approver_row(path: &str) -> String {
    format!("in {path}; not for agents: it answers their questions")
}

/// Returns the command that sends a request to the embedded backend at this address, with a token of this home.
pub fn send_hint(context: &CliContext, url: &str) -> String {
    // A caller of this home finds its embedded backend, unless a variable names another.
    let named = context.names_backend();
    change_hint_flags(|flags| flags.backend_url = named.then(|| url.to_owned()));
    command_to_type("send Bash -- ls")
}
