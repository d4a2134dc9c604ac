//! Serves this machine's processes as ACP terminals.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::OnceCell;
use tracing::Instrument as _;

use super::child_log::ChildLog;
use super::child_process::ProcessSpawner;
use super::command_capture::{CaptureOptions, CommandCapture};
use super::command_environment::{UserEnvironment, WithheldObserver};
use super::command_terminal::CommandTerminal;
use super::confinement::Confinement;
use super::control_group::ControlGroup;
use super::disk_copy::OutputLocation;
use super::login_environment;
use super::service_process::RunningService;
use crate::ToolFuture;
use crate::blocking::run_blocking;
use crate::terminals::{
    CreateTerminal, OpenTerminal, OutputQuery, StopReport, StopSequence, TerminalClient,
    TerminalExit, TerminalId, TerminalInput, TerminalOutput, TypedBytes, WindowSize,
};
use punie_core::ids::RequestId;
use punie_text::output::{OutputStore, TextBudget};
use punie_text::redact::Redactor;
use punie_tool::ToolError;

/// The time to read the rest of the output of killed processes.
const DRAIN_AFTER_KILL: Duration = Duration::from_secs(2);

/// The parts that this machine's terminals need.
pub struct LocalTerminalSetup {
    /// The runner's own environment; a few names of it are passed on, see [`super::command_environment`].
    pub base_env: Vec<(String, String)>,
    /// The store of outputs.
    pub store: OutputStore,
    /// Masks secrets in them.
    pub redactor: Redactor,
    /// Records every process.
    pub log: Arc<dyn ChildLog>,
    /// The confinement of commands.
    pub confinement: Confinement,
}

/// The terminals of this machine. Clones share them. When the last clone is dropped, the system kills all running
/// commands.
#[derive(Clone)]
pub struct LocalTerminals {
    pub(super) shared: Arc<LocalTerminalsShared>,
}

pub(super) struct LocalTerminalsShared {
    pub(super) setup: LocalTerminalSetup,
    pub(super) spawner: ProcessSpawner,
    environment: OnceCell<UserEnvironment>,
    pub(super) open: Mutex<HashMap<TerminalId, Arc<CommandTerminal>>>,
    next: AtomicU64,
    /// The services that may run.
    pub(super) services: Mutex<Vec<Weak<RunningService>>>,
    /// The folder for the named pipes and sockets of commands that outlive the runner; without it, none does.
    pub(super) fifos: OnceLock<PathBuf>,
    /// Receives the secrets of the environment.
    withheld_observer: OnceLock<WithheldObserver>,
}

impl LocalTerminals {
    /// Creates the terminals; starts one thread and no process.
    ///
    /// # Errors
    /// If the system cannot create a thread.
    pub fn new(setup: LocalTerminalSetup) -> io::Result<Self> {
        Ok(Self {
            shared: Arc::new(LocalTerminalsShared {
                setup,
                spawner: ProcessSpawner::new()?,
                environment: OnceCell::new(),
                open: Mutex::default(),
                services: Mutex::default(),
                next: AtomicU64::new(0),
                fifos: OnceLock::new(),
                withheld_observer: OnceLock::new(),
            }),
        })
    }

    /// Sets the receiver of secrets in the environment. It is called once they are known, before the first command.
    pub fn set_withheld_observer(&self, observer: WithheldObserver) {
        // Called once, at assembly.
        let _ = self.shared.withheld_observer.set(observer);
    }

    /// Captures the login environment and tests the confinement now, so that the first command need not wait (3 s at
    /// most). The environment is captured only once, even if that fails. Then runs a program that does nothing, in
    /// the same way as a command. This determines the visible folders, the control groups and their entry time.
    pub async fn warm_up(&self) {
        tokio::join!(
            self.user_environment(),
            self.shared.setup.confinement.level()
        );
        if let Err(cause) = self.run_trial_command().await {
            tracing::debug!(%cause, "no program could be run ahead of the first command");
        }
    }

