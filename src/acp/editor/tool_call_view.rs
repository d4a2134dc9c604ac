//! One tool call as an editor shows it, from pending to its end. Every call is finished there, also one that is
//! dropped. Not here: the turn that it belongs to (prompt_turns), and the meaning of a person's answer
//! (permission_prompt).

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::change_preview;
use super::output_preview::{OutputPreview, fence_text};
use super::permission_prompt::{self, PermissionReply};
use super::permission_scope::PermissionScope;
use super::prompt_turns::PromptTurn;
use super::session::EditorSession;
use super::tool_call_title;
use crate::acp::Workspace;
use crate::acp::protocol::{
    ContentBlock, Diff, Meta, RequestPermissionRequest, SessionNotification, SessionUpdate,
    Terminal, TerminalId, ToolCall, ToolCallContent, ToolCallId, ToolCallStatus, ToolCallUpdate,
    ToolCallUpdateFields, ToolKind, is_connection_terminated, is_incoming_transport_closed,
};
use crate::home::ThreadEvent;
use crate::ids::{ConversationId, RequestId};
use crate::tool::{
    CallEnding, CallLane, CallView, DecisionFuture, ObservedCall, ObserverDecision, ProposedChange,
    ToolEffect, advice_when_stopped,
};

/// The most bytes of a result's text that are shown.
const MAX_RESULT_BYTES: usize = 16 * 1024;
/// The time after a dismissed question in which the whole turn may turn out to be stopped: the two messages come in
/// either order.
const STOP_GRACE: Duration = Duration::from_secs(1);
/// Diffs of longer texts are not shown.
const MAX_SHOWN_DIFF: usize = 256 * 1024;
/// The limit of all diffs of a call together, because each of its updates carries all of them.
const MAX_SHOWN_DIFFS: usize = 512 * 1024;

