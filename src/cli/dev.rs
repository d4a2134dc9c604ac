//! `dev`: an embedded backend and a runner in one process, paired with each other. For users without an account.

use std::sync::Arc;

use clap::Args;
use serde::Serialize;

use super::acp::EditorHost;
use super::context::{Context, runtime};
use super::exit::Exit;
use super::wiring::{self, Assembled, BackendSource};
use super::{acp, embedded_tokens, print, stop};
use crate::acp::editor::Editors;
use crate::backend::Backend as _;
use crate::config::{Config, WorkspaceRule};
use crate::dev_backend::{Clock, DevBackend, DevBackendOptions};
use crate::home::{DeviceIdentity, Home, RunnerLock, TokenName, Tokens};
use crate::redact::Redactor;
use crate::runner::{Stop, ToolThreads};

#[derive(Debug, Default, Args)]
pub struct DevArgs {
    /// The port on 127.0.0.1; 0 takes any free one
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub port: u16,
}

/// The first line of stdout, for scripts.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ready {
    /// The backend's address.
    pub url: String,
    /// The console's address; always null for now.
    pub console_url: Option<String>,
    /// The token for sending requests.
    pub caller_token: String,
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
pub fn dev(args: &DevArgs, context: &Context) -> anyhow::Result<Exit> {
    let config = context.config_of_runner(WorkspaceRule::OrCurrentDir)?;
    let home = Context::home(&config)?;
    let _lock = RunnerLock::acquire(&home)?;
    let runtime = runtime()?;
    runtime.block_on(async {
        let stop = Stop::new();
        let _signals = stop::on_signals(&stop)?;
        Box::pin(serve(args.port, context, &home, &stop, |ready| announce(ready, context.json()))).await
    })?;
    runtime.shutdown_background();
    Ok(Exit::Done)
}

/// Runs an embedded backend with a paired runner until stopped; calls `ready` once requests are answered.
pub async fn serve(
    port: u16,
    context: &Context,
    home: &Home,
    stop: &Stop,
    ready: impl FnOnce(&Ready),
) -> anyhow::Result<()> {
    let backend = start_backend(home, port).await?;
    let tokens = embedded_tokens::prepare(&backend, home)?;
    let config = context.with_embedded_backend(backend.url()).config(WorkspaceRule::OrCurrentDir)?;
    let code = Some(backend.pairing_code().to_owned());
    let identity = DeviceIdentity::load_or_create(home)?;
    let device = identity.id().to_string();
    // This goes first, because a request for a device without a session is refused.
    wiring::backend(&config, home, identity, &Redactor::default(), code.clone())?.open_session().await?;
    let editors = Editors::default();
    let source = BackendSource::Embedded;
    let assembled = wiring::runner(
        &config,
        home,
        context.environment(),
        source,
        code,
        &editors,
        &ToolThreads::default(),
    )?;
    ready(&Ready {
        device_id: Some(device),
        workspaces: config.workspaces.iter().map(|path| path.display().to_string()).collect(),
        ..of_backend(&backend, &tokens, &config)?
    });
    let Assembled { runner, processes, registry, journal } = assembled;
    let host = Arc::new(EditorHost::running(home, &editors, registry, journal));
    let _door = acp::open_door(&config, home, host, editors, stop);
    let _warming = processes.warm_up();
    let ended = Box::pin(processes.serve(stop, runner.run(stop))).await;
    backend.stop().await;
    Ok(ended?)
}

/// Starts the embedded backend on this home's database.
pub async fn start_backend(home: &Home, port: u16) -> anyhow::Result<DevBackend> {
    let options = DevBackendOptions {
        db: home.dev_backend_file(),
        port,
        clock: Clock::system(),
        production_errors: false,
        holds: true,
        faults: None,
    };
    Ok(DevBackend::start(options).await?)
}

/// Describes the backend, without a device.
pub fn of_backend(backend: &DevBackend, tokens: &Tokens, config: &Config) -> anyhow::Result<Ready> {
    let token = tokens.read(TokenName::Caller)?;
    Ok(Ready {
        url: backend.url().to_owned(),
        console_url: None,
        caller_token: token.map(|token| token.expose().clone()).unwrap_or_default(),
        admin_key: backend.admin_key().to_owned(),
        device_id: None,
        pairing_code: (!backend.pairing_is_closed()).then(|| backend.pairing_code().to_owned()),
        home: config.home.display().to_string(),
        workspaces: Vec::new(),
    })
}

fn announce(ready: &Ready, json: bool) {
    if json {
        return print::json(ready);
    }
    print::line(&format!("Backend    {}", ready.url));
    if let Some(device) = &ready.device_id {
        print::line(&format!("Device     {device}"));
    }
    print::line(&format!("Workspace  {}", ready.workspaces.join(", ")));
    print::line("\nAsk it for something, from another terminal:");
    let home = &ready.home;
    print::line(&format!(
        "  punie-runner --home {home} --backend-url {} send Glob '{{\"pattern\":\"*\"}}'",
        ready.url
    ));
    print::line("\nStop it with Ctrl-C.");
}