    /// Stops all running commands and services at once.
    pub async fn stop_all_commands(&self, sequence: StopSequence) {
        let open: Vec<Arc<CommandTerminal>> = self
            .shared
            .open
            .lock()
            .drain()
            .map(|(_, terminal)| terminal)
            .collect();
        let mut stopping: Vec<_> = open
            .into_iter()
            .map(|terminal| {
                let sequence = sequence.clone();
                tokio::task::spawn_blocking(move || terminal.stop(&sequence))
            })
            .collect();
        stopping.extend(self.stop_services(&sequence));
        for stopped in stopping {
            if let Err(panicked) = stopped.await {
                tracing::error!(%panicked, "stopping a command failed");
            }
        }
        ControlGroup::remove_pending();
    }

    /// Returns the environment of a desktop application.
    pub(super) async fn app_environment(&self) -> BTreeMap<String, String> {
        self.user_environment()
            .await
            .for_app(&self.shared.setup.base_env)
    }

    /// Returns the PATH of commands.
    pub(crate) async fn search_path(&self) -> String {
        self.user_environment()
            .await
            .get("PATH")
            .unwrap_or_default()
            .to_owned()
    }

    pub(super) async fn user_environment(&self) -> &UserEnvironment {
        let LocalTerminalsShared {
            environment,
            spawner,
            setup,
            withheld_observer,
            ..
        } = &*self.shared;
        let captured = environment.get_or_init(|| async {
            let (environment, withheld) =
                login_environment::load_login_environment(spawner, &setup.base_env).await;
            if let Some(tell) = withheld_observer.get() {
                tell(withheld);
            }
            #[cfg(target_os = "linux")]
            let environment = {
                let paths = environment.login_paths();
                environment.with_java_trust_store(setup.confinement.set_login_paths(paths).await)
            };
            environment
        });
        captured.await
    }

    pub(super) fn create_capture(
        &self,
        location: OutputLocation,
        budget: TextBudget,
        raw: bool,
        window: Option<WindowSize>,
    ) -> CommandCapture {
        CommandCapture::new(CaptureOptions {
            location,
            redactor: self.shared.setup.redactor.clone(),
            budget,
            raw,
            window,
        })
    }

    pub(super) fn output_location(&self, request: &RequestId, number: u32) -> OutputLocation {
        OutputLocation {
            store: self.shared.setup.store.clone(),
            request: request.clone(),
            number,
        }
    }

