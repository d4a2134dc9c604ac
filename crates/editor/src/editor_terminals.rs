//! Starts commands in a connected editor's terminals, shows them in their calls, and lists the open ones.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use super::client_request::{EditorRequestError, await_without_timeout};
use super::editor_command::{
    EditorCommand, output_limit, release_wire_terminal, unknown_outcome_error,
};
use super::session::EditorSession;
use super::terminal_script::{PRIVILEGED, build_bash_script, is_safe_script_path};
use super::tool_call_view::ShownCall;
use crate::protocol::{CreateTerminalRequest, EnvVariable, TerminalId as WireId};
use punie_host::blocking::run_blocking;
use punie_host::local::local_terminals::LocalTerminals;
use punie_host::local::script_file::ScriptFile;
use punie_host::terminals::{CreateTerminal, OpenTerminal, TerminalId};
use punie_tool::ToolError;
use punie_tool::time_limit::run_within_limit;

/// The open terminals of editors. Clones share them.
#[derive(Clone)]
pub(super) struct EditorTerminals(Arc<EditorTerminalsShared>);

struct EditorTerminalsShared {
    local: LocalTerminals,
    /// The folder for scripts.
    scripts: PathBuf,
    open: Mutex<HashMap<TerminalId, Arc<EditorCommand>>>,
    /// Requests that are sent although no call waits for them any more.
    tasks: TaskTracker,
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
    pub fn new(local: LocalTerminals, scripts: PathBuf) -> Self {
        Self(Arc::new(EditorTerminalsShared {
            local,
            scripts,
            open: Mutex::default(),
            tasks: TaskTracker::new(),
        }))
    }

    /// Starts a command of this call in the editor that follows it.
    pub async fn create(
        &self,
        call: &ShownCall,
        request: &CreateTerminal,
    ) -> Result<OpenTerminal, EditorCreateError> {
        let local = &self.0.local;
        if let Some(why) = local.local_only_reason() {
            return Err(EditorCreateError::RunLocally(why));
        }
        let session = call.editor_session();
        let env = local
            .check_editor_command(request)
            .await
            .map_err(EditorCreateError::DoNotRun)?;
        let script = self.write_script(session, request).await?;
        let path = script.script_path().display().to_string();
        let env = env
            .into_iter()
            .map(|(name, value)| EnvVariable::new(name, value))
            .collect();
        let asked = CreateTerminalRequest::new(session.id.clone(), "bash")
            .args(vec![PRIVILEGED.to_owned(), path])
            .env(env)
            .cwd(request.cwd.clone())
            .output_byte_limit(output_limit(request));
        let wire = self
            .request(session, asked)
            .await
            .map_err(|error| explain_create_error(session, &error))?;
        call.show_editor_terminal(wire.clone());
        let command = EditorCommand::new(Arc::clone(session), wire, request.clone(), script);
        let id = local.next_terminal_id();
        self.0.open.lock().insert(id.clone(), Arc::new(command));
        Ok(OpenTerminal {
            id,
            pid: None,
            trace: None,
        })
    }

    /// Writes the script of a command.
    async fn write_script(
        &self,
        session: &EditorSession,
        request: &CreateTerminal,
    ) -> Result<ScriptFile, EditorCreateError> {
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
        let text = build_bash_script(&request.launch);
        run_blocking(move || ScriptFile::write_script(&folder, &text))
            .await
            .map_err(EditorCreateError::DoNotRun)?
            .map_err(|cause| cannot(ToolError::from_io("its file", &cause).model_text()))
    }

    /// Requests a terminal and returns its id on the wire. A terminal that is created after the wait has ended is
    /// released.
    async fn request(
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
        match run_within_limit(session.settings.timeout, receiver).await {
            Some(Ok(answered)) => answered,
            Some(Err(_)) | None => Err(EditorRequestError::answer_timeout(session)),
        }
    }

    /// Returns the command of a terminal, if the terminal is an editor's.
    pub fn find_command(&self, id: &TerminalId) -> Option<Arc<EditorCommand>> {
        self.0.open.lock().get(id).cloned()
    }

    /// Removes a terminal from the open ones and returns its command, if the terminal is an editor's.
    pub fn take_command(&self, id: &TerminalId) -> Option<Arc<EditorCommand>> {
        self.0.open.lock().remove(id)
    }

    /// Releases a command's terminal without waiting.
    pub fn release_in_background(&self, command: Arc<EditorCommand>) {
        let runtime = command.runtime().clone();
        self.0
            .tasks
            .spawn_on(async move { command.release_terminal().await }, &runtime);
    }
}

/// Explains why the editor created no terminal.
fn explain_create_error(session: &EditorSession, error: &EditorRequestError) -> EditorCreateError {
    let cause = error.describe_cause(session);
    if error.is_refusal() {
        return EditorCreateError::RunLocally(cause);
    }
    // An editor that accepted the request may have started the command, whatever it answered.
    EditorCreateError::DoNotRun(unknown_outcome_error(format!(
        "{} while the command was started in its terminal; it may run there.",
        cause.trim_end_matches('.')
    )))
}
