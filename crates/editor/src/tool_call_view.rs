//! One tool call as an editor shows it, from pending to its end. Every call is finished there, also one that is
//! dropped.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::output_preview::{OutputPreview, fence_text};
use super::permission_scope::PermissionScope;
use super::prompt_turn::PromptTurn;
use super::session::EditorSession;
use super::tool_call_title;
use crate::protocol::{
    ContentBlock, Diff, Meta, SessionUpdate, Terminal, TerminalId, ToolCall, ToolCallContent,
    ToolCallId, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use punie_core::ids::{ConversationId, RequestId};
use punie_home::ThreadEvent;
use punie_host::Workspace;
use punie_tool::{
    CallEnding, CallLane, CallView, ChoiceFuture, DecisionFuture, ObservedCall, ObserverDecision,
    ProposedChange, ToolEffect,
};

/// The most bytes of a result's text that are shown.
const MAX_RESULT_BYTES: usize = 16 * 1024;
/// Diffs of longer texts are not shown.
const MAX_SHOWN_DIFF: usize = 256 * 1024;
/// The limit of all diffs of a call together, because each of its updates carries all of them.
const MAX_SHOWN_DIFFS: usize = 512 * 1024;

/// A tool call that is shown in a turn.
pub struct ShownCall {
    pub(super) turn: Arc<PromptTurn>,
    pub(super) request: RequestId,
    pub(super) conversation: ConversationId,
    pub(super) id: ToolCallId,
    pub(super) workspace: Option<Workspace>,
    pub(super) title: String,
    pub(super) kind: ToolKind,
    pub(super) args: Value,
    pub(super) scope: PermissionScope,
    pub(super) changes: Vec<ProposedChange>,
    asks: bool,
    preview: OutputPreview,
    /// The call was sent to the editor, which may have run it.
    in_editor: AtomicBool,
    state: Mutex<ShownCallState>,
}

#[derive(Default)]
struct ShownCallState {
    is_over: bool,
    diffs: Vec<Diff>,
    diff_bytes: usize,
    /// The terminal that the call is shown with: the editor's own, or one that only shows output of this machine.
    terminal: Option<TerminalId>,
    /// The terminal only shows output that this machine sends.
    is_output_only: bool,
    started: bool,
}

impl ShownCall {
    pub(super) fn show_pending(
        turn: &Arc<PromptTurn>,
        call: CallView<'_>,
        workspace: Option<&Workspace>,
    ) -> Self {
        let session = &turn.session;
        let executes = call.effect == ToolEffect::Executes && call.tool.lane != CallLane::Control;
        let asked = session.settings.ask.contains(&call.effect) && !call.tool.only_ends;
        // The person who allowed a task saw all its calls.
        let known = call.of_task && session.permissions.calls.has_made_task(call.request);
        let asks = call.tool.always_asks || asked && !known;
        let shown = Self {
            request: call.request.clone(),
            conversation: call.conversation.clone(),
            id: ToolCallId::from(call.request.to_string()),
            workspace: workspace.cloned(),
            title: tool_call_title::call_title(call, &session.roots),
            kind: tool_call_title::acp_tool_kind(call.tool.acp_kind()),
            args: call.args.clone(),
            scope: PermissionScope::widest_for_call(call, workspace),
            changes: if asks {
                call.description.changes.clone()
            } else {
                Vec::new()
            },
            asks,
            preview: OutputPreview::default(),
            in_editor: AtomicBool::new(false),
            state: Mutex::default(),
            turn: Arc::clone(turn),
        };
        let mut meta = single_meta(
            "punie",
            json!({ "requestId": call.request, "conversationId": call.conversation.to_string() }),
        );
        let mut first = ToolCall::new(shown.id.clone(), shown.title.clone())
            .kind(shown.kind)
            .status(ToolCallStatus::Pending)
            .locations(tool_call_title::call_locations(call, workspace))
            .raw_input(call.args.clone());
        if executes && session.streams_output() && !session.serves_commands() {
            let terminal = TerminalId::from(format!("punie-{}", call.request));
            let info = json!({ "terminal_id": terminal, "cwd": session.roots.first() });
            meta.insert("terminal_info".into(), info);
            first = first.content(vec![ToolCallContent::Terminal(Terminal::new(
                terminal.clone(),
            ))]);
            *shown.state.lock() = ShownCallState {
                terminal: Some(terminal),
                is_output_only: true,
                ..ShownCallState::default()
            };
        }
        turn.live_calls.send_modify(|live| *live += 1);
        turn.session
            .send_update(SessionUpdate::ToolCall(first.meta(meta)));
        shown
    }

    /// Returns the session that it is shown in.
    pub fn editor_session(&self) -> &Arc<EditorSession> {
        &self.turn.session
    }

    /// Returns whether the call or its turn has ended.
    pub fn is_over(&self) -> bool {
        self.turn.over.is_cancelled() || self.state.lock().is_over
    }

    /// Shows a file change as a diff, at once and again at the end of the call.
    pub fn show_diff(&self, path: &Path, before: Option<&str>, after: &str) {
        let size = before.map_or(0, str::len) + after.len();
        {
            let mut state = self.state.lock();
            if size > MAX_SHOWN_DIFF || state.diff_bytes + size > MAX_SHOWN_DIFFS {
                return;
            }
            state.diff_bytes += size;
            state
                .diffs
                .push(Diff::new(path, after).old_text(before.map(str::to_owned)));
        }
        self.show_content(None);
    }

    /// Records that the call was sent to the editor.
    pub fn mark_sent_to_editor(&self) {
        self.in_editor.store(true, Ordering::Relaxed);
    }

    /// Shows the editor's terminal in which the call runs.
    pub fn show_editor_terminal(&self, terminal: TerminalId) {
        self.state.lock().terminal = Some(terminal);
        self.show_content(None);
    }

    fn show_content(&self, text: Option<&str>) {
        self.update_fields(ToolCallUpdateFields::new().content(self.collect_content(text)));
    }

    fn collect_content(&self, text: Option<&str>) -> Vec<ToolCallContent> {
        let state = self.state.lock();
        let terminal = state
            .terminal
            .iter()
            .map(|id| ToolCallContent::Terminal(Terminal::new(id.clone())));
        let diffs = state
            .diffs
            .iter()
            .map(|diff| ToolCallContent::Diff(diff.clone()));
        let text = text.map(|text| ToolCallContent::from(ContentBlock::from(text.to_owned())));
        terminal.chain(diffs).chain(text).collect()
    }

    /// Returns the terminal that shows output of this machine, if the editor has one.
    fn output_only_terminal(&self) -> Option<TerminalId> {
        let state = self.state.lock();
        state.terminal.clone().filter(|_| state.is_output_only)
    }

    fn update_fields(&self, fields: ToolCallUpdateFields) {
        self.turn
            .session
            .send_update(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(
                self.id.clone(),
                fields,
            )));
    }

    /// Ends the display of the call; only the first end counts.
    fn finish_display(&self, status: ToolCallStatus, text: Option<&str>, raw: Option<&Value>) {
        if std::mem::replace(&mut self.state.lock().is_over, true) {
            return;
        }
        self.turn.session.record_event(&ThreadEvent::Call {
            request_id: self.request.clone(),
            title: self.title.clone(),
            kind: serde_json::to_value(self.kind)
                .ok()
                .and_then(|kind| kind.as_str().map(str::to_owned))
                .unwrap_or_default(),
            ok: status == ToolCallStatus::Completed,
        });
        let in_terminal = {
            let state = self.state.lock();
            state.terminal.is_some() && state.started
        };
        let contents = self.collect_content(text.filter(|_| !in_terminal));
        let fields = ToolCallUpdateFields::new()
            .status(status)
            .content((!contents.is_empty()).then_some(contents))
            .raw_output(raw.cloned());
        let mut update = ToolCallUpdate::new(self.id.clone(), fields);
        if let Some(terminal) = self.output_only_terminal() {
            let figure = |path: &str| raw.and_then(|raw| raw.pointer(path));
            update = update.meta(single_meta(
                "terminal_exit",
                json!({
                    "terminal_id": terminal,
                    "exit_code": figure("/meta/exitCode"),
                    "signal": figure("/meta/signal"),
                }),
            ));
        }
        let session = &self.turn.session;
        session.send_update(SessionUpdate::ToolCallUpdate(update));
        self.turn.live_calls.send_modify(|live| *live -= 1);
    }
}

