//! A fake editor: it answers the client methods from prepared values, first in, first out, and records each call. A
//! read or a command without a prepared value gets an error, never a default.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard};

use punie_editor::client_tools::{ClientTools, ProtocolFuture};
use punie_editor::protocol::{
    CreateTerminalRequest, CreateTerminalResponse, Error, KillTerminalRequest,
    KillTerminalResponse, ReadTextFileRequest, ReadTextFileResponse, ReleaseTerminalRequest,
    ReleaseTerminalResponse, RequestPermissionOutcome, RequestPermissionRequest,
    RequestPermissionResponse, SessionId, SessionNotification, TerminalExitStatus, TerminalId,
    TerminalOutputRequest, TerminalOutputResponse, WaitForTerminalExitRequest,
    WaitForTerminalExitResponse, WriteTextFileRequest, WriteTextFileResponse,
};
use punie_editor::tool_catalog::ToolCatalog;
use serde_json::Value;
use tokio::process::Command;
use tokio::sync::{oneshot, watch};

/// The editor's handling of a text that the agent writes.
pub enum SaveBehaviour {
    /// Writes it to the file, like most editors.
    AtOnce,
    /// Holds it in the buffer.
    Never,
    /// Writes it as this formatter returns it.
    As(fn(&str) -> String),
}

/// The fault of one call.
pub enum ClientFault {
    /// No fault: the call succeeds.
    Nothing,
    /// The call gets this error.
    Error(Error),
    /// The call gets no answer.
    Silence,
    /// The editor carries out the request, and the call gets no answer.
    DoneInSilence,
    /// The editor carries out the request, and the call gets this error.
    DoneWithError(Error),
    /// The editor carries out and answers the request once the test sends on this channel.
    Held(oneshot::Receiver<()>),
}

/// The prepared result of a command. Without an exit status, the command runs until it is killed.
pub struct PreparedCommand {
    pub output: String,
    pub exit: Option<TerminalExitStatus>,
}

struct OpenedTerminal {
    output: String,
    exit: watch::Sender<Option<TerminalExitStatus>>,
}

/// The fake editor.
pub struct FakeClient {
    state: Mutex<ClientState>,
    /// If set, commands run for real, each as a line of a shell, with this text before it.
    shell_prefix: Option<String>,
}

struct ClientState {
    /// The method and the subject (a path, a command, an id) of each call, in order.
    calls: Vec<(&'static str, String)>,
    buffers: HashMap<PathBuf, String>,
    /// Texts that one read each returns, before the text of the buffer.
    once: HashMap<PathBuf, VecDeque<String>>,
    reads_disk: bool,
    saving: SaveBehaviour,
    faults: HashMap<&'static str, VecDeque<ClientFault>>,
    prepared: VecDeque<PreparedCommand>,
    opened: HashMap<TerminalId, OpenedTerminal>,
    given: u32,
    updates: Vec<SessionNotification>,
    envs: Vec<Vec<(String, String)>>,
}

impl Default for FakeClient {
    fn default() -> Self {
        let state = ClientState {
            calls: Vec::new(),
            buffers: HashMap::new(),
            once: HashMap::new(),
            reads_disk: false,
            saving: SaveBehaviour::AtOnce,
            faults: HashMap::new(),
            prepared: VecDeque::new(),
            opened: HashMap::new(),
            given: 0,
            updates: Vec::new(),
            envs: Vec::new(),
        };
        Self {
            state: Mutex::new(state),
            shell_prefix: None,
        }
    }
}

impl FakeClient {
    /// Creates a fake editor that runs commands for real. Like editors, it joins a command and its arguments with
    /// blanks, and a shell reads the line. The prefix, which sets up the editor's own environment, stands before each
    /// command on its line.
    pub fn with_shell(prefix: String) -> Self {
        Self {
            shell_prefix: Some(prefix),
            ..Self::default()
        }
    }

    fn state(&self) -> MutexGuard<'_, ClientState> {
        self.state
            .lock()
            .expect("no test panics while it holds the lock")
    }

    /// Opens a file with this text in a buffer.
    pub fn open(&self, path: &Path, text: &str) {
        self.state()
            .buffers
            .insert(path.to_owned(), text.to_owned());
    }

    /// Sets a text that only the next read of the file returns.
    pub fn next_text(&self, path: &Path, text: &str) {
        self.state()
            .once
            .entry(path.to_owned())
            .or_default()
            .push_back(text.to_owned());
    }

    /// The text of the buffer with this path.
    pub fn text_of(&self, path: &Path) -> Option<String> {
        self.state().buffers.get(path).cloned()
    }

    /// Makes reads of files without a buffer return the file on the disk, as editors do.
    pub fn read_from_disk(&self) {
        self.state().reads_disk = true;
    }

    pub fn save(&self, saving: SaveBehaviour) {
        self.state().saving = saving;
    }

    /// Queues a fault for the next call of this method.
    pub fn fail(&self, method: &'static str, fault: ClientFault) {
        self.state()
            .faults
            .entry(method)
            .or_default()
            .push_back(fault);
    }

