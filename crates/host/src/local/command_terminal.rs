//! One command of this machine: its process, its output and its state.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::time::Instant;

use super::child_log::ChildLog;
use super::child_process::ChildProcess;
use super::child_tracking::remove_fifo;
use super::command_capture::CommandCapture;
use super::confinement::Confinement;
use super::input_wait::is_any_reading_terminal;
use super::listening_sockets;
use super::oom_kills::OomKillCount;
use super::process_kill::{find_lasting_members, stop_process_tree};
use super::process_stat::{TreeMember, count_threads};
use super::process_tree::ProcessTree;
use super::protected_path_watch::ProtectedPathWatch;
use super::pty::TerminalKeyboard;
use super::pump::{PumpListener, pump_output};
use crate::network_proxy::CallNetwork;
use crate::terminals::{
    ExitStatus, InputWait, ProcessName, StopReport, StopSequence, TerminalExit, TerminalInput,
    TerminalOutput, TypedBytes,
};
use punie_home::MountedSecrets;
use punie_sandbox::hint::PROCESS_LIMIT;
use punie_sandbox::process_limit::is_at_limit;
use punie_tool::ToolError;

pub(super) struct CommandTerminal {
    command: StartedCommand,
    /// Locked while output is read and captured.
    reading: Mutex<()>,
    capture: Mutex<CommandCapture>,
    kills_before: OomKillCount,
    phase: watch::Sender<CommandPhase>,
    bytes_read: watch::Sender<u64>,
    /// The protected paths that appeared or changed until its end.
    changes: OnceLock<Vec<String>>,
    reported: AtomicBool,
}

/// A command as it was started, by this or an earlier process of the runner.
pub(super) struct StartedCommand {
    pub child: ChildProcess,
    /// The process that holds the terminal for a next runner; ended when no process of the command is left.
    pub holder: Mutex<Option<ChildProcess>>,
    pub process_tree: Option<ProcessTree>,
    /// The named pipe of the output or the socket of the terminal, for a command that outlives the runner.
    pub fifo: Option<PathBuf>,
    /// The keyboard, if the command has a terminal in place of pipes.
    pub keyboard: Option<TerminalKeyboard>,
    pub started: Instant,
    pub log: Arc<dyn ChildLog>,
    /// The protected paths at the command's start.
    pub watch: Option<ProtectedPathWatch>,
    /// Its network, if it reaches other hosts through the proxy.
    pub network: Option<Arc<CallNetwork>>,
    pub confinement: Confinement,
    /// The secrets mounted for the command; dropped, with their files, when no process of it is left.
    pub mounted: Mutex<Option<Arc<MountedSecrets>>>,
}

/// The origin of a command's output.
pub(super) enum OutputOrigin {
    /// The command was started by this process of the runner.
    NewCommand,
    /// An earlier process of the runner started it and stored some output.
    EarlierRun,
}

#[derive(Debug, Clone)]
enum CommandPhase {
    Running,
    Ended(TerminalExit, Duration),
}

impl CommandTerminal {
    /// Creates the terminal of a running command.
    pub fn new(command: StartedCommand, capture: CommandCapture) -> Arc<Self> {
        Arc::new(Self {
            command,
            reading: Mutex::default(),
            capture: Mutex::new(capture),
            kills_before: OomKillCount::current(),
            phase: watch::Sender::new(CommandPhase::Running),
            bytes_read: watch::Sender::new(0),
            changes: OnceLock::new(),
            reported: AtomicBool::new(false),
        })
    }

    /// Returns a hint if confinement may have made the command fail.
    pub fn failure_hint(&self, exit: &TerminalExit, output: &str) -> Option<String> {
        if exit.at_process_limit {
            return Some(PROCESS_LIMIT.to_owned());
        }
        self.command
            .confinement
            .output_hint(output, exit.status.has_failed())
    }

    /// Starts the thread that reads the output.
    pub fn start_pump(
        self: &Arc<Self>,
        output: OwnedFd,
        from: OutputOrigin,
    ) -> Result<(), ToolError> {
        let terminal = Arc::clone(self);
        let thread = thread::Builder::new().name("pump".to_owned());
        // A terminal whose pump thread fails is dropped here, and its command with it.
        let pumping = thread.spawn(move || {
            if let OutputOrigin::EarlierRun = from {
                terminal.capture.lock().resume();
            }
            pump_output(&terminal.command.child, output, &*terminal);
        });
        pumping
            .map(drop)
            .map_err(|cause| ToolError::from_io("a thread to read the command's output", &cause))
    }

