//! Serves this machine's processes as ACP terminals. Not here: a single terminal, and starting (process), reading
//! (pump) and stopping (kill) its command.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::capture::{Capture, Place, Source};
use super::children::ChildLog;
use super::command::refused;
use super::confinement::Confinement;
use super::control_group::ControlGroup;
use super::environment::{Environment, ForCommands, TellWithheld};
use super::family::{Family, OutputPipe};
use super::login;
use super::planning::Planned;
use super::process::{Spawned, Spawner};
use super::pty::Keyboard;
use super::self_test::said_by;
use super::terminal::{From, Parts, Terminal};
use crate::acp::Answer;
use crate::acp::terminals::{
    CommandTrace, CreateTerminal, Ladder, Launch, OpenTerminal, OutputQuery, Stopped, Stroke, TerminalClient,
    TerminalExit, TerminalId, TerminalOutput, Typed, WindowSize,
};
use crate::ids::RequestId;
use crate::output::{Budget, FilterFactory, OutputStore};
use crate::tool::{Meta, ToolError};

/// The time to read the rest of the output of killed processes.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The parts that this machine's terminals need.
pub struct LocalSetup {
    /// The runner's own environment; a few names of it are passed on, see [`super::environment`].
    pub base_env: Vec<(String, String)>,
    /// The store of outputs.
    pub store: OutputStore,
    /// Creates the filters that mask secrets in them.
    pub filters: FilterFactory,
    /// Records every process.
    pub log: Arc<dyn ChildLog>,
    /// The confinement of commands.
    pub confinement: Confinement,
}

/// The terminals of this machine. Clones share them. When the last clone is dropped, the system kills all running
/// commands.
#[derive(Clone)]
pub struct LocalTerminals {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) setup: LocalSetup,
    spawner: Spawner,
    environment: OnceCell<Environment>,
    open: Mutex<HashMap<TerminalId, Arc<Terminal>>>,
    next: AtomicU64,
    /// The folder for the named pipes and sockets of commands that outlive the runner; without it, none does.
    pub(super) fifos: OnceLock<PathBuf>,
    /// The source of a folder for the commands' PATH.
    pub(super) ours: OnceLock<Arc<dyn ForCommands>>,
    /// Receives the secrets of the environment.
    told: OnceLock<TellWithheld>,
}

impl LocalTerminals {
    /// Creates the terminals; starts one thread and no process.
    ///
    /// # Errors
    /// If the system cannot create a thread.
    pub fn new(setup: LocalSetup) -> io::Result<Self> {
        Ok(Self {
            shared: Arc::new(Shared {
                setup,
                spawner: Spawner::new()?,
                environment: OnceCell::new(),
                open: Mutex::default(),
                next: AtomicU64::new(0),
                fifos: OnceLock::new(),
                ours: OnceLock::new(),
                told: OnceLock::new(),
            }),
        })
    }

    /// Sets the source of a folder for the commands' PATH.
    pub fn give(&self, ours: Arc<dyn ForCommands>) {
        // Called once, at assembly.
        let _ = self.shared.ours.set(ours);
    }

    /// Sets the receiver of secrets in the environment. It is called once they are known, before the first command.
    pub fn tell_withheld(&self, told: TellWithheld) {
        // Called once, at assembly.
        let _ = self.shared.told.set(told);
    }

    /// Captures the login environment and tests the confinement now, so that the first command need not wait (3 s at
    /// most). The environment is captured only once, even if that fails. Then runs a program that does nothing, in
    /// the same way as a command. This determines the visible folders, the control groups and their entry time.
    pub async fn warm_up(&self) {
        tokio::join!(self.environment(), self.shared.setup.confinement.level());
        if let Err(cause) = self.run_nothing().await {
            tracing::debug!(%cause, "no program could be run ahead of the first command");
        }
    }

    async fn run_nothing(&self) -> io::Result<()> {
        let failed = |error: ToolError| io::Error::other(error.text().to_owned());
        let launch = Launch::Program { command: "true".to_owned(), args: Vec::new() };
        let request = CreateTerminal::new(&RequestId::new(), launch, PathBuf::from("/"));
        let Planned { plan, bonds, .. } = self.planned(&request).await.map_err(failed)?;
        let ended = said_by(&self.shared.spawner, plan).await;
        bonds.untie();
        ended.map(drop)
    }

