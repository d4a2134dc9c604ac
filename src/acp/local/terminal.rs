//! One command of this machine: its process, its output and its state. Not here: the list of all commands
//! (terminals), reading (pump) and stopping (kill).

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::capture::Capture;
use super::children::ChildLog;
use super::family::Family;
use super::guarded::Watch;
use super::input_wait::is_any_reading;
use super::kill::{lasting, stop_tree};
use super::listeners;
use super::out_of_memory::KillCount;
use super::process::Child;
use super::pty::Keyboard;
use super::pump::{Listener, pump};
use super::ties::remove_fifo;
use crate::acp::terminals::{
    ExitStatus, InputWait, Ladder, ProcessName, Stopped, Stroke, TerminalExit, TerminalOutput, Typed,
};
use crate::home::Mounted;
use crate::tool::ToolError;

/// One command.
pub(super) struct Terminal {
    child: Child,
    /// The process that holds the terminal for a next runner; ended when no process of the command is left.
    holder: Mutex<Option<Child>>,
    family: Option<Family>,
    fifo: Option<PathBuf>,
    /// The keyboard, if the command has a terminal in place of pipes.
    keyboard: Option<Keyboard>,
    /// Locked while output is read and captured.
    reading: Mutex<()>,
    capture: Mutex<Capture>,
    started: Instant,
    kills_before: KillCount,
    phase: watch::Sender<Phase>,
    bytes_read: watch::Sender<u64>,
    log: Arc<dyn ChildLog>,
    /// The protected paths at the command's start.
    watch: Option<Watch>,
    /// The protected paths that appeared or changed until its end.
    changes: OnceLock<Vec<String>>,
    reported: AtomicBool,
    /// The secrets mounted for the command; dropped, with their files, when no process of it is left.
    mounted: Mutex<Option<Arc<Mounted>>>,
}

/// The parts of a terminal.
pub(super) struct Parts {
    pub child: Child,
    pub holder: Option<Child>,
    pub family: Option<Family>,
    /// The named pipe of the output or the socket of the terminal, for a command that outlives the runner.
    pub fifo: Option<PathBuf>,
    pub keyboard: Option<Keyboard>,
    pub capture: Capture,
    pub started: Instant,
    pub log: Arc<dyn ChildLog>,
    pub watch: Option<Watch>,
    pub mounted: Option<Arc<Mounted>>,
}

/// The origin of a command's output.
pub(super) enum From {
    /// The command was started by this process of the runner.
    TheStart,
    /// An earlier process of the runner started it and stored some output.
    AnEarlierLife,
}

#[derive(Debug, Clone)]
enum Phase {
    Running,
    Ended(TerminalExit, Duration),
}

impl Terminal {
    /// Creates the terminal of a running command.
    pub fn new(parts: Parts) -> Arc<Self> {
        let Parts { child, holder, family, fifo, keyboard, capture, started, log, watch, mounted } = parts;
        Arc::new(Self {
            child,
            holder: Mutex::new(holder),
            family,
            fifo,
            keyboard,
            reading: Mutex::default(),
            capture: Mutex::new(capture),
            started,
            kills_before: KillCount::now(),
            phase: watch::Sender::new(Phase::Running),
            bytes_read: watch::Sender::new(0),
            log,
            watch,
            changes: OnceLock::new(),
            reported: AtomicBool::new(false),
            mounted: Mutex::new(mounted),
        })
    }

    /// Starts the thread that reads the output.
    pub fn start_pump(self: &Arc<Self>, output: OwnedFd, from: From) -> Result<(), ToolError> {
        let terminal = Arc::clone(self);
        let thread = thread::Builder::new().name("pump".to_owned());
        // A terminal whose pump thread fails is dropped here, and its command with it.
        let pumping = thread.spawn(move || {
            if let From::AnEarlierLife = from {
                terminal.capture().go_on();
            }
            pump(&terminal.child, output, &*terminal);
        });
        pumping.map(drop).map_err(|cause| ToolError::io("a thread to read the command's output", &cause))
    }

    pub async fn exit(&self) -> Result<TerminalExit, ToolError> {
        let mut phase = self.phase.subscribe();
        let ended = phase.wait_for(|phase| matches!(phase, Phase::Ended(..))).await;
        match ended.as_deref() {
            Ok(Phase::Ended(exit, _)) => Ok(exit.clone()),
            _ => Err(ToolError::internal("The command is no longer watched; its end is not known.")),
        }
    }

    /// Completes when the command has ended and its output has been read to the end. A reply before that would lack
    /// the last output of its descendants and report them as running.
    pub async fn fell_silent(&self) {
        let mut phase = self.phase.subscribe();
        let silent = |phase: &Phase| matches!(phase, Phase::Ended(exit, _) if !exit.output_open);
        // An error means that the output is not read any more, so none can follow.
        let _ = phase.wait_for(silent).await;
    }

