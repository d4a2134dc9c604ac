//! Runs commands in a connected editor's terminals: creates a terminal, shows it in its call, waits for it, reads it
//! and releases it. Not here: the choice of these commands (overlay), and their scripts (terminal_script).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::client_request::{EditorRequestError, await_with_timeout, await_without_timeout};
use super::session::EditorSession;
use super::terminal_script::{PRIVILEGED, build_bash_script, is_safe_script_path};
use super::tool_call_view::ShownCall;
use crate::acp::LocalClient;
use crate::acp::local::editor_commands::EditorTerminalOutput;
use crate::acp::local::script_file::ScriptFile;
use crate::acp::protocol::{
    CreateTerminalRequest, EnvVariable, KillTerminalRequest, ReleaseTerminalRequest,
    TerminalExitStatus, TerminalId as WireId, TerminalOutputRequest, WaitForTerminalExitRequest,
};
use crate::acp::terminals::{
    CreateTerminal, ExitStatus, OpenTerminal, OutputQuery, StopReport, StopSignal, TerminalExit,
    TerminalId, TerminalOutput, signal_name,
};
use crate::output::number_format;
use crate::tool::{ErrorCode, ResultMeta, ToolError};

/// The bytes of output that an editor is asked to keep, if the call sets no limit.
const DEFAULT_OUTPUT_LIMIT: u64 = 1 << 20;

/// The open terminals of editors. Clones share them.
#[derive(Clone)]
pub(super) struct EditorTerminals(Arc<EditorTerminalsShared>);

struct EditorTerminalsShared {
    local: LocalClient,
    /// The folder for scripts.
    scripts: PathBuf,
    open: Mutex<HashMap<TerminalId, Arc<EditorCommand>>>,
    /// Requests that are sent although no call waits for them any more.
    tasks: TaskTracker,
}

/// A command in an editor's terminal.
struct EditorCommand {
    session: Arc<EditorSession>,
    wire: WireId,
    request: CreateTerminal,
    started: Instant,
    runtime: Handle,
    state: Mutex<EditorCommandState>,
    /// Removed with the command.
    _script: ScriptFile,
}

#[derive(Default)]
struct EditorCommandState {
    ended: Option<(TerminalExit, Duration)>,
    /// The output that the editor returned last.
    printed: String,
    cut: bool,
    /// The whole output, once the command has ended.
    whole: Option<TerminalOutput>,
}

/// The reason why a command does not run in the editor.
pub(super) enum EditorCreateError {
    /// The command can run on this machine, with this reason.
    RunLocally(String),
    /// The command must not run, or may run in the editor already.
    DoNotRun(ToolError),
}

impl EditorTerminals {
    /// Uses this folder for scripts, which is created when it is needed.
    pub fn new(local: LocalClient, scripts: PathBuf) -> Self {
        Self(Arc::new(EditorTerminalsShared {
            local,
            scripts,
            open: Mutex::default(),
            tasks: TaskTracker::new(),
        }))
    }

