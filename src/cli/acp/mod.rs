//! `acp`: the agent that an editor launches, over stdin and stdout. If a runner already works with this home, the
//! editor is connected to it. Otherwise this process is the runner, as long as the editor needs it.

mod editor_host;
#[cfg(unix)]
mod editor_socket;
#[cfg(not(unix))]
#[path = "editor_socket_elsewhere.rs"]
mod editor_socket;

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{stdin, stdout};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::context::{CliContext, command_runtime};
use super::exit::Exit;
use super::process_signals;
use super::wiring::{self, AssembledRunner, BackendSource};
use crate::config::{Config, WorkspaceRule};
use punie_editor::AttachedEditors;
use punie_editor::agent::{AgentSetup, UpdateBacklog, open_line_transport, serve_agent};
use punie_engine::runner::{ShutdownSignal, ToolThreads};
use punie_home::{Home, LockError, RunnerLock};

pub use editor_host::EditorHost;
use editor_host::StartRequest;
use editor_socket::EditorSocket;

/// The interval for checking whether a runner without its editor is still needed.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Serves the editor until it closes its end.
pub fn run_acp(context: &CliContext) -> anyhow::Result<Exit> {
    let config = context.runner_config(WorkspaceRule::NotNeeded)?;
    let home = CliContext::config_home(&config)?;
    let runtime = command_runtime()?;
    let ended = match RunnerLock::try_acquire(&home) {
        Ok(_lock) => runtime.block_on(Box::pin(run_as_runner(context, &config, &home))),
        Err(held @ LockError::Held { .. }) => runtime
            .block_on(editor_socket::relay_editor(&home, stdin(), stdout()))
            .map_err(|cause| {
                anyhow::Error::from(held)
                    .context(format!("it could not be reached for the editor: {cause}"))
            }),
        Err(other) => Err(other.into()),
    };
    // The thread that reads stdin cannot be joined.
    runtime.shutdown_background();
    ended.map(|()| Exit::Done)
}

/// Runs as the runner. The first session starts it, and its folder is the workspace if none is named.
async fn run_as_runner(context: &CliContext, config: &Config, home: &Home) -> anyhow::Result<()> {
    let stop = ShutdownSignal::new();
    let _signals = process_signals::listen_for_signals(&stop, config.limits.drain)?;
    let (ask, mut asked) = mpsc::channel::<StartRequest>(1);
    let editors = AttachedEditors::default();
    let host = Arc::new(EditorHost::start_on_demand(home, &editors, ask));
    let setup = agent_setup(config, Arc::clone(&host), editors, &stop);
    let over = CancellationToken::new();
    let _door = EditorSocket::start_listening(home, &setup);
    let running = async {
        let _over = over.clone().drop_guard();
        loop {
            let wanted = tokio::select! {
                Some(wanted) = asked.recv() => wanted,
                () = stop.wait_for_stop_request() => return Ok(()),
            };
            match assemble_for_session(context, home, &wanted, &setup) {
                Ok(AssembledRunner {
                    runner,
                    processes,
                    registry,
                    journal,
                }) => {
                    host.set_running(registry, journal);
                    wanted.report(Ok(()));
                    let _warming = processes.start_background_work();
                    return anyhow::Ok(
                        Box::pin(processes.serve(&stop, runner.run_until_stopped(&stop))).await?,
                    );
                }
                Err(error) => wanted.report(Err(format!("{error:#}"))),
            }
        }
    };
    let serving = async {
        let backlog = Arc::new(UpdateBacklog::default());
        let transport = open_line_transport(stdin(), stdout(), Arc::clone(&backlog));
        tokio::select! {
            served = serve_agent(&setup, transport, Some(backlog)) => {
                let was_attached = served.is_ok_and(|served| served.was_attached);
                let others = *setup.editors.subscribe_open_turns().borrow() > 0;
                if host.is_running() && (was_attached || others || !host.is_idle().await) {
                    let had_turn = was_attached || others;
                    linger_without_editor(&setup, &host, config.editor.linger, had_turn, &stop).await;
                }
                stop.request_stop();
            }
            () = over.cancelled() => {}
        }
    };
    tokio::join!(running, serving).0
}

/// Keeps the runner up after the editor closed during its calls. The time counts from then, or from the end of the
/// last turn of another editor. Questions for the person at the editor wait for an approval. Without a turn, only
/// running calls are awaited.
async fn linger_without_editor(
    setup: &AgentSetup,
    host: &EditorHost,
    patience: Duration,
    mut had_turn: bool,
    stop: &ShutdownSignal,
) {
    tracing::info!(
        seconds = patience.as_secs(),
        "the editor is gone; the runner ends after a while"
    );
    let mut gone = tokio::time::Instant::now();
    loop {
        tokio::select! {
            () = tokio::time::sleep(IDLE_CHECK_INTERVAL.min(patience)) => {}
            () = stop.wait_for_stop_request() => return,
        }
        if *setup.editors.subscribe_open_turns().borrow() > 0 {
            (gone, had_turn) = (tokio::time::Instant::now(), true);
        } else if gone.elapsed() >= patience || (!had_turn && host.is_idle().await) {
            return;
        }
    }
}

fn assemble_for_session(
    context: &CliContext,
    home: &Home,
    wanted: &StartRequest,
    setup: &AgentSetup,
) -> anyhow::Result<AssembledRunner> {
    let named = context.effective_config(WorkspaceRule::NotNeeded)?;
    let folder = wanted.session_folder().to_owned();
    let config = if named.workspaces.is_empty() {
        context
            .with_flags(|flags| flags.workspaces = vec![folder])
            .effective_config(WorkspaceRule::Named)?
    } else {
        named
    };
    let source = BackendSource::Configured;
    wiring::assemble_runner(
        &config,
        home,
        context.environment(),
        source,
        None,
        &setup.editors,
        &ToolThreads::default(),
    )
}

/// Admits editors to an independent runner, until the returned value is dropped.
pub fn admit_editors(
    config: &Config,
    home: &Home,
    host: Arc<EditorHost>,
    editors: AttachedEditors,
    stop: &ShutdownSignal,
) -> EditorSocket {
    EditorSocket::start_listening(home, &agent_setup(config, host, editors, stop))
}

fn agent_setup(
    config: &Config,
    host: Arc<EditorHost>,
    editors: AttachedEditors,
    stop: &ShutdownSignal,
) -> AgentSetup {
    AgentSetup {
        editors,
        settings: wiring::editor_settings(config),
        host,
        stopping: stop.stop_token(),
    }
}