/// A tool call that is shown in a turn.
pub struct ShownCall {
    turn: Arc<PromptTurn>,
    request: RequestId,
    conversation: ConversationId,
    id: ToolCallId,
    workspace: Option<Workspace>,
    title: String,
    kind: ToolKind,
    args: Value,
    scope: PermissionScope,
    changes: Vec<ProposedChange>,
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
    /// Shows a pending call.
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
        let mut meta = Meta::new();
        meta.insert(
            "punie".into(),
            json!({ "requestId": call.request, "conversationId": call.conversation }),
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
            let mut state = shown.lock_shown_state();
            (state.terminal, state.is_output_only) = (Some(terminal), true);
        }
        turn.live.send_modify(|live| *live += 1);
        shown.send_call_update(SessionUpdate::ToolCall(first.meta(meta)));
        shown
    }

    /// Returns the session that it is shown in.
    pub fn editor_session(&self) -> &Arc<EditorSession> {
        &self.turn.session
    }

    /// Returns whether the call or its turn has ended.
    pub fn is_over(&self) -> bool {
        self.turn.over.is_cancelled() || self.lock_shown_state().is_over
    }

    /// Shows a file change as a diff, at once and again at the end of the call.
    pub fn show_diff(&self, path: &Path, before: Option<&str>, after: &str) {
        let size = before.map_or(0, str::len) + after.len();
        {
            let mut state = self.lock_shown_state();
            if size > MAX_SHOWN_DIFF || state.diff_bytes + size > MAX_SHOWN_DIFFS {
                return;
            }
            state.diff_bytes += size;
        }
        let mut diff = Diff::new(path, after);
        if let Some(before) = before {
            diff = diff.old_text(before.to_owned());
        }
        self.lock_shown_state().diffs.push(diff);
        self.update_fields(ToolCallUpdateFields::new().content(self.collect_content(None)));
    }

    /// Records that the call was sent to the editor.
    pub fn mark_sent_to_editor(&self) {
        self.in_editor.store(true, Ordering::Relaxed);
    }

    /// Shows the editor's terminal in which the call runs.
    pub fn show_editor_terminal(&self, terminal: TerminalId) {
        self.lock_shown_state().terminal = Some(terminal);
        self.update_fields(ToolCallUpdateFields::new().content(self.collect_content(None)));
    }

    fn collect_content(&self, text: Option<&str>) -> Vec<ToolCallContent> {
        let state = self.lock_shown_state();
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

    fn lock_shown_state(&self) -> std::sync::MutexGuard<'_, ShownCallState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the terminal that shows output of this machine, if the editor has one.
    fn output_only_terminal(&self) -> Option<TerminalId> {
        Some(self.lock_shown_state())
            .filter(|state| state.is_output_only)?
            .terminal
            .clone()
    }

    fn update_fields(&self, fields: ToolCallUpdateFields) {
        self.send_call_update(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(
            self.id.clone(),
            fields,
        )));
    }

    /// Passes an update to the connection, without waiting until it is shown.
    fn send_call_update(&self, update: SessionUpdate) {
        let session = &self.turn.session;
        let sent = session
            .client
            .session_update(SessionNotification::new(session.id.clone(), update));
        if let Some(Err(error)) = futures_util::FutureExt::now_or_never(sent) {
            tracing::debug!(%error, "the editor is not shown how a call goes on");
        }
    }

    /// Ends the display of the call; only the first end counts.
    fn finish_display(&self, status: ToolCallStatus, text: Option<&str>, raw: Option<&Value>) {
        if std::mem::replace(&mut self.lock_shown_state().is_over, true) {
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
        let fed = self.output_only_terminal();
        let in_terminal = Some(self.lock_shown_state())
            .is_some_and(|state| state.terminal.is_some() && state.started);
        let contents = self.collect_content(text.filter(|_| !in_terminal));
        let mut fields = ToolCallUpdateFields::new().status(status);
        if !contents.is_empty() {
            fields = fields.content(contents);
        }
        if let Some(raw) = raw {
            fields = fields.raw_output(raw.clone());
        }
        let mut update = ToolCallUpdate::new(self.id.clone(), fields);
        if let Some(terminal) = fed {
            let mut meta = Meta::new();
            let code = raw
                .and_then(|raw| raw.pointer("/meta/exitCode"))
                .cloned()
                .unwrap_or(Value::Null);
            let signal = raw
                .and_then(|raw| raw.pointer("/meta/signal"))
                .cloned()
                .unwrap_or(Value::Null);
            let exit = json!({ "terminal_id": terminal, "exit_code": code, "signal": signal });
            meta.insert("terminal_exit".into(), exit);
            update = update.meta(meta);
        }
        self.send_call_update(SessionUpdate::ToolCallUpdate(update));
        self.turn.live.send_modify(|live| *live -= 1);
    }

    /// Stops the call's conversation and refuses the call, because its question will not be answered any more.
    async fn refuse_and_stop(&self, why: String) -> ObserverDecision {
        self.turn
            .stop_conversations([self.conversation.clone()], why.clone())
            .await;
        ObserverDecision {
            allowed: false,
            by: why,
            then: advice_when_stopped(&self.conversation),
        }
    }

    /// Completes with the reason when the person stops the turn or the editor is closed.
    async fn wait_until_abandoned(&self) -> String {
        tokio::select! {
            biased;
            () = self.turn.stop.cancelled() => format!("{} stopped the turn", self.turn.session.person_phrase()),
            () = self.turn.over.cancelled() => self.closed_editor_message(),
        }
    }

    fn closed_editor_message(&self) -> String {
        format!(
            "{} was closed before anybody answered",
            self.turn.session.editor
        )
    }

    /// Returns the content of the question: the diffs of an edit, else all arguments.
    async fn question_content(&self) -> Vec<ToolCallContent> {
        let (changes, workspace) = (self.changes.clone(), self.workspace.clone());
        let reading = tokio::task::spawn_blocking(move || {
            change_preview::preview_diffs(&changes, workspace.as_ref()?)
        });
        match reading.await {
            Ok(Some(diffs)) => diffs.into_iter().map(ToolCallContent::Diff).collect(),
            _ => vec![ToolCallContent::from(ContentBlock::from(
                tool_call_title::format_arguments(&self.args),
            ))],
        }
    }

    async fn ask_person(&self) -> ObserverDecision {
        let session = &self.turn.session;
        if let Some(verdict) = self.remembered_decision() {
            return verdict;
        }
        let person = session.person_phrase();
        let offered = permission_prompt::build_permission_options(&self.scope);
        let fields = ToolCallUpdateFields::new()
            .title(self.title.clone())
            .kind(self.kind)
            .status(ToolCallStatus::Pending)
            .content(self.question_content().await)
            .raw_input(self.args.clone());
        let call = ToolCallUpdate::new(self.id.clone(), fields);
        let request = RequestPermissionRequest::new(session.id.clone(), call, offered.clone());
        let no = |by: String, then: &str| ObserverDecision {
            allowed: false,
            by,
            then: then.into(),
        };
        let again = "Do without it, or say why it is needed and ask again.";
        let answered = tokio::select! {
            biased;
            why = self.wait_until_abandoned() => return self.refuse_and_stop(why).await,
            answered = session.client.request_permission(request) => answered,
        };
        match answered.map(|answer| permission_prompt::interpret_outcome(&answer.outcome, &offered))
        {
            Ok(PermissionReply::Once) => {
                session.permissions.calls.record_allowed(&self.request);
                ObserverDecision {
                    allowed: true,
                    by: person,
                    then: "this once".into(),
                }
            }
            Ok(PermissionReply::Always) => {
                session.permissions.add_scope(self.scope.clone());
                session.permissions.calls.record_allowed(&self.request);
                ObserverDecision {
                    allowed: true,
                    by: person,
                    then: "for this session".into(),
                }
            }
            Ok(PermissionReply::No) => no(format!("{person} rejected it"), again),
            Ok(PermissionReply::Dismissed) => {
                match tokio::time::timeout(STOP_GRACE, self.wait_until_abandoned()).await {
                    Ok(why) => self.refuse_and_stop(why).await,
                    Err(_) => no(
                        format!("{person} put the question away without an answer"),
                        again,
                    ),
                }
            }
            Ok(PermissionReply::Unclear) => no(
                format!(
                    "{} answered with none of the offered options",
                    session.editor
                ),
                again,
            ),
            // The connection may end before the turn does.
            Err(error)
                if is_incoming_transport_closed(&error) || is_connection_terminated(&error) =>
            {
                self.refuse_and_stop(self.closed_editor_message()).await
            }
            Err(error) => {
                tracing::warn!(%error, "the editor could not be asked");
                no(
                    format!("{person} could not be asked"),
                    "Ask again when the editor answers.",
                )
            }
        }
    }
}

