//! This machine's processes as ACP terminals. Not here: how one is started (process), read (pump) or stopped (kill).

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::{OnceCell, watch};
use tokio::time::Instant;

use super::capture::{Capture, Place};
use super::children::{ChildLog, call_mark};
use super::command::{check_command, check_folder, command_of, refused};
use super::environment::Environment;
use super::family::Family;
use super::kill::{lasting, stop_tree};
use super::login;
use super::process::{Child, Plan, Spawned, Spawner};
use super::pty::{self, Keyboard};
use super::pump::{Listener, pump};
use super::ties::Ties;
use crate::acp::Answer;
use crate::acp::terminals::{
    CreateTerminal, ExitStatus, Ladder, OpenTerminal, OutputQuery, ProcessName, Stopped, Stroke,
    TerminalClient, TerminalExit, TerminalId, TerminalOutput, Typed,
};
use crate::output::{FilterFactory, OutputStore};
use crate::tool::ToolError;

/// What this machine's terminals need.
pub struct LocalSetup {
    /// The runner's own environment; a few names of it are passed on, see [`super::environment`].
    pub base_env: Vec<(String, String)>,
    /// Where outputs are kept.
    pub store: OutputStore,
    /// Masks secrets in them.
    pub filters: FilterFactory,
    /// Is told of every process.
    pub log: Arc<dyn ChildLog>,
}

/// The terminals of this machine. Clones share them. When the last is gone, the system kills what still runs.
#[derive(Clone)]
pub struct LocalTerminals {
    shared: Arc<Shared>,
}

struct Shared {
    setup: LocalSetup,
    spawner: Spawner,
    environment: OnceCell<Environment>,
    open: Mutex<HashMap<TerminalId, Arc<Terminal>>>,
    next: AtomicU64,
}

/// One command.
struct Terminal {
    child: Child,
    family: Option<Family>,
    keyboard: Option<Keyboard>,
    capture: Mutex<Capture>,
    started: Instant,
    phase: watch::Sender<Phase>,
    bytes_read: watch::Sender<u64>,
    log: Arc<dyn ChildLog>,
    reported: AtomicBool,
}

#[derive(Debug, Clone)]
enum Phase {
    Running,
    Ended(TerminalExit, Duration),
}