    /// Starts a command of this call in the editor that follows it.
    pub async fn create_editor_terminal(
        &self,
        call: &ShownCall,
        request: &CreateTerminal,
    ) -> Result<OpenTerminal, EditorCreateError> {
        if let Some(why) = self.0.local.local_terminals().local_only_reason() {
            return Err(EditorCreateError::RunLocally(why));
        }
        let session = Arc::clone(call.editor_session());
        let env = self
            .0
            .local
            .local_terminals()
            .check_editor_command(request)
            .await
            .map_err(EditorCreateError::DoNotRun)?;
        let (command, args, script) = self.build_wire_command(&session, request).await?;
        let env = env
            .into_iter()
            .map(|(name, value)| EnvVariable::new(name, value))
            .collect();
        let asked = CreateTerminalRequest::new(session.id.clone(), command)
            .args(args)
            .env(env)
            .cwd(request.cwd.clone())
            .output_byte_limit(request.output_byte_limit.unwrap_or(DEFAULT_OUTPUT_LIMIT));
        let wire = match self.request_terminal(&session, asked).await {
            Ok(wire) => wire,
            Err(trouble) if trouble.is_refusal() => {
                return Err(EditorCreateError::RunLocally(
                    trouble.describe_cause(&session),
                ));
            }
            // An editor that accepted the request may have started the command, whatever it answered.
            Err(trouble) => {
                let text = format!(
                    "{} while the command was started in its terminal; it may run there.",
                    trouble.describe_cause(&session).trim_end_matches('.')
                );
                let meta = ResultMeta {
                    may_have_run: true,
                    source: Some("editor".to_owned()),
                    ..ResultMeta::default()
                };
                return Err(EditorCreateError::DoNotRun(
                    ToolError::new(ErrorCode::Io, text).with_meta(meta),
                ));
            }
        };
        call.show_editor_terminal(wire.clone());
        let command = EditorCommand {
            session,
            wire,
            request: request.clone(),
            started: Instant::now(),
            runtime: Handle::current(),
            state: Mutex::default(),
            _script: script,
        };
        let id = self.0.local.local_terminals().next_terminal_id();
        self.lock_open_commands()
            .insert(id.clone(), Arc::new(command));
        Ok(OpenTerminal {
            id,
            pid: None,
            trace: None,
        })
    }

    /// Builds the command line that is sent to the editor, with its script.
    async fn build_wire_command(
        &self,
        session: &EditorSession,
        request: &CreateTerminal,
    ) -> Result<(String, Vec<String>, ScriptFile), EditorCreateError> {
        let text = build_bash_script(&request.launch);
        let cannot = |why: &str| {
            EditorCreateError::RunLocally(format!(
                "{} cannot be given a script: {why}",
                session.editor
            ))
        };
        if !is_safe_script_path(&self.0.scripts) {
            return Err(cannot(
                "the folder for scripts has a name that shells read otherwise",
            ));
        }
        let folder = self.0.scripts.clone();
        let writing =
            tokio::task::spawn_blocking(move || ScriptFile::write_script(&folder, &text)).await;
        let script = match writing {
            Ok(Ok(script)) => script,
            Ok(Err(cause)) => {
                return Err(cannot(ToolError::from_io("its file", &cause).model_text()));
            }
            Err(fault) => {
                return Err(EditorCreateError::DoNotRun(ToolError::internal_error(
                    fault.to_string(),
                )));
            }
        };
        let path = script_path_text(script.script_path());
        Ok(("bash".to_owned(), vec![PRIVILEGED.to_owned(), path], script))
    }

    /// Requests a terminal and returns its id on the wire. A terminal that is created after the wait has ended is
    /// released.
    async fn request_terminal(
        &self,
        session: &Arc<EditorSession>,
        request: CreateTerminalRequest,
    ) -> Result<WireId, EditorRequestError> {
        let (sender, receiver) = oneshot::channel();
        let theirs = Arc::clone(session);
        self.0.tasks.spawn(async move {
            let answered =
                await_without_timeout(&theirs, theirs.client.create_terminal(request)).await;
            if let Err(Ok(unwanted)) = sender.send(answered.map(|answer| answer.terminal_id)) {
                release_wire_terminal(&theirs, unwanted).await;
            }
        });
        let waiting = tokio::time::timeout(session.settings.timeout, receiver).await;
        match waiting {
            Ok(Ok(answered)) => answered,
            Ok(Err(_)) | Err(_) => Err(EditorRequestError::answer_timeout(session)),
        }
    }

    /// Returns whether this terminal is an editor's.
    pub fn has_terminal(&self, id: &TerminalId) -> bool {
        self.lock_open_commands().contains_key(id)
    }