    pub async fn wait_for_exit(&self) -> Result<TerminalExit, ToolError> {
        let mut phase = self.phase.subscribe();
        let ended = phase
            .wait_for(|phase| matches!(phase, CommandPhase::Ended(..)))
            .await;
        match ended.as_deref() {
            Ok(CommandPhase::Ended(exit, _)) => Ok(exit.clone()),
            _ => Err(ToolError::internal(
                "The command is no longer watched; its end is not known.",
            )),
        }
    }

    /// Completes when the command has ended and its output has been read to the end. A reply before that would lack
    /// the last output of its descendants and report them as running.
    pub async fn wait_until_silent(&self) {
        let mut phase = self.phase.subscribe();
        let silent = |phase: &CommandPhase| matches!(phase, CommandPhase::Ended(exit, _) if !exit.output_open);
        // An error means that the output is not read any more, so none can follow.
        let _ = phase.wait_for(silent).await;
    }

    pub async fn wait_for_more_output(&self, seen: u64) -> Result<(), ToolError> {
        let mut read = self.bytes_read.subscribe();
        tokio::select! {
            more = read.wait_for(|read| *read > seen) => match more {
                Ok(_) => Ok(()),
                Err(_) => Err(ToolError::internal("The command is no longer read.")),
            },
            ended = self.wait_for_exit() => ended.map(drop),
        }
    }

    /// Returns the output so far. Blocks: it writes to disk, may wait for the pump's writes, and may scan all
    /// processes.
    pub fn read_output(&self, since: Option<u64>) -> TerminalOutput {
        let phase = self.phase.borrow().clone();
        let (exit, elapsed) = match phase {
            CommandPhase::Running => (None, self.command.started.elapsed()),
            CommandPhase::Ended(exit, elapsed) => (Some(exit), elapsed),
        };
        let left_something = exit.as_ref().is_some_and(|exit| !exit.left.is_empty());
        let (left, is_at_limit) = if left_something {
            self.find_left(ProcessTree::find_members)
        } else {
            Default::default()
        };
        let exit = exit.map(|exit| TerminalExit {
            at_process_limit: exit.at_process_limit || is_at_limit,
            ..exit
        });
        let input = if exit.is_none() {
            self.detect_input_wait()
        } else {
            None
        };
        // Read before the text: output that arrives in between then ends the next wait, and is not missed by it.
        let bytes_read = *self.bytes_read.borrow();
        let shown = self.capture.lock().view_since(since);
        // Also for a command that succeeded: git continues after some denials.
        let over = self.command.watch.as_ref().filter(|_| exit.is_some());
        let hint = over.and_then(|watch| watch.explain_denial(&shown.text));
        let network = self.command.network.as_ref();
        let failed = network.and_then(|network| network.failure_text());
        TerminalOutput {
            bytes_read,
            exit,
            elapsed,
            left,
            tty: self.command.keyboard.is_some(),
            input,
            warnings: self.changes.get().cloned().unwrap_or_default(),
            hint: failed.or(hint),
            network: network.map_or_else(Vec::new, |network| network.traffic()),
            ..shown
        }
    }

    /// Types these strokes. Blocks for a moment at most while the program does not read.
    pub fn type_strokes(&self, strokes: &[TerminalInput]) -> Result<TypedBytes, ToolError> {
        match &self.command.keyboard {
            Some(keyboard) => keyboard.write_strokes(strokes),
            None => Err(ToolError::invalid_args(
                "The command has no terminal to type at; nothing was typed.",
            )),
        }
    }

    fn detect_input_wait(&self) -> Option<InputWait> {
        let keyboard = self.command.keyboard.as_ref()?;
        let members = self
            .command
            .process_tree
            .as_ref()
            .map(ProcessTree::find_members)
            .unwrap_or_default();
        let is_blocked = keyboard
            .device_number()
            .is_some_and(|device| is_any_reading_terminal(&members, device));
        // Checked last: a program that is blocked by now may have turned the echo off just before.
        let input = if keyboard.is_reading_hidden() {
            Some(InputWait::Unechoed)
        } else {
            None
        };
        input.or(is_blocked.then_some(InputWait::Blocked))
    }

    /// Returns the addresses that the command's processes listen on. Blocks while it scans all processes.
    pub fn find_listeners(&self) -> Vec<String> {
        self.command
            .process_tree
            .as_ref()
            .map(|tree| listening_sockets::list_listening_addresses(&tree.find_members()))
            .unwrap_or_default()
    }