/// Builds metadata with one entry.
fn single_meta(key: &str, value: Value) -> Meta {
    Meta::from_iter([(key.to_owned(), value)])
}

impl ObservedCall for ShownCall {
    fn wants_approval(&self) -> bool {
        self.asks
    }

    fn remembered_decision(&self) -> Option<ObserverDecision> {
        let allowed = self.turn.session.permissions.scopes.lock();
        allowed
            .contains(&self.scope)
            .then(|| self.allow_for_session())
    }

    fn ask_follower(&self) -> DecisionFuture<'_> {
        Box::pin(self.ask_person())
    }

    fn ask_choice<'a>(&'a self, question: &'a str, options: &'a [String]) -> ChoiceFuture<'a> {
        Box::pin(self.ask_person_to_choose(question, options))
    }

    fn on_started(&self) {
        if !self.is_over() {
            self.state.lock().started = true;
            self.update_fields(ToolCallUpdateFields::new().status(ToolCallStatus::InProgress));
        }
    }

    fn on_output(&self, text: &str, omitted_bytes: u64) {
        if self.is_over() {
            return;
        }
        if let Some(terminal) = self.output_only_terminal() {
            let data = text.replace('\n', "\r\n");
            let output = json!({ "terminal_id": terminal, "data": data });
            let update = ToolCallUpdate::new(self.id.clone(), ToolCallUpdateFields::new())
                .meta(single_meta("terminal_output", output));
            let session = &self.turn.session;
            session.send_update(SessionUpdate::ToolCallUpdate(update));
        } else if self.state.lock().terminal.is_some() {
            // The editor's own terminal shows it already.
        } else if let Some(newest) = self.preview.push(text, omitted_bytes) {
            self.show_content(Some(&fence_text(&newest)));
        }
    }

    fn ran_in_editor(&self) -> bool {
        self.in_editor.load(Ordering::Relaxed)
    }

    fn on_ended(&self, ending: CallEnding<'_>) {
        let raw: Value = serde_json::from_str(ending.payload).unwrap_or_default();
        let text = raw
            .get("result")
            .or_else(|| raw.get("error"))
            .map(value_text);
        let text = text.map(|text| fence_text(clip_text(&text, MAX_RESULT_BYTES)));
        let status = if ending.ok {
            ToolCallStatus::Completed
        } else {
            ToolCallStatus::Failed
        };
        self.finish_display(status, text.as_deref(), Some(&shorten_result(raw)));
    }

    fn wait_for_stop(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.turn.stop.cancelled())
    }
}

impl Drop for ShownCall {
    fn drop(&mut self) {
        self.finish_display(
            ToolCallStatus::Failed,
            Some("It has no result yet: the runner stopped, or failed inside."),
            None,
        );
    }
}

fn value_text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn clip_text(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// Shortens the result's text, which is shown beside it.
fn shorten_result(mut raw: Value) -> Value {
    for key in ["result", "error"] {
        if let Some(value) = raw.get_mut(key)
            && value.to_string().len() > MAX_RESULT_BYTES
        {
            *value = Value::String(clip_text(&value_text(value), MAX_RESULT_BYTES).to_owned());
        }
    }
    raw
}