impl LocalTerminals {
    /// Sets the machine up; starts one thread and no process.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn new(setup: LocalSetup) -> io::Result<Self> {
        Ok(Self {
            shared: Arc::new(Shared {
                setup,
                spawner: Spawner::new()?,
                environment: OnceCell::new(),
                open: Mutex::default(),
                next: AtomicU64::new(0),
            }),
        })
    }

    /// Captures the login environment now, so that the first command need not wait for it. Without this, the first
    /// command waits, 3 s at most; once captured or given up on, it is not asked for again.
    pub async fn warm_up(&self) {
        self.environment().await;
    }

    /// Stops everything that still runs, all at once.
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
    }

    async fn environment(&self) -> &Environment {
        let Shared { environment, spawner, setup, .. } = &*self.shared;
        environment.get_or_init(|| login::environment(spawner, &setup.base_env)).await
    }

    async fn create(&self, request: CreateTerminal) -> Result<OpenTerminal, ToolError> {
        let mut env = self.environment().await.for_command(&request.env)?;
        check_command(&request.launch)?;
        check_folder(&request.cwd)?;
        let (program, args) = command_of(&request.launch)?;
        let mark = call_mark(&request.request, request.output_number);
        if let Some((name, value)) = mark.split_once('=') {
            env.insert(name.to_owned(), value.to_owned());
        }
        if request.tty.is_some() {
            env.insert("TERM".to_owned(), pty::TERM.to_owned());
        }
        let ties = Ties::of_command(&mark, request.background);
        let bonds = ties.clone();
        let (cwd, stdin, tty) = (request.cwd.clone(), request.stdin.clone(), request.tty);
        let plan = Plan { program, args, env, cwd, stdin, tty, ties };
        let spawned = self.shared.spawner.spawn(plan).await;
        let Spawned { child, output } = spawned.map_err(|cause| {
            bonds.untie();
            refused(&request.launch, &request.cwd, &cause)
        })?;
        if let Some(identity) = child.identity() {
            // The program is still being loaded meanwhile, so that this costs the call nothing.
            self.shared.setup.log.started(&request.request, identity, &request.launch.to_string()).await;
        }
        let pid = child.pid();
        let keyboard = request.tty.map(|_| Keyboard::of(&output)).transpose();
        let keyboard = keyboard.map_err(|cause| ToolError::io("a keyboard for the terminal", &cause))?;
        let terminal = self.terminal(child, keyboard, &output, (mark, &bonds), &request);
        let id = TerminalId::nth(self.shared.next.fetch_add(1, Ordering::Relaxed));
        start_pump(Arc::clone(&terminal), output)?;
        self.open().insert(id.clone(), terminal);
        Ok(OpenTerminal { id, pid: Some(pid) })
    }

    fn terminal(
        &self,
        child: Child,
        keyboard: Option<Keyboard>,
        output: &OwnedFd,
        (mark, ties): (String, &Ties),
        request: &CreateTerminal,
    ) -> Arc<Terminal> {
        let setup = &self.shared.setup;
        // A terminal is no pipe, and its number is that of every terminal.
        let pipe = match keyboard {
            None => rustix::fs::fstat(output).ok().map(|stat| stat.st_ino),
            Some(_) => None,
        };
        let family = child.identity().cloned().map(|leader| Family::of_command(leader, mark, ties, pipe));
        let place = Place {
            store: setup.store.clone(),
            request: request.request.clone(),
            number: request.output_number,
        };
        let capture = Capture::new(place, (setup.filters)(), request.budget, request.raw);
        Arc::new(Terminal {
            child,
            family,
            keyboard,
            capture: Mutex::new(capture),
            started: Instant::now(),
            phase: watch::Sender::new(Phase::Running),
            bytes_read: watch::Sender::new(0),
            log: Arc::clone(&setup.log),
            reported: AtomicBool::new(false),
        })
    }

    fn open(&self) -> MutexGuard<'_, HashMap<TerminalId, Arc<Terminal>>> {
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
            looking.await.map_err(|panicked| ToolError::internal(panicked.to_string()))
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
            stop_elsewhere(terminal, ladder).await
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

impl Terminal {
    async fn exit(&self) -> Result<TerminalExit, ToolError> {
        let mut phase = self.phase.subscribe();
        let ended = phase.wait_for(|phase| matches!(phase, Phase::Ended(..))).await;
        match ended.as_deref() {
            Ok(Phase::Ended(exit, _)) => Ok(exit.clone()),
            _ => Err(ToolError::internal("The command is no longer watched; its end is not known.")),
        }
    }

    async fn more_than(&self, seen: u64) -> Result<(), ToolError> {
        let mut read = self.bytes_read.subscribe();
        tokio::select! {
            more = read.wait_for(|read| *read > seen) => match more {
                Ok(_) => Ok(()),
                Err(_) => Err(ToolError::internal("The command is no longer read.")),
            },
            ended = self.exit() => ended.map(drop),
        }
    }

    /// Blocks: it writes to disk, may wait for the pump to do so, and may look through all processes.
    fn output(&self, since: Option<u64>) -> TerminalOutput {
        let phase = self.phase.borrow().clone();
        let (exit, elapsed) = match phase {
            Phase::Running => (None, self.started.elapsed()),
            Phase::Ended(exit, elapsed) => (Some(exit), elapsed),
        };
        let left_something = exit.as_ref().is_some_and(|exit| !exit.left.is_empty());
        let left = if left_something { self.relatives() } else { Vec::new() };
        // Before the text is taken: what comes in between is then found by the next wait, not lost to it.
        let bytes_read = *self.bytes_read.borrow();
        let shown = self.capture().show(since);
        TerminalOutput {
            text: shown.text,
            omitted_bytes: shown.omitted_bytes,
            handle: shown.handle,
            cursor: shown.cursor,
            bytes_read,
            exit,
            elapsed,
            left,
            lossy_chars: shown.lossy_chars,
            redactions: shown.redactions,
            cut_short: shown.cut_short,
            tty: self.keyboard.is_some(),
            held_back: shown.held_back,
        }
    }