    pub async fn more_than(&self, seen: u64) -> Result<(), ToolError> {
        let mut read = self.bytes_read.subscribe();
        tokio::select! {
            more = read.wait_for(|read| *read > seen) => match more {
                Ok(_) => Ok(()),
                Err(_) => Err(ToolError::internal("The command is no longer read.")),
            },
            ended = self.exit() => ended.map(drop),
        }
    }

    /// Returns the output so far. Blocks: it writes to disk, may wait for the pump's writes, and may scan all
    /// processes.
    pub fn output(&self, since: Option<u64>) -> TerminalOutput {
        let phase = self.phase.borrow().clone();
        let (exit, elapsed) = match phase {
            Phase::Running => (None, self.started.elapsed()),
            Phase::Ended(exit, elapsed) => (Some(exit), elapsed),
        };
        let left_something = exit.as_ref().is_some_and(|exit| !exit.left.is_empty());
        let left = if left_something { self.relatives() } else { Vec::new() };
        let input = if exit.is_none() { self.input_wait() } else { None };
        // Read before the text: output that arrives in between then ends the next wait, and is not missed by it.
        let bytes_read = *self.bytes_read.borrow();
        let shown = self.capture().show(since);
        // Also for a command that succeeded: git continues after some denials.
        let over = self.watch.as_ref().filter(|_| exit.is_some());
        let hint = over.and_then(|watch| watch.refused(&shown.text));
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
            input,
            held_back: shown.held_back,
            in_editor: false,
            warnings: self.changes.get().cloned().unwrap_or_default(),
            hint,
        }
    }

    /// Types these strokes. Blocks for a moment at most while the program does not read.
    pub fn type_in(&self, strokes: &[Stroke]) -> Result<Typed, ToolError> {
        match &self.keyboard {
            Some(keyboard) => keyboard.write(strokes),
            None => {
                Err(ToolError::invalid_args("The command has no terminal to type at; nothing was typed."))
            }
        }
    }

    fn input_wait(&self) -> Option<InputWait> {
        let keyboard = self.keyboard.as_ref()?;
        let members = self.family.as_ref().map(Family::members).unwrap_or_default();
        let is_blocked = keyboard.device().is_some_and(|device| is_any_reading(&members, device));
        // Checked last: a program that is blocked by now may have turned the echo off just before.
        let input = if keyboard.is_unechoed() { Some(InputWait::Unechoed) } else { None };
        input.or(is_blocked.then_some(InputWait::Blocked))
    }

    /// Returns the addresses that the command's processes listen on. Blocks while it scans all processes.
    pub fn listeners(&self) -> Vec<String> {
        self.family.as_ref().map(|family| listeners::of(&family.members())).unwrap_or_default()
    }

    /// Stops the command with all its processes. Blocks.
    pub fn stop(&self, ladder: &Ladder) -> Stopped {
        let stopped = stop_tree(self.family.as_ref(), Some(&self.child), ladder);
        if stopped.survivors.is_empty() {
            self.report_end();
        }
        stopped
    }

    /// Ends the reading of a running command that outlives the runner; returns false for any other. All output read
    /// is on disk then, and further output waits for the next runner.
    pub fn leave_running(&self) -> bool {
        if self.fifo.is_none() || !matches!(&*self.phase.borrow(), Phase::Running) {
            return false;
        }
        // The pump blocks on this lock from now on.
        std::mem::forget(self.begin_read());
        self.capture().save();
        true
    }

    /// Returns the command's processes that are still running.
    fn relatives(&self) -> Vec<ProcessName> {
        let Some(family) = &self.family else { return Vec::new() };
        let members = family.members();
        family.holders(&members)
    }

    /// Returns the same, without processes that are just ending.
    fn lasting_relatives(&self) -> Vec<ProcessName> {
        let Some(family) = &self.family else { return Vec::new() };
        family.holders(&lasting(family))
    }

    pub fn may_have_relatives(&self) -> bool {
        match &*self.phase.borrow() {
            Phase::Running => true,
            Phase::Ended(exit, _) => exit.output_open || !exit.left.is_empty(),
        }
    }

    fn report_end(&self) {
        drop(self.mounted.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(identity) = self.child.identity()
            && !self.reported.swap(true, Ordering::Relaxed)
        {
            self.family.iter().for_each(Family::dissolve);
            self.fifo.iter().for_each(|fifo| remove_fifo(fifo));
            drop(self.holder.lock().unwrap_or_else(PoisonError::into_inner).take());
            self.log.ended(identity);
        }
    }

    fn capture(&self) -> MutexGuard<'_, Capture> {
        self.capture.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener for Terminal {
    fn begin_read(&self) -> MutexGuard<'_, ()> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

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
        if let Some(watch) = &self.watch {
            let _ = self.changes.set(watch.changes());
        }
        let out_of_memory = status.may_be_a_kill() && self.kills_before.rose();
        let exit = TerminalExit { status: status.clone(), output_open: held, left, out_of_memory };
        self.phase.send_replace(Phase::Ended(exit, self.started.elapsed()));
        // After the state is visible: a reader that saw no end relies on this notification.
        if let Some(identity) = self.child.identity() {
            self.log.exited(identity, &status);
        }
    }
}