    /// Stops the command with all its processes. Blocks.
    pub fn stop(&self, sequence: &StopSequence) -> StopReport {
        let stopped = stop_process_tree(
            self.command.process_tree.as_ref(),
            Some(&self.command.child),
            sequence,
        );
        if stopped.survivors.is_empty() {
            self.report_end();
        }
        stopped
    }

    /// Ends the reading of a running command that outlives the runner; returns false for any other. All output read
    /// is on disk then, and further output waits for the next runner.
    pub fn leave_to_next_runner(&self) -> bool {
        if self.command.fifo.is_none() || !matches!(&*self.phase.borrow(), CommandPhase::Running) {
            return false;
        }
        // The pump blocks on this lock from now on.
        std::mem::forget(self.lock_reading());
        self.capture.lock().flush_disk_copy();
        true
    }

    /// Returns the command's processes that are still running, and whether it met its limit of processes and threads.
    fn find_left(&self, find: fn(&ProcessTree) -> Vec<TreeMember>) -> (Vec<ProcessName>, bool) {
        let Some(tree) = &self.command.process_tree else {
            return Default::default();
        };
        let members = find(tree);
        let is_at_limit = tree.has_met_group_limit() || is_at_limit(count_threads(&members));
        (tree.output_holders(&members), is_at_limit)
    }

    pub fn may_have_processes(&self) -> bool {
        match &*self.phase.borrow() {
            CommandPhase::Running => true,
            CommandPhase::Ended(exit, _) => exit.output_open || !exit.left.is_empty(),
        }
    }

    fn report_end(&self) {
        drop(self.command.mounted.lock().take());
        if let Some(identity) = self.command.child.identity()
            && !self.reported.swap(true, Ordering::Relaxed)
        {
            self.command
                .process_tree
                .iter()
                .for_each(ProcessTree::remove_cgroups);
            self.command.fifo.iter().for_each(|fifo| remove_fifo(fifo));
            drop(self.command.holder.lock().take());
            self.command.log.record_child_end(identity);
        }
    }
}

impl PumpListener for CommandTerminal {
    fn lock_reading(&self) -> MutexGuard<'_, ()> {
        self.reading.lock()
    }

    fn on_output(&self, chunk: &[u8]) {
        if let Some(keyboard) = &self.command.keyboard {
            keyboard.watch_output(chunk);
        }
        self.capture.lock().push_bytes(chunk);
        self.bytes_read
            .send_modify(|read| *read += chunk.len() as u64);
    }

    fn on_pause(&self) {
        self.capture.lock().flush_disk_copy();
    }

    fn may_be_held(&self) -> bool {
        let tree = self.command.process_tree.as_ref();
        // Elsewhere no process is found.
        !cfg!(target_os = "linux") || tree.is_none_or(|tree| !tree.find_members().is_empty())
    }

    fn on_closed(&self) {
        if let Some(keyboard) = &self.command.keyboard {
            keyboard.close();
        }
        self.capture.lock().finish();
        let after_the_end = self.phase.send_if_modified(|phase| match phase {
            CommandPhase::Ended(exit, _) => std::mem::take(&mut exit.output_open),
            CommandPhase::Running => false,
        });
        if after_the_end && self.find_left(find_lasting_members).0.is_empty() {
            self.report_end();
        }
    }

    fn on_exit(&self, status: ExitStatus, held: bool) {
        let (left, at_process_limit) = self.find_left(if held {
            ProcessTree::find_members
        } else {
            find_lasting_members
        });
        let is_all_over = !held && left.is_empty();
        if is_all_over {
            drop(self.command.mounted.lock().take());
        }
        if let Some(watch) = &self.command.watch {
            let _ = self.changes.set(watch.describe_changes(is_all_over));
        }
        let out_of_memory = status.may_be_killed() && self.kills_before.has_risen();
        let exit = TerminalExit {
            status: status.clone(),
            output_open: held,
            left,
            at_process_limit,
            out_of_memory,
        };
        self.phase
            .send_replace(CommandPhase::Ended(exit, self.command.started.elapsed()));
        // After the state is visible: a reader that saw no end relies on this notification.
        if let Some(identity) = self.command.child.identity() {
            self.command.log.record_child_exit(identity, &status);
        }
        // Last: a busy disk delays no answer.
        if is_all_over {
            self.report_end();
        }
    }
}