    /// Blocks while the program does not read, for a moment at most.
    fn type_in(&self, strokes: &[Stroke]) -> Result<Typed, ToolError> {
        match &self.keyboard {
            Some(keyboard) => keyboard.write(strokes),
            None => {
                Err(ToolError::invalid_args("The command has no terminal to type at; nothing was typed."))
            }
        }
    }

    /// Stops it with all its processes; blocks.
    fn stop(&self, ladder: &Ladder) -> Stopped {
        let stopped = stop_tree(self.family.as_ref(), Some(&self.child), ladder);
        if stopped.survivors.is_empty() {
            self.report_end();
        }
        stopped
    }

    /// What it left behind that lives.
    fn relatives(&self) -> Vec<ProcessName> {
        let Some(family) = &self.family else { return Vec::new() };
        let members = family.members();
        family.holders(&members)
    }

    /// The same, without those that are just ending.
    fn lasting_relatives(&self) -> Vec<ProcessName> {
        let Some(family) = &self.family else { return Vec::new() };
        family.holders(&lasting(family))
    }

    fn may_have_relatives(&self) -> bool {
        match &*self.phase.borrow() {
            Phase::Running => true,
            Phase::Ended(exit, _) => exit.output_open || !exit.left.is_empty(),
        }
    }

    fn report_end(&self) {
        if let Some(identity) = self.child.identity()
            && !self.reported.swap(true, Ordering::Relaxed)
        {
            self.family.iter().for_each(Family::dissolve);
            self.log.ended(identity);
        }
    }

    fn capture(&self) -> MutexGuard<'_, Capture> {
        self.capture.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener for Terminal {
    fn printed(&self, chunk: &[u8]) {
        if let Some(keyboard) = &self.keyboard {
            keyboard.watch(chunk);
        }
        self.capture().take(chunk);
        self.bytes_read.send_modify(|read| *read += chunk.len() as u64);
    }

    fn paused(&self) {
        self.capture().save();
    }

    fn closed(&self) {
        if let Some(keyboard) = &self.keyboard {
            keyboard.close();
        }
        self.capture().finish();
        let after_the_end = self.phase.send_if_modified(|phase| match phase {
            Phase::Ended(exit, _) => std::mem::take(&mut exit.output_open),
            Phase::Running => false,
        });
        if after_the_end && self.lasting_relatives().is_empty() {
            self.report_end();
        }
    }

    fn ended(&self, status: ExitStatus, held: bool) {
        let left = if held { self.relatives() } else { self.lasting_relatives() };
        if !held && left.is_empty() {
            self.report_end();
        }
        let exit = TerminalExit { status, output_open: held, left };
        self.phase.send_replace(Phase::Ended(exit, self.started.elapsed()));
    }
}

fn start_pump(terminal: Arc<Terminal>, output: OwnedFd) -> Result<(), ToolError> {
    let thread = thread::Builder::new().name("pump".to_owned());
    // A terminal without its pump is dropped here, and its command with it.
    let pumping = thread.spawn(move || pump(&terminal.child, output, &*terminal));
    pumping.map(drop).map_err(|cause| ToolError::io("a thread to read the command's output", &cause))
}

async fn stop_elsewhere(terminal: Arc<Terminal>, ladder: Ladder) -> Result<Stopped, ToolError> {
    let stopping = tokio::task::spawn_blocking(move || terminal.stop(&ladder));
    stopping.await.map_err(|panicked| ToolError::internal(format!("stopping the command failed: {panicked}")))
}

fn unknown(id: &TerminalId) -> ToolError {
    ToolError::not_found(format!("There is no terminal {id}; it was released, or belongs to an earlier run."))
}
