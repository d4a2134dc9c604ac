//! Runs commands in a connected editor's terminals: creates a terminal, shows it in its call, waits for it, reads it
//! and releases it. Not here: the choice of these commands (overlay), and their scripts (script).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::asking::{Trouble, at_last, within};
use super::script::{PRIVILEGED, fits, script};
use super::session::EditorSession;
use super::shown::ShownCall;
use crate::acp::LocalClient;
use crate::acp::local::foreign::Foreign;
use crate::acp::local::script_file::ScriptFile;
use crate::acp::protocol::{
    CreateTerminalRequest, EnvVariable, KillTerminalRequest, ReleaseTerminalRequest, TerminalExitStatus,
    TerminalId as WireId, TerminalOutputRequest, WaitForTerminalExitRequest,
};
use crate::acp::terminals::{
    CreateTerminal, ExitStatus, OpenTerminal, OutputQuery, StopSignal, Stopped, TerminalExit, TerminalId,
    TerminalOutput, signal_name,
};
use crate::output::figures;
use crate::tool::{ErrorCode, Meta, ToolError};

/// The bytes of output that an editor is asked to keep, if the call sets no limit.
const KEPT: u64 = 1 << 20;

/// The open terminals of editors. Clones share them.
#[derive(Clone)]
pub(super) struct EditorTerminals(Arc<Shared>);

struct Shared {
    local: LocalClient,
    /// The folder for scripts.
    scripts: PathBuf,
    open: Mutex<HashMap<TerminalId, Arc<Command>>>,
    /// Requests that are sent although no call waits for them any more.
    tasks: TaskTracker,
}

/// A command in an editor's terminal.
struct Command {
    session: Arc<EditorSession>,
    wire: WireId,
    request: CreateTerminal,
    started: Instant,
    runtime: Handle,
    state: Mutex<State>,
    /// Removed with the command.
    _script: ScriptFile,
}

#[derive(Default)]
struct State {
    ended: Option<(TerminalExit, Duration)>,
    /// The output that the editor returned last.
    printed: String,
    cut: bool,
    /// The whole output, once the command has ended.
    whole: Option<TerminalOutput>,
}

/// The reason why a command does not run in the editor.
pub(super) enum NotThere {
    /// The command can run on this machine, with this reason.
    Local(String),
    /// The command must not run, or may run in the editor already.
    Refused(ToolError),
}

impl EditorTerminals {
    /// Uses this folder for scripts, which is created when it is needed.
    pub fn new(local: LocalClient, scripts: PathBuf) -> Self {
        Self(Arc::new(Shared { local, scripts, open: Mutex::default(), tasks: TaskTracker::new() }))
    }

    /// Starts a command of this call in the editor that follows it.
    pub async fn create(&self, call: &ShownCall, request: &CreateTerminal) -> Result<OpenTerminal, NotThere> {
        if let Some(why) = self.0.local.terminals().keeps_commands_here() {
            return Err(NotThere::Local(why));
        }
        let session = Arc::clone(call.session());
        let env = self.0.local.terminals().admit_elsewhere(request).await.map_err(NotThere::Refused)?;
        let (command, args, script) = self.on_the_wire(&session, request).await?;
        let env = env.into_iter().map(|(name, value)| EnvVariable::new(name, value)).collect();
        let asked = CreateTerminalRequest::new(session.id.clone(), command)
            .args(args)
            .env(env)
            .cwd(request.cwd.clone())
            .output_byte_limit(request.output_byte_limit.unwrap_or(KEPT));
        let wire = match self.created(&session, asked).await {
            Ok(wire) => wire,
            Err(trouble) if trouble.is_refusal() => return Err(NotThere::Local(trouble.said(&session))),
            // An editor that accepted the request may have started the command, whatever it answered.
            Err(trouble) => {
                let text = format!(
                    "{} while the command was started in its terminal; it may run there.",
                    trouble.said(&session).trim_end_matches('.')
                );
                let meta = Meta { may_have_run: true, source: Some("editor".to_owned()), ..Meta::default() };
                return Err(NotThere::Refused(ToolError::new(ErrorCode::Io, text).with_meta(meta)));
            }
        };
        call.runs_in(wire.clone());
        let command = Command {
            session,
            wire,
            request: request.clone(),
            started: Instant::now(),
            runtime: Handle::current(),
            state: Mutex::default(),
            _script: script,
        };
        let id = self.0.local.terminals().next_id();
        self.open().insert(id.clone(), Arc::new(command));
        Ok(OpenTerminal { id, pid: None, trace: None })
    }