    /// Returns the next terminal id.
    pub(super) fn allocate_id(&self) -> TerminalId {
        TerminalId::from_number(self.shared.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the confinement of commands.
    pub(super) fn confinement(&self) -> &Confinement {
        &self.shared.setup.confinement
    }

    pub(super) fn insert(&self, terminal: Arc<CommandTerminal>) -> TerminalId {
        let id = self.allocate_id();
        self.shared.open.lock().insert(id.clone(), terminal);
        id
    }

    fn find_open(&self, id: &TerminalId) -> Result<Arc<CommandTerminal>, ToolError> {
        let found = self.shared.open.lock().get(id).cloned();
        found.ok_or_else(|| no_terminal_error(id))
    }
}

impl TerminalClient for LocalTerminals {
    fn create_terminal(&self, request: CreateTerminal) -> ToolFuture<'_, OpenTerminal> {
        let terminals = self.clone();
        // In a task of its own: a call that is dropped meanwhile must not leave the command without its terminal.
        let starting = async move {
            let terminal = terminals.start_command(request).await?;
            Ok(UnclaimedTerminal {
                terminals,
                terminal,
                is_claimed: false,
            })
        };
        Box::pin(async move {
            #[expect(
                clippy::disallowed_methods,
                reason = "nothing waits for it but the call: a command that nobody receives is stopped"
            )]
            let started = tokio::spawn(starting.in_current_span()).await;
            let unclaimed = started.map_err(|panicked| {
                ToolError::internal(format!("starting the command failed: {panicked}"))
            })?;
            unclaimed.map(UnclaimedTerminal::claim)
        })
    }

    fn terminal_output(&self, query: OutputQuery) -> ToolFuture<'_, TerminalOutput> {
        Box::pin(async move {
            let terminal = self.find_open(&query.id)?;
            let reading = Arc::clone(&terminal);
            let mut output = run_blocking(move || reading.read_output(query.since)).await?;
            if let Some(exit) = &output.exit
                && output.hint.is_none()
            {
                output.hint = terminal.failure_hint(exit, &output.text);
            }
            if !output.warnings.is_empty() {
                // Also in the text, because not every reader of a reply sees its metadata.
                let mut lines = output.warnings.clone();
                lines.extend(output.hint.take());
                output.hint = Some(lines.join("\n"));
            }
            Ok(output)
        })
    }

    fn wait_for_terminal_output<'a>(&'a self, id: &'a TerminalId, seen: u64) -> ToolFuture<'a, ()> {
        Box::pin(async move { self.find_open(id)?.wait_for_more_output(seen).await })
    }

    fn write_terminal<'a>(
        &'a self,
        id: &'a TerminalId,
        strokes: Vec<TerminalInput>,
    ) -> ToolFuture<'a, TypedBytes> {
        Box::pin(async move {
            let terminal = self.find_open(id)?;
            run_blocking(move || terminal.type_strokes(&strokes)).await?
        })
    }

    fn wait_for_terminal_exit<'a>(&'a self, id: &'a TerminalId) -> ToolFuture<'a, TerminalExit> {
        Box::pin(async move { self.find_open(id)?.wait_for_exit().await })
    }

    fn kill_terminal<'a>(
        &'a self,
        id: &'a TerminalId,
        sequence: StopSequence,
    ) -> ToolFuture<'a, StopReport> {
        Box::pin(async move {
            let terminal = self.find_open(id)?;
            let stopped = stop_on_blocking_thread(Arc::clone(&terminal), sequence).await?;
            if stopped.survivors.is_empty() {
                // Only a process outside the tree that got hold of the output keeps it open for longer.
                let _ = tokio::time::timeout(DRAIN_AFTER_KILL, terminal.wait_until_silent()).await;
            }
            Ok(stopped)
        })
    }

    fn terminal_listeners<'a>(&'a self, id: &'a TerminalId) -> ToolFuture<'a, Vec<String>> {
        Box::pin(async move {
            let terminal = self.find_open(id)?;
            run_blocking(move || terminal.find_listeners()).await
        })
    }

    fn release_terminal<'a>(&'a self, id: &'a TerminalId) -> ToolFuture<'a, ()> {
        Box::pin(async move {
            let terminal = self
                .shared
                .open
                .lock()
                .remove(id)
                .ok_or_else(|| no_terminal_error(id))?;
            if terminal.may_have_processes() {
                stop_on_blocking_thread(terminal, StopSequence::for_timeout()).await?;
            }
            Ok(())
        })
    }

    fn abandon_terminal(&self, id: TerminalId) {
        let Some(terminal) = self.shared.open.lock().remove(&id) else {
            return;
        };
        if !terminal.may_have_processes() {
            return;
        }
        let stopping = thread::Builder::new()
            .name("stop".to_owned())
            .spawn(move || terminal.stop(&StopSequence::for_timeout()));
        if let Err(cause) = stopping {
            tracing::error!(%cause, "a command whose caller is gone could not be stopped");
        }
    }
}

/// A terminal that nobody has received yet. Its command is stopped if nobody does.
struct UnclaimedTerminal {
    terminals: LocalTerminals,
    terminal: OpenTerminal,
    is_claimed: bool,
}

impl UnclaimedTerminal {
    fn claim(mut self) -> OpenTerminal {
        self.is_claimed = true;
        self.terminal.clone()
    }
}

impl Drop for UnclaimedTerminal {
    fn drop(&mut self) {
        if !self.is_claimed {
            self.terminals.abandon_terminal(self.terminal.id.clone());
        }
    }
}

async fn stop_on_blocking_thread(
    terminal: Arc<CommandTerminal>,
    sequence: StopSequence,
) -> Result<StopReport, ToolError> {
    let stopping = tokio::task::spawn_blocking(move || terminal.stop(&sequence));
    stopping
        .await
        .map_err(|panicked| ToolError::internal(format!("stopping the command failed: {panicked}")))
}

fn no_terminal_error(id: &TerminalId) -> ToolError {
    ToolError::not_found(format!(
        "There is no terminal {id}; it was released, or belongs to an earlier run."
    ))
}
