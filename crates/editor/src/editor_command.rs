//! One command in a connected editor's terminal: its output, its end, and the requests about it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::client_request::{EditorRequestError, await_with_timeout, await_without_timeout};
use super::session::EditorSession;
use crate::protocol::{
    KillTerminalRequest, ReleaseTerminalRequest, TerminalExitStatus, TerminalId as WireId,
    TerminalOutputRequest, WaitForTerminalExitRequest,
};
use punie_host::blocking::run_blocking;
use punie_host::local::local_terminals::LocalTerminals;
use punie_host::local::script_file::ScriptFile;
use punie_host::terminals::{
    CreateTerminal, ExitStatus, StopReport, StopSignal, TerminalExit, TerminalOutput, signal_name,
};
use punie_text::output::number_format;
use punie_tool::{ErrorCode, ResultMeta, ToolError};

/// The bytes of output that an editor is asked to keep, if the call sets no limit.
const DEFAULT_OUTPUT_LIMIT: u64 = 1 << 20;

/// A command in an editor's terminal.
pub(super) struct EditorCommand {
    session: Arc<EditorSession>,
    wire: WireId,
    request: Arc<CreateTerminal>,
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

impl EditorCommand {
    /// Creates a command that the editor has just started in this terminal.
    pub fn new(
        session: Arc<EditorSession>,
        wire: WireId,
        request: CreateTerminal,
        script: ScriptFile,
    ) -> Self {
        Self {
            session,
            wire,
            request: Arc::new(request),
            started: Instant::now(),
            runtime: Handle::current(),
            state: Mutex::default(),
            _script: script,
        }
    }

    /// Returns the output of the command, or the part after a cursor, as local output would be returned.
    pub async fn read_output(
        &self,
        local: &LocalTerminals,
        since: Option<u64>,
    ) -> Result<TerminalOutput, ToolError> {
        if since.is_none()
            && let Some(whole) = &self.state.lock().whole
        {
            return Ok(whole.clone());
        }
        let mut warnings = self.fetch_output().await;
        let (ended, text, cut) = {
            let state = self.state.lock();
            (state.ended.clone(), state.printed.clone(), state.cut)
        };
        if cut {
            warnings.push(format!(
                "{} kept only a part of the output; its limit is {}.",
                self.session.editor,
                number_format::format_size(output_limit(&self.request))
            ));
        }
        let over = ended.is_some() && since.is_none();
        let local = local.clone();
        let request = Arc::clone(&self.request);
        let captured =
            run_blocking(move || local.capture_editor_output(&request, &text, over, since)).await?;
        let (exit, elapsed) = ended.unzip();
        let output = TerminalOutput {
            elapsed: elapsed.unwrap_or_else(|| self.started.elapsed()),
            exit,
            warnings,
            ..captured
        };
        if over {
            self.state.lock().whole = Some(output.clone());
        }
        Ok(output)
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
                let mut state = self.state.lock();
                (state.printed, state.cut) = (answer.output, answer.truncated);
                Vec::new()
            }
            Err(error) => {
                let mut state = self.state.lock();
                if state.printed.is_empty() {
                    // Unknown output must not look like empty output.
                    "[what it printed is not known]".clone_into(&mut state.printed);
                }
                vec![format!(
                    "{}; the end of the output may be missing.",
                    error.describe_cause(session)
                )]
            }
        }
    }

    /// Waits for the end of the command.
    pub async fn wait_for_exit(&self) -> Result<TerminalExit, ToolError> {
        if let Some((exit, _)) = &self.state.lock().ended {
            return Ok(exit.clone());
        }
        let session = &self.session;
        let request = WaitForTerminalExitRequest::new(session.id.clone(), self.wire.clone());
        match await_without_timeout(session, session.client.wait_for_terminal_exit(request)).await {
            Ok(answer) => Ok(self.record_exit(&answer.exit_status)),
            Err(error) => Err(self.lost_error(&error)),
        }
    }

    /// Records the exit of the command; only the first report counts.
    fn record_exit(&self, status: &TerminalExitStatus) -> TerminalExit {
        let exit = TerminalExit {
            status: convert_exit_status(status),
            output_open: false,
            left: Vec::new(),
            at_process_limit: false,
            out_of_memory: false,
        };
        let elapsed = self.started.elapsed();
        let mut state = self.state.lock();
        state.ended.get_or_insert((exit, elapsed)).0.clone()
    }

    /// Stops the command; its terminal stays valid.
    pub async fn kill(&self) -> Result<StopReport, ToolError> {
        let session = &self.session;
        if self.state.lock().ended.is_some() {
            return Ok(StopReport::default());
        }
        let request = KillTerminalRequest::new(session.id.clone(), self.wire.clone());
        await_with_timeout(session, session.client.kill_terminal(request))
            .await
            .map_err(|error| self.lost_error(&error))?;
        Ok(StopReport {
            by: Some(StopSignal::Kill),
            in_editor: Some(session.editor.clone()),
            ..StopReport::default()
        })
    }

    /// Releases the terminal and waits until the editor has answered.
    pub async fn release_terminal(&self) {
        release_wire_terminal(&self.session, self.wire.clone()).await;
    }

    /// Returns the runtime in which the command was started.
    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Builds the error of a command that cannot be followed any more.
    fn lost_error(&self, error: &EditorRequestError) -> ToolError {
        unknown_outcome_error(format!(
            "{}; the command ran in its terminal, and what became of it is not known.",
            error.describe_cause(&self.session)
        ))
    }
}

/// Returns the bytes of output that the editor is asked to keep.
pub(super) fn output_limit(request: &CreateTerminal) -> u64 {
    request.output_byte_limit.unwrap_or(DEFAULT_OUTPUT_LIMIT)
}

/// Builds the error of a command that may have run in the editor.
pub(super) fn unknown_outcome_error(text: String) -> ToolError {
    let meta = ResultMeta {
        may_have_run: true,
        source: Some("editor".to_owned()),
        ..ResultMeta::default()
    };
    ToolError::new(ErrorCode::Io, text).with_meta(meta)
}

pub(super) async fn release_wire_terminal(session: &EditorSession, wire: WireId) {
    let request = ReleaseTerminalRequest::new(session.id.clone(), wire);
    let released = await_with_timeout(session, session.client.release_terminal(request)).await;
    if let Err(error) = released {
        tracing::debug!(
            said = error.describe_cause(session),
            "an editor's terminal could not be released"
        );
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
    let upper = text.to_ascii_uppercase();
    let has_given_name = |name: &&str| *name == upper || name.trim_start_matches("SIG") == upper;
    let by_number = text.parse().ok().and_then(signal_name);
    by_number
        .or_else(|| (1..65).filter_map(signal_name).find(has_given_name))
        .map_or_else(
            || text.chars().filter(|c| !c.is_control()).take(40).collect(),
            str::to_owned,
        )
}