impl ObservedCall for ShownCall {
    fn wants_approval(&self) -> bool {
        self.asks
    }

    fn remembered_decision(&self) -> Option<ObserverDecision> {
        let remembered = &self.turn.session.permissions;
        let holds = remembered.allows_scope(&self.scope);
        if holds {
            remembered.calls.record_allowed(&self.request);
        }
        let person = || self.turn.session.person_phrase();
        holds.then(|| ObserverDecision {
            allowed: true,
            by: person(),
            then: "for this session".into(),
        })
    }

    fn ask_follower(&self) -> DecisionFuture<'_> {
        Box::pin(self.ask_person())
    }

    fn on_started(&self) {
        if !self.is_over() {
            self.lock_shown_state().started = true;
            self.update_fields(ToolCallUpdateFields::new().status(ToolCallStatus::InProgress));
        }
    }

    fn on_output(&self, text: &str, omitted_bytes: u64) {
        if self.is_over() {
            return;
        }
        if let Some(terminal) = self.output_only_terminal() {
            let mut meta = Meta::new();
            let data = text.replace('\n', "\r\n");
            meta.insert(
                "terminal_output".into(),
                json!({ "terminal_id": terminal, "data": data }),
            );
            let update =
                ToolCallUpdate::new(self.id.clone(), ToolCallUpdateFields::new()).meta(meta);
            self.send_call_update(SessionUpdate::ToolCallUpdate(update));
        } else if self.lock_shown_state().terminal.is_some() {
            // The editor's own terminal shows it already.
        } else if let Some(newest) = self.preview.push_output(text, omitted_bytes) {
            self.update_fields(
                ToolCallUpdateFields::new()
                    .content(self.collect_content(Some(&fence_text(&newest)))),
            );
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