    /// Returns the output of a command.
    pub async fn editor_terminal_output(
        &self,
        query: OutputQuery,
    ) -> Result<TerminalOutput, ToolError> {
        let command = self.find_command(&query.id)?;
        if query.since.is_none()
            && let Some(whole) = &command.lock_command_state().whole
        {
            return Ok(whole.clone());
        }
        let mut warnings = command.fetch_output().await;
        let (ended, text, cut) = {
            let state = command.lock_command_state();
            (state.ended.clone(), state.printed.clone(), state.cut)
        };
        if cut {
            warnings.push(format!(
                "{} kept only a part of the output; its limit is {}.",
                command.session.editor,
                number_format::format_size(
                    command
                        .request
                        .output_byte_limit
                        .unwrap_or(DEFAULT_OUTPUT_LIMIT)
                )
            ));
        }
        let CreateTerminal {
            request,
            output_number,
            budget,
            raw,
            ..
        } = &command.request;
        let over = ended.is_some() && query.since.is_none();
        let foreign = EditorTerminalOutput {
            request: request.clone(),
            number: *output_number,
            budget: *budget,
            raw: *raw,
            text,
            over,
            since: query.since,
        };
        let local = self.0.local.clone();
        let shaping = tokio::task::spawn_blocking(move || {
            local.local_terminals().capture_editor_output(foreign)
        });
        let mut output = shaping
            .await
            .map_err(|fault| ToolError::internal_error(fault.to_string()))?;
        output.elapsed = ended
            .as_ref()
            .map_or_else(|| command.started.elapsed(), |(_, elapsed)| *elapsed);
        output.exit = ended.map(|(exit, _)| exit);
        output.warnings = warnings;
        if over {
            command.lock_command_state().whole = Some(output.clone());
        }
        Ok(output)
    }

    /// Waits for the end of a command.
    pub async fn wait_for_editor_exit(&self, id: &TerminalId) -> Result<TerminalExit, ToolError> {
        let command = self.find_command(id)?;
        if let Some((exit, _)) = &command.lock_command_state().ended {
            return Ok(exit.clone());
        }
        let session = &command.session;
        let request = WaitForTerminalExitRequest::new(session.id.clone(), command.wire.clone());
        match await_without_timeout(session, session.client.wait_for_terminal_exit(request)).await {
            Ok(answer) => Ok(command.record_exit(&answer.exit_status)),
            Err(trouble) => Err(lost_command_error(session, &trouble)),
        }
    }

    /// Stops a command; its id stays valid.
    pub async fn kill_command(&self, id: &TerminalId) -> Result<StopReport, ToolError> {
        let command = self.find_command(id)?;
        let session = &command.session;
        if command.lock_command_state().ended.is_some() {
            return Ok(StopReport {
                by: None,
                survivors: Vec::new(),
                in_editor: None,
            });
        }
        let request = KillTerminalRequest::new(session.id.clone(), command.wire.clone());
        match await_with_timeout(session, session.client.kill_terminal(request)).await {
            Ok(_) => Ok(StopReport {
                by: Some(StopSignal::Kill),
                survivors: Vec::new(),
                in_editor: Some(session.editor.clone()),
            }),
            Err(trouble) => Err(lost_command_error(session, &trouble)),
        }
    }

    /// Releases a terminal and waits until the editor has answered.
    pub async fn release_command(&self, id: &TerminalId) -> Result<(), ToolError> {
        let command = self
            .lock_open_commands()
            .remove(id)
            .ok_or_else(|| unknown_terminal_error(id))?;
        release_wire_terminal(&command.session, command.wire.clone()).await;
        Ok(())
    }

    /// Releases a terminal without waiting.
    pub fn release_in_background(&self, id: &TerminalId) {
        let Some(command) = self.lock_open_commands().remove(id) else {
            return;
        };
        let runtime = command.runtime.clone();
        self.0.tasks.spawn_on(
            async move { release_wire_terminal(&command.session, command.wire.clone()).await },
            &runtime,
        );
    }