    /// Stops all running commands at once.
    pub async fn stop_all(&self, ladder: Ladder) {
        let open: Vec<Arc<Terminal>> = self.open().drain().map(|(_, terminal)| terminal).collect();
        let stopping: Vec<_> = open
            .into_iter()
            .map(|terminal| {
                let ladder = ladder.clone();
                tokio::task::spawn_blocking(move || terminal.stop(&ladder))
            })
            .collect();
        for stopped in stopping {
            if let Err(panicked) = stopped.await {
                tracing::error!(%panicked, "stopping a command failed");
            }
        }
        ControlGroup::remove_left();
    }

    /// Returns the environment of a desktop application.
    pub(super) async fn app_environment(&self) -> BTreeMap<String, String> {
        self.environment().await.for_app(&self.shared.setup.base_env)
    }

    /// Returns the PATH of commands.
    pub(in crate::acp) async fn search_path(&self) -> String {
        self.environment().await.get("PATH").unwrap_or_default().to_owned()
    }

    pub(super) async fn environment(&self) -> &Environment {
        let Shared { environment, spawner, setup, told, .. } = &*self.shared;
        let captured = environment.get_or_init(|| async {
            let (environment, withheld) = login::environment(spawner, &setup.base_env).await;
            if let Some(tell) = told.get() {
                tell(withheld);
            }
            #[cfg(target_os = "linux")]
            environment.get("PATH").into_iter().for_each(|path| setup.confinement.learn_path(path));
            environment
        });
        captured.await
    }

    async fn create(&self, request: CreateTerminal) -> Result<OpenTerminal, ToolError> {
        let Planned { plan, bonds, mark, watch } = self.planned(&request).await?;
        let spawned = self.shared.spawner.spawn(plan).await;
        let Spawned { child, output, holder } = spawned.map_err(|cause| {
            bonds.untie();
            refused(&request.launch, &request.cwd, &cause)
        })?;
        if let Some(identity) = child.identity() {
            // The program is still being loaded meanwhile, so this does not delay the call.
            self.shared.setup.log.started(&request.request, identity, &request.launch.to_string()).await;
        }
        let pid = child.pid();
        let keyboard = request.tty.map(|_| Keyboard::of(&output)).transpose();
        let keyboard = keyboard.map_err(|cause| ToolError::io("a keyboard for the terminal", &cause))?;
        let pipe = match &bonds.fifo {
            // A terminal is no pipe, and all terminals share one inode.
            _ if keyboard.is_some() => None,
            Some(path) => Some(OutputPipe::Named(path.clone())),
            None => rustix::fs::fstat(&output).ok().map(|stat| OutputPipe::Unnamed(stat.st_ino)),
        };
        let trace = child.identity().map(|identity| CommandTrace {
            identity: identity.to_string(),
            output: bonds.fifo.clone().filter(|_| keyboard.is_none() || holder.is_some()),
            request: request.request.clone(),
            raw: request.raw,
        });
        let family = child.identity().cloned().map(|leader| Family::of_command(leader, mark, &bonds, pipe));
        let place = self.place(&request.request, request.output_number);
        let capture = self.capture(place, request.budget, request.raw, request.tty);
        let log = Arc::clone(&self.shared.setup.log);
        let (fifo, started) = (bonds.fifo, Instant::now());
        let mounted = request.mounted;
        let parts = Parts { child, holder, family, fifo, keyboard, capture, started, log, watch, mounted };
        let terminal = Terminal::new(parts);
        // Without its reader the command is ended at once, but it had begun.
        let ran = |error: ToolError| error.with_meta(Meta { may_have_run: true, ..Meta::default() });
        terminal.start_pump(output, From::TheStart).map_err(ran)?;
        Ok(OpenTerminal { id: self.admit(terminal), pid: Some(pid), trace })
    }

    pub(super) fn capture(
        &self,
        place: Place,
        budget: Budget,
        raw: bool,
        window: Option<WindowSize>,
    ) -> Capture {
        let filters = Arc::clone(&self.shared.setup.filters);
        Capture::new(Source { place, filters, budget, raw, window })
    }

    pub(super) fn place(&self, request: &RequestId, number: u32) -> Place {
        Place { store: self.shared.setup.store.clone(), request: request.clone(), number }
    }