    /// Builds the command line that is sent to the editor, with its script.
    async fn on_the_wire(
        &self,
        session: &EditorSession,
        request: &CreateTerminal,
    ) -> Result<(String, Vec<String>, ScriptFile), NotThere> {
        let text = script(&request.launch);
        let cannot =
            |why: &str| NotThere::Local(format!("{} cannot be given a script: {why}", session.editor));
        if !fits(&self.0.scripts) {
            return Err(cannot("the folder for scripts has a name that shells read otherwise"));
        }
        let folder = self.0.scripts.clone();
        let writing = tokio::task::spawn_blocking(move || ScriptFile::write(&folder, &text)).await;
        let script = match writing {
            Ok(Ok(script)) => script,
            Ok(Err(cause)) => return Err(cannot(ToolError::io("its file", &cause).text())),
            Err(fault) => return Err(NotThere::Refused(ToolError::internal(fault.to_string()))),
        };
        let path = shown(script.path());
        Ok(("bash".to_owned(), vec![PRIVILEGED.to_owned(), path], script))
    }

    /// Requests a terminal and returns its id on the wire. A terminal that is created after the wait has ended is
    /// released.
    async fn created(
        &self,
        session: &Arc<EditorSession>,
        request: CreateTerminalRequest,
    ) -> Result<WireId, Trouble> {
        let (sender, receiver) = oneshot::channel();
        let theirs = Arc::clone(session);
        self.0.tasks.spawn(async move {
            let answered = at_last(&theirs, theirs.client.create_terminal(request)).await;
            if let Err(Ok(unwanted)) = sender.send(answered.map(|answer| answer.terminal_id)) {
                release(&theirs, unwanted).await;
            }
        });
        let waiting = tokio::time::timeout(session.settings.timeout, receiver).await;
        match waiting {
            Ok(Ok(answered)) => answered,
            Ok(Err(_)) | Err(_) => Err(Trouble::silent(session)),
        }
    }

    /// Returns whether this terminal is an editor's.
    pub fn has(&self, id: &TerminalId) -> bool {
        self.open().contains_key(id)
    }

    /// Returns the output of a command.
    pub async fn output(&self, query: OutputQuery) -> Result<TerminalOutput, ToolError> {
        let command = self.find(&query.id)?;
        if query.since.is_none()
            && let Some(whole) = &command.state().whole
        {
            return Ok(whole.clone());
        }
        let mut warnings = command.ask_for_output().await;
        let (ended, text, cut) = {
            let state = command.state();
            (state.ended.clone(), state.printed.clone(), state.cut)
        };
        if cut {
            warnings.push(format!(
                "{} kept only a part of the output; its limit is {}.",
                command.session.editor,
                figures::size(command.request.output_byte_limit.unwrap_or(KEPT))
            ));
        }
        let CreateTerminal { request, output_number, budget, raw, .. } = &command.request;
        let over = ended.is_some() && query.since.is_none();
        let foreign = Foreign {
            request: request.clone(),
            number: *output_number,
            budget: *budget,
            raw: *raw,
            text,
            over,
            since: query.since,
        };
        let local = self.0.local.clone();
        let shaping = tokio::task::spawn_blocking(move || local.terminals().foreign_output(foreign));
        let mut output = shaping.await.map_err(|fault| ToolError::internal(fault.to_string()))?;
        output.elapsed = ended.as_ref().map_or_else(|| command.started.elapsed(), |(_, elapsed)| *elapsed);
        output.exit = ended.map(|(exit, _)| exit);
        output.warnings = warnings;
        if over {
            command.state().whole = Some(output.clone());
        }
        Ok(output)
    }

    /// Waits for the end of a command.
    pub async fn wait(&self, id: &TerminalId) -> Result<TerminalExit, ToolError> {
        let command = self.find(id)?;
        if let Some((exit, _)) = &command.state().ended {
            return Ok(exit.clone());
        }
        let session = &command.session;
        let request = WaitForTerminalExitRequest::new(session.id.clone(), command.wire.clone());
        match at_last(session, session.client.wait_for_terminal_exit(request)).await {
            Ok(answer) => Ok(command.ended(&answer.exit_status)),
            Err(trouble) => Err(lost(session, &trouble)),
        }
    }

