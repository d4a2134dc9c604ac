//! `acp`: the agent that an editor launches, over stdin and stdout. If a runner already works with this home, the
//! editor is connected to it. Otherwise this process is the runner, as long as the editor needs it.

#[cfg(unix)]
mod door;
#[cfg(not(unix))]
#[path = "door_elsewhere.rs"]
mod door;
mod host;

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{stdin, stdout};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::context::{Context, runtime};
use super::exit::Exit;
use super::stop;
use super::wiring::{self, Assembled, BackendSource};
use crate::acp::agent::{AgentSetup, Backlog, lines, serve};
use crate::acp::editor::Editors;
use crate::config::{Config, WorkspaceRule};
use crate::home::{Home, LockError, RunnerLock};
use crate::runner::{Stop, ToolThreads};

use door::Door;
pub use host::EditorHost;
use host::Wanted;

/// The interval for checking whether a runner without its editor is still needed.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Serves the editor until it closes its end.
pub fn acp(context: &Context) -> anyhow::Result<Exit> {
    let config = context.config_of_runner(WorkspaceRule::NotNeeded)?;
    let home = Context::home(&config)?;
    let runtime = runtime()?;
    let ended = match RunnerLock::acquire(&home) {
        Ok(_lock) => runtime.block_on(Box::pin(be_the_runner(context, &config, &home))),
        Err(held @ LockError::Held { .. }) => {
            runtime.block_on(door::pass_through(&home, stdin(), stdout())).map_err(|cause| {
                anyhow::Error::from(held).context(format!("it could not be reached for the editor: {cause}"))
            })
        }
        Err(other) => Err(other.into()),
    };
    // The thread that reads stdin cannot be joined.
    runtime.shutdown_background();
    ended.map(|()| Exit::Done)
}

/// Runs as the runner. The first session starts it, and its folder is the workspace if none is named.
async fn be_the_runner(context: &Context, config: &Config, home: &Home) -> anyhow::Result<()> {
    let stop = Stop::new();
    let _signals = stop::on_signals(&stop)?;
    let (ask, mut asked) = mpsc::channel::<Wanted>(1);
    let editors = Editors::default();
    let host = Arc::new(EditorHost::waiting(home, &editors, ask));
    let setup = setup(config, Arc::clone(&host), editors, &stop);
    let over = CancellationToken::new();
    let _door = Door::open(home, &setup);
    let running = async {
        let _over = over.clone().drop_guard();
        loop {
            let wanted = tokio::select! {
                Some(wanted) = asked.recv() => wanted,
                () = stop.requested() => return Ok(()),
            };
            match assemble(context, home, &wanted, &setup) {
                Ok(Assembled { runner, processes, registry, journal }) => {
                    host.is_up(registry, journal);
                    wanted.answer(Ok(()));
                    let _warming = processes.warm_up();
                    return anyhow::Ok(Box::pin(processes.serve(&stop, runner.run(&stop))).await?);
                }
                Err(error) => wanted.answer(Err(format!("{error:#}"))),
            }
        }
    };
    let serving = async {
        let backlog = Arc::new(Backlog::default());
        let transport = lines(stdin(), stdout(), Arc::clone(&backlog));
        tokio::select! {
            served = serve(&setup, transport, Some(backlog)) => {
                let was_attached = served.is_ok_and(|served| served.was_attached);
                let others = *setup.editors.open().borrow() > 0;
                if host.is_running() && (was_attached || others || !host.is_idle().await) {
                    let had_turn = was_attached || others;
                    linger(&setup, &host, config.editor.linger, had_turn, &stop).await;
                }
                stop.ask();
            }
            () = over.cancelled() => {}
        }
    };
    tokio::join!(running, serving).0
}

/// Keeps the runner up after the editor closed during its calls. The time counts from then, or from the end of the
/// last turn of another editor. Questions for the person at the editor wait for an approval. Without a turn, only
/// running calls are awaited.
async fn linger(setup: &AgentSetup, host: &EditorHost, patience: Duration, mut had_turn: bool, stop: &Stop) {
    tracing::info!(seconds = patience.as_secs(), "the editor is gone; the runner ends after a while");
    let mut gone = tokio::time::Instant::now();
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY.min(patience)) => {}
            () = stop.requested() => return,
        }
        if *setup.editors.open().borrow() > 0 {
            (gone, had_turn) = (tokio::time::Instant::now(), true);
        } else if gone.elapsed() >= patience || (!had_turn && host.is_idle().await) {
            return;
        }
    }
}

fn assemble(
    context: &Context,
    home: &Home,
    wanted: &Wanted,
    setup: &AgentSetup,
) -> anyhow::Result<Assembled> {
    let named = context.config(WorkspaceRule::NotNeeded)?;
    let folder = wanted.folder().to_owned();
    let config = if named.workspaces.is_empty() {
        context.with_flags(|flags| flags.workspaces = vec![folder]).config(WorkspaceRule::Named)?
    } else {
        named
    };
    let source = BackendSource::Configured;
    wiring::runner(
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
pub fn open_door(config: &Config, home: &Home, host: Arc<EditorHost>, editors: Editors, stop: &Stop) -> Door {
    Door::open(home, &setup(config, host, editors, stop))
}

fn setup(config: &Config, host: Arc<EditorHost>, editors: Editors, stop: &Stop) -> AgentSetup {
    AgentSetup { editors, settings: wiring::editor_settings(config), host, stopping: stop.token() }
}