    /// Returns the next terminal id.
    pub(super) fn another(&self) -> TerminalId {
        TerminalId::nth(self.shared.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the confinement of commands.
    pub(super) fn confinement(&self) -> &Confinement {
        &self.shared.setup.confinement
    }

    /// Returns the store of outputs.
    pub(super) fn store(&self) -> &OutputStore {
        &self.shared.setup.store
    }

    pub(super) fn admit(&self, terminal: Arc<Terminal>) -> TerminalId {
        let id = self.another();
        self.open().insert(id.clone(), terminal);
        id
    }

    pub(super) fn open(&self) -> MutexGuard<'_, HashMap<TerminalId, Arc<Terminal>>> {
        self.shared.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, id: &TerminalId) -> Result<Arc<Terminal>, ToolError> {
        let found = self.open().get(id).cloned();
        found.ok_or_else(|| unknown(id))
    }
}

impl TerminalClient for LocalTerminals {
    fn create_terminal(&self, request: CreateTerminal) -> Answer<'_, OpenTerminal> {
        Box::pin(self.create(request))
    }

    fn terminal_output(&self, query: OutputQuery) -> Answer<'_, TerminalOutput> {
        Box::pin(async move {
            let terminal = self.find(&query.id)?;
            let looking = tokio::task::spawn_blocking(move || terminal.output(query.since));
            let looked = looking.await.map_err(|panicked| ToolError::internal(panicked.to_string()));
            let mut output = looked?;
            if let Some(exit) = &output.exit {
                let hint = || self.shared.setup.confinement.hint(&output.text, exit.status.is_a_failure());
                output.hint = output.hint.take().or_else(hint);
            }
            if !output.warnings.is_empty() {
                // Also in the text, because not every reader of a reply sees its metadata.
                let hint = output.hint.take();
                output.hint =
                    Some(output.warnings.iter().cloned().chain(hint).collect::<Vec<_>>().join("\n"));
            }
            Ok(output)
        })
    }

    fn wait_for_terminal_output<'a>(&'a self, id: &'a TerminalId, seen: u64) -> Answer<'a, ()> {
        Box::pin(async move { self.find(id)?.more_than(seen).await })
    }

    fn write_terminal<'a>(&'a self, id: &'a TerminalId, strokes: Vec<Stroke>) -> Answer<'a, Typed> {
        Box::pin(async move {
            let terminal = self.find(id)?;
            let typing = tokio::task::spawn_blocking(move || terminal.type_in(&strokes));
            typing.await.map_err(|panicked| ToolError::internal(panicked.to_string()))?
        })
    }

    fn wait_for_terminal_exit<'a>(&'a self, id: &'a TerminalId) -> Answer<'a, TerminalExit> {
        Box::pin(async move { self.find(id)?.exit().await })
    }

    fn kill_terminal<'a>(&'a self, id: &'a TerminalId, ladder: Ladder) -> Answer<'a, Stopped> {
        Box::pin(async move {
            let terminal = self.find(id)?;
            let stopped = stop_elsewhere(Arc::clone(&terminal), ladder).await?;
            if stopped.survivors.is_empty() {
                // Only a process outside the tree that got hold of the output keeps it open for longer.
                let _ = tokio::time::timeout(LAST_WORDS, terminal.fell_silent()).await;
            }
            Ok(stopped)
        })
    }

    fn terminal_listeners<'a>(&'a self, id: &'a TerminalId) -> Answer<'a, Vec<String>> {
        Box::pin(async move {
            let terminal = self.find(id)?;
            let looking = tokio::task::spawn_blocking(move || terminal.listeners());
            looking.await.map_err(|panicked| ToolError::internal(panicked.to_string()))
        })
    }

    fn release_terminal<'a>(&'a self, id: &'a TerminalId) -> Answer<'a, ()> {
        Box::pin(async move {
            let terminal = self.open().remove(id).ok_or_else(|| unknown(id))?;
            if terminal.may_have_relatives() {
                stop_elsewhere(terminal, Ladder::timeout()).await?;
            }
            Ok(())
        })
    }

    fn abandon_terminal(&self, id: TerminalId) {
        let Some(terminal) = self.open().remove(&id) else { return };
        if !terminal.may_have_relatives() {
            return;
        }
        let stopping =
            thread::Builder::new().name("stop".to_owned()).spawn(move || terminal.stop(&Ladder::timeout()));
        if let Err(cause) = stopping {
            tracing::error!(%cause, "a command whose caller is gone could not be stopped");
        }
    }
}

async fn stop_elsewhere(terminal: Arc<Terminal>, ladder: Ladder) -> Result<Stopped, ToolError> {
    let stopping = tokio::task::spawn_blocking(move || terminal.stop(&ladder));
    stopping.await.map_err(|panicked| ToolError::internal(format!("stopping the command failed: {panicked}")))
}

fn unknown(id: &TerminalId) -> ToolError {
    ToolError::not_found(format!("There is no terminal {id}; it was released, or belongs to an earlier run."))
}