    fn find_command(&self, id: &TerminalId) -> Result<Arc<EditorCommand>, ToolError> {
        self.lock_open_commands()
            .get(id)
            .cloned()
            .ok_or_else(|| unknown_terminal_error(id))
    }

    fn lock_open_commands(&self) -> MutexGuard<'_, HashMap<TerminalId, Arc<EditorCommand>>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EditorCommand {
    fn lock_command_state(&self) -> MutexGuard<'_, EditorCommandState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the exit of the command; only the first report counts.
    fn record_exit(&self, status: &TerminalExitStatus) -> TerminalExit {
        let exit = TerminalExit {
            status: convert_exit_status(status),
            output_open: false,
            left: Vec::new(),
            out_of_memory: false,
        };
        let elapsed = self.started.elapsed();
        self.lock_command_state()
            .ended
            .get_or_insert((exit, elapsed))
            .0
            .clone()
    }

    /// Fetches the output from the editor. Returns warnings if there is no answer.
    async fn fetch_output(&self) -> Vec<String> {
        let session = &self.session;
        let request = TerminalOutputRequest::new(session.id.clone(), self.wire.clone());
        match await_with_timeout(session, session.client.terminal_output(request)).await {
            Ok(answer) => {
                if let Some(status) = &answer.exit_status {
                    self.record_exit(status);
                }
                let mut state = self.lock_command_state();
                (state.printed, state.cut) = (answer.output, answer.truncated);
                Vec::new()
            }
            Err(trouble) => {
                let mut state = self.lock_command_state();
                if state.printed.is_empty() {
                    // Unknown output must not look like empty output.
                    "[what it printed is not known]".clone_into(&mut state.printed);
                }
                vec![format!(
                    "{}; the end of the output may be missing.",
                    trouble.describe_cause(session)
                )]
            }
        }
    }
}

fn convert_exit_status(status: &TerminalExitStatus) -> ExitStatus {
    match (status.exit_code, &status.signal) {
        (_, Some(signal)) => ExitStatus::Signal(normalize_signal_name(signal)),
        (Some(code), None) => ExitStatus::Code(code.cast_signed()),
        (None, None) => ExitStatus::Unseen("the editor did not say how it ended"),
    }
}

/// Converts a signal's name or number, in any spelling, to the name that is used here.
fn normalize_signal_name(text: &str) -> String {
    let text = text.trim();
    if let Some(name) = text.parse().ok().and_then(signal_name) {
        return name.to_owned();
    }
    let upper = text.to_ascii_uppercase();
    let known = (1..65).filter_map(signal_name);
    let named = known.map(|name| (name, name.trim_start_matches("SIG")));
    named
        .into_iter()
        .find(|(name, short)| *name == upper || *short == upper)
        .map_or_else(
            || text.chars().filter(|c| !c.is_control()).take(40).collect(),
            |(name, _)| name.to_owned(),
        )
}

/// Builds the error of a command that cannot be followed any more.
fn lost_command_error(session: &EditorSession, trouble: &EditorRequestError) -> ToolError {
    let text = format!(
        "{}; the command ran in its terminal, and what became of it is not known.",
        trouble.describe_cause(session)
    );
    let meta = ResultMeta {
        may_have_run: true,
        source: Some("editor".to_owned()),
        ..ResultMeta::default()
    };
    ToolError::new(ErrorCode::Io, text).with_meta(meta)
}

async fn release_wire_terminal(session: &EditorSession, wire: WireId) {
    let request = ReleaseTerminalRequest::new(session.id.clone(), wire);
    if let Err(trouble) =
        await_with_timeout(session, session.client.release_terminal(request)).await
    {
        tracing::debug!(
            said = trouble.describe_cause(session),
            "an editor's terminal could not be released"
        );
    }
}

fn script_path_text(path: &Path) -> String {
    path.display().to_string()
}

fn unknown_terminal_error(id: &TerminalId) -> ToolError {
    ToolError::not_found(format!(
        "There is no terminal {id}; it was released, or belongs to an earlier run."
    ))
}