    /// Queues an error for this method, after `good` calls without a fault.
    pub fn fail_later(&self, method: &'static str, good: usize, error: Error) {
        let mut state = self.state();
        let faults = state.faults.entry(method).or_default();
        faults.extend(std::iter::repeat_with(|| ClientFault::Nothing).take(good));
        faults.push_back(ClientFault::Error(error));
    }

    /// Sets the result of the next command.
    pub fn prepare(&self, output: &str, exit: Option<TerminalExitStatus>) {
        self.state().prepared.push_back(PreparedCommand {
            output: output.to_owned(),
            exit,
        });
    }

    /// The calls so far: their methods and subjects.
    pub fn calls(&self) -> Vec<(&'static str, String)> {
        self.state().calls.clone()
    }

    /// The methods of the calls so far.
    pub fn methods(&self) -> Vec<&'static str> {
        self.calls().into_iter().map(|(method, _)| method).collect()
    }

    /// Records a session update, as if the editor showed it.
    pub fn record_update(&self, update: SessionNotification) {
        self.state().updates.push(update);
    }

    pub fn updates(&self) -> Vec<SessionNotification> {
        self.state().updates.clone()
    }

    /// The session updates so far, as JSON text.
    pub fn shown(&self) -> String {
        serde_json::to_string(&self.updates()).expect("JSON")
    }

    /// The environment variables of each command.
    pub fn command_environments(&self) -> Vec<Vec<(String, String)>> {
        self.state().envs.clone()
    }

    fn note(&self, method: &'static str, about: &dyn ToString) -> Option<ClientFault> {
        let mut state = self.state();
        state.calls.push((method, about.to_string()));
        state.faults.get_mut(method)?.pop_front()
    }

    fn read(&self, path: &Path) -> Result<String, Error> {
        let mut state = self.state();
        let once = state.once.get_mut(path).and_then(VecDeque::pop_front);
        let found = once.or_else(|| state.buffers.get(path).cloned());
        let found = found.or_else(|| {
            std::fs::read_to_string(path)
                .ok()
                .filter(|_| state.reads_disk)
        });
        found.ok_or_else(|| resource_missing(path.display().to_string()))
    }

    fn write(&self, path: &Path, text: &str) {
        let mut state = self.state();
        state.buffers.insert(path.to_owned(), text.to_owned());
        let saved = match state.saving {
            SaveBehaviour::AtOnce => text.to_owned(),
            SaveBehaviour::Never => return,
            SaveBehaviour::As(format) => format(text),
        };
        std::fs::write(path, &saved).expect("a test's file can be written");
        state.buffers.insert(path.to_owned(), saved);
    }

    fn create(&self, request: &CreateTerminalRequest) -> Result<TerminalId, Error> {
        let mut state = self.state();
        state.envs.push(
            request
                .env
                .iter()
                .map(|e| (e.name.clone(), e.value.clone()))
                .collect(),
        );
        let Some(PreparedCommand { output, exit }) = state.prepared.pop_front() else {
            return Err(Error::internal_error().data("no command was prepared"));
        };
        let id = TerminalId::from(format!("fake-{}", state.given));
        state.given += 1;
        state.opened.insert(
            id.clone(),
            OpenedTerminal {
                output,
                exit: watch::Sender::new(exit),
            },
        );
        Ok(id)
    }

    fn opened<T>(
        &self,
        id: &TerminalId,
        look: impl FnOnce(&OpenedTerminal) -> T,
    ) -> Result<T, Error> {
        self.state()
            .opened
            .get(id)
            .map(look)
            .ok_or_else(|| resource_missing(format!("terminal {id}")))
    }
}

/// Builds the error for a file or terminal that the editor does not have.
pub fn resource_missing(what: String) -> Error {
    Error::new(-32_002, "Resource not found").data(what)
}

/// Runs a line in a shell to its end. Like in a terminal, output and errors come in one stream.
async fn run_shell_line(line: &str, request: &CreateTerminalRequest) -> PreparedCommand {
    let folder = request.cwd.as_ref().expect("the runner names a folder");
    let ended = Command::new("sh")
        .args(["-c", &format!("exec 2>&1; {line}")])
        .current_dir(folder)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .envs(request.env.iter().map(|entry| (&entry.name, &entry.value)))
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .expect("the shell starts");
    let code = ended.status.code().expect("no signal ends the shell");
    PreparedCommand {
        output: String::from_utf8_lossy(&ended.stdout).into_owned(),
        exit: Some(TerminalExitStatus::new().exit_code(code.cast_unsigned())),
    }
}

/// Applies a fault to a call. `done` carries out the request.
async fn apply_fault<T>(
    fault: Option<ClientFault>,
    done: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    match fault {
        None | Some(ClientFault::Nothing) => done(),
        Some(ClientFault::Error(error)) => Err(error),
        Some(ClientFault::Silence) => std::future::pending().await,
        Some(ClientFault::DoneInSilence) => {
            done()?;
            std::future::pending().await
        }
        Some(ClientFault::DoneWithError(error)) => {
            done()?;
            Err(error)
        }
        Some(ClientFault::Held(gate)) => {
            let _ = gate.await;
            done()
        }
    }
}