    /// Stops a command; its id stays valid.
    pub async fn kill(&self, id: &TerminalId) -> Result<Stopped, ToolError> {
        let command = self.find(id)?;
        let session = &command.session;
        if command.state().ended.is_some() {
            return Ok(Stopped { by: None, survivors: Vec::new(), in_editor: None });
        }
        let request = KillTerminalRequest::new(session.id.clone(), command.wire.clone());
        match within(session, session.client.kill_terminal(request)).await {
            Ok(_) => Ok(Stopped {
                by: Some(StopSignal::Kill),
                survivors: Vec::new(),
                in_editor: Some(session.editor.clone()),
            }),
            Err(trouble) => Err(lost(session, &trouble)),
        }
    }

    /// Releases a terminal and waits until the editor has answered.
    pub async fn release(&self, id: &TerminalId) -> Result<(), ToolError> {
        let command = self.open().remove(id).ok_or_else(|| unknown(id))?;
        release(&command.session, command.wire.clone()).await;
        Ok(())
    }

    /// Releases a terminal without waiting.
    pub fn abandon(&self, id: &TerminalId) {
        let Some(command) = self.open().remove(id) else { return };
        let runtime = command.runtime.clone();
        self.0.tasks.spawn_on(async move { release(&command.session, command.wire.clone()).await }, &runtime);
    }

    fn find(&self, id: &TerminalId) -> Result<Arc<Command>, ToolError> {
        self.open().get(id).cloned().ok_or_else(|| unknown(id))
    }

    fn open(&self) -> MutexGuard<'_, HashMap<TerminalId, Arc<Command>>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Command {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the exit of the command; only the first report counts.
    fn ended(&self, status: &TerminalExitStatus) -> TerminalExit {
        let exit = TerminalExit {
            status: exit_status(status),
            output_open: false,
            left: Vec::new(),
            out_of_memory: false,
        };
        let elapsed = self.started.elapsed();
        self.state().ended.get_or_insert((exit, elapsed)).0.clone()
    }

    /// Fetches the output from the editor. Returns warnings if there is no answer.
    async fn ask_for_output(&self) -> Vec<String> {
        let session = &self.session;
        let request = TerminalOutputRequest::new(session.id.clone(), self.wire.clone());
        match within(session, session.client.terminal_output(request)).await {
            Ok(answer) => {
                if let Some(status) = &answer.exit_status {
                    self.ended(status);
                }
                let mut state = self.state();
                (state.printed, state.cut) = (answer.output, answer.truncated);
                Vec::new()
            }
            Err(trouble) => {
                let mut state = self.state();
                if state.printed.is_empty() {
                    // Unknown output must not look like empty output.
                    "[what it printed is not known]".clone_into(&mut state.printed);
                }
                vec![format!("{}; the end of the output may be missing.", trouble.said(session))]
            }
        }
    }
}

fn exit_status(status: &TerminalExitStatus) -> ExitStatus {
    match (status.exit_code, &status.signal) {
        (_, Some(signal)) => ExitStatus::Signal(signal_called(signal)),
        (Some(code), None) => ExitStatus::Code(code.cast_signed()),
        (None, None) => ExitStatus::Unseen("the editor did not say how it ended"),
    }
}

/// Converts a signal's name or number, in any spelling, to the name that is used here.
fn signal_called(text: &str) -> String {
    let text = text.trim();
    if let Some(name) = text.parse().ok().and_then(signal_name) {
        return name.to_owned();
    }
    let upper = text.to_ascii_uppercase();
    let known = (1..65).filter_map(signal_name);
    let named = known.map(|name| (name, name.trim_start_matches("SIG")));
    named.into_iter().find(|(name, short)| *name == upper || *short == upper).map_or_else(
        || text.chars().filter(|c| !c.is_control()).take(40).collect(),
        |(name, _)| name.to_owned(),
    )
}

/// Builds the error of a command that cannot be followed any more.
fn lost(session: &EditorSession, trouble: &Trouble) -> ToolError {
    let text = format!(
        "{}; the command ran in its terminal, and what became of it is not known.",
        trouble.said(session)
    );
    let meta = Meta { may_have_run: true, source: Some("editor".to_owned()), ..Meta::default() };
    ToolError::new(ErrorCode::Io, text).with_meta(meta)
}

async fn release(session: &EditorSession, wire: WireId) {
    let request = ReleaseTerminalRequest::new(session.id.clone(), wire);
    if let Err(trouble) = within(session, session.client.release_terminal(request)).await {
        tracing::debug!(said = trouble.said(session), "an editor's terminal could not be released");
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn unknown(id: &TerminalId) -> ToolError {
    ToolError::not_found(format!("There is no terminal {id}; it was released, or belongs to an earlier run."))
}