impl ClientTools for FakeClient {
    fn read_text_file(
        &self,
        request: ReadTextFileRequest,
    ) -> ProtocolFuture<'_, ReadTextFileResponse> {
        let fault = self.note("fs/read_text_file", &request.path.display());
        Box::pin(apply_fault(fault, move || {
            self.read(&request.path).map(ReadTextFileResponse::new)
        }))
    }

    fn write_text_file(
        &self,
        request: WriteTextFileRequest,
    ) -> ProtocolFuture<'_, WriteTextFileResponse> {
        let fault = self.note("fs/write_text_file", &request.path.display());
        Box::pin(apply_fault(fault, move || {
            self.write(&request.path, &request.content);
            Ok(WriteTextFileResponse::new())
        }))
    }

    fn request_permission(
        &self,
        request: RequestPermissionRequest,
    ) -> ProtocolFuture<'_, RequestPermissionResponse> {
        let fault = self.note(
            "session/request_permission",
            &request.tool_call.tool_call_id,
        );
        let dismissed = RequestPermissionResponse::new(RequestPermissionOutcome::Cancelled);
        Box::pin(apply_fault(fault, || Ok(dismissed)))
    }

    fn session_update(&self, update: SessionNotification) -> ProtocolFuture<'_, ()> {
        self.record_update(update);
        Box::pin(std::future::ready(Ok(())))
    }

    fn create_terminal(
        &self,
        request: CreateTerminalRequest,
    ) -> ProtocolFuture<'_, CreateTerminalResponse> {
        let line = std::iter::once(&request.command)
            .chain(&request.args)
            .cloned()
            .collect::<Vec<_>>()
            .join(" ");
        let fault = self.note("terminal/create", &line);
        Box::pin(async move {
            if let Some(prefix) = &self.shell_prefix {
                // The answer comes when the command has ended: no test needs one that still runs.
                let ended = run_shell_line(&format!("{prefix}{line}"), &request).await;
                self.state().prepared.push_back(ended);
            }
            apply_fault(fault, || {
                self.create(&request).map(CreateTerminalResponse::new)
            })
            .await
        })
    }

    fn terminal_output(
        &self,
        request: TerminalOutputRequest,
    ) -> ProtocolFuture<'_, TerminalOutputResponse> {
        let fault = self.note("terminal/output", &request.terminal_id);
        Box::pin(apply_fault(fault, move || {
            self.opened(&request.terminal_id, |opened| {
                TerminalOutputResponse::new(opened.output.clone(), false)
                    .exit_status(opened.exit.borrow().clone())
            })
        }))
    }

    fn wait_for_terminal_exit(
        &self,
        request: WaitForTerminalExitRequest,
    ) -> ProtocolFuture<'_, WaitForTerminalExitResponse> {
        let fault = self.note("terminal/wait_for_exit", &request.terminal_id);
        Box::pin(async move {
            let mut exit = self.opened(&request.terminal_id, |opened| opened.exit.subscribe())?;
            let ended = exit
                .wait_for(Option::is_some)
                .await
                .map_err(Error::into_internal_error)?
                .clone();
            apply_fault(fault, || {
                Ok(WaitForTerminalExitResponse::new(ended.unwrap_or_default()))
            })
            .await
        })
    }

    fn kill_terminal(
        &self,
        request: KillTerminalRequest,
    ) -> ProtocolFuture<'_, KillTerminalResponse> {
        let fault = self.note("terminal/kill", &request.terminal_id);
        Box::pin(apply_fault(fault, move || {
            let killed = TerminalExitStatus::new().signal("SIGKILL".to_owned());
            self.opened(&request.terminal_id, |opened| {
                opened
                    .exit
                    .send_if_modified(|exit| exit.is_none() && exit.replace(killed).is_none());
                KillTerminalResponse::new()
            })
        }))
    }

    fn release_terminal(
        &self,
        request: ReleaseTerminalRequest,
    ) -> ProtocolFuture<'_, ReleaseTerminalResponse> {
        let fault = self.note("terminal/release", &request.terminal_id);
        Box::pin(apply_fault(fault, move || {
            let gone = self.state().opened.remove(&request.terminal_id);
            gone.map(|_| ReleaseTerminalResponse::new())
                .ok_or_else(|| resource_missing("that terminal".to_owned()))
        }))
    }

    fn discover_tools(&self, session: SessionId) -> ProtocolFuture<'_, ToolCatalog> {
        let fault = self.note("_punie/discover_tools", &session);
        Box::pin(apply_fault(fault, || Ok(ToolCatalog::default())))
    }

    fn ext_method(&self, method: String, params: Value) -> ProtocolFuture<'_, Value> {
        let fault = self.note("ext", &method);
        Box::pin(apply_fault(fault, move || match method.as_str() {
            "_test/echo" => Ok(params),
            _ => Err(Error::method_not_found()),
        }))
    }
}
