//! One tool call as an editor shows it, from pending to its end. Every call is finished there, also one that is
//! dropped. Not here: the turn that it belongs to (turns), and the meaning of a person's answer (permission).

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::glance;
use super::output::{Newest, fenced};
use super::permission::{self, Said};
use super::preview;
use super::scope::Scope;
use super::session::EditorSession;
use super::turns::Open;
use crate::acp::Workspace;
use crate::acp::protocol::{
    ContentBlock, Diff, Meta, RequestPermissionRequest, SessionNotification, SessionUpdate, Terminal,
    TerminalId, ToolCall, ToolCallContent, ToolCallId, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields,
    ToolKind, is_connection_terminated, is_incoming_transport_closed,
};
use crate::home::ThreadEvent;
use crate::ids::{ConversationId, RequestId};
use crate::tool::{
    CallView, Effect, Ended, Lane, ObservedCall, ProposedChange, Verdict, Word, advice_when_stopped,
};

/// The most bytes of a result's text that are shown.
const ANSWER: usize = 16 * 1024;
/// The time after a dismissed question in which the whole turn may turn out to be stopped: the two messages come in
/// either order.
const STOP_FOLLOWS: Duration = Duration::from_secs(1);
/// Diffs of longer texts are not shown.
const DIFF: usize = 256 * 1024;
/// The limit of all diffs of a call together, because each of its updates carries all of them.
const DIFFS: usize = 512 * 1024;

/// A tool call that is shown in a turn.
pub struct ShownCall {
    turn: Arc<Open>,
    request: RequestId,
    conversation: ConversationId,
    id: ToolCallId,
    workspace: Option<Workspace>,
    title: String,
    kind: ToolKind,
    args: Value,
    scope: Scope,
    changes: Vec<ProposedChange>,
    asks: bool,
    newest: Newest,
    /// The call was sent to the editor, which may have run it.
    in_editor: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_over: bool,
    diffs: Vec<Diff>,
    diff_bytes: usize,
    /// The terminal that the call is shown with: the editor's own, or one that only shows output of this machine.
    terminal: Option<TerminalId>,
    /// The terminal only shows output that this machine sends.
    fed: bool,
    started: bool,
}

impl ShownCall {
    /// Shows a pending call.
    pub(super) fn begin(turn: &Arc<Open>, call: CallView<'_>, workspace: Option<&Workspace>) -> Self {
        let session = &turn.session;
        let executes = call.effect == Effect::Executes && call.tool.lane != Lane::Control;
        let asked = session.settings.ask.contains(&call.effect) && !call.tool.only_ends;
        // The person who allowed a task saw all its calls.
        let known = call.of_task && session.remembered.calls.made_task(call.request);
        let asks = call.tool.always_asks || asked && !known;
        let shown = Self {
            request: call.request.clone(),
            conversation: call.conversation.clone(),
            id: ToolCallId::from(call.request.to_string()),
            workspace: workspace.cloned(),
            title: glance::title(call, &session.roots),
            kind: glance::kind(call.tool.kind()),
            args: call.args.clone(),
            scope: Scope::of_call(call, workspace),
            changes: if asks { call.description.changes.clone() } else { Vec::new() },
            asks,
            newest: Newest::default(),
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
            .locations(glance::locations(call, workspace))
            .raw_input(call.args.clone());
        if executes && session.shows_output() && !session.runs() {
            let terminal = TerminalId::from(format!("punie-{}", call.request));
            let info = json!({ "terminal_id": terminal, "cwd": session.roots.first() });
            meta.insert("terminal_info".into(), info);
            first = first.content(vec![ToolCallContent::Terminal(Terminal::new(terminal.clone()))]);
            let mut state = shown.state();
            (state.terminal, state.fed) = (Some(terminal), true);
        }
        turn.live.send_modify(|live| *live += 1);
        shown.send(SessionUpdate::ToolCall(first.meta(meta)));
        shown
    }

    /// Returns the session that it is shown in.
    pub fn session(&self) -> &Arc<EditorSession> {
        &self.turn.session
    }

    /// Returns whether the call or its turn has ended.
    pub fn is_over(&self) -> bool {
        self.turn.over.is_cancelled() || self.state().is_over
    }

    /// Shows a file change as a diff, at once and again at the end of the call.
    pub fn wrote(&self, path: &Path, before: Option<&str>, after: &str) {
        let size = before.map_or(0, str::len) + after.len();
        {
            let mut state = self.state();
            if size > DIFF || state.diff_bytes + size > DIFFS {
                return;
            }
            state.diff_bytes += size;
        }
        let mut diff = Diff::new(path, after);
        if let Some(before) = before {
            diff = diff.old_text(before.to_owned());
        }
        self.state().diffs.push(diff);
        self.update(ToolCallUpdateFields::new().content(self.contents(None)));
    }

    /// Records that the call was sent to the editor.
    pub fn sent_to_editor(&self) {
        self.in_editor.store(true, Ordering::Relaxed);
    }

    /// Shows the editor's terminal in which the call runs.
    pub fn runs_in(&self, terminal: TerminalId) {
        self.state().terminal = Some(terminal);
        self.update(ToolCallUpdateFields::new().content(self.contents(None)));
    }

    fn contents(&self, text: Option<&str>) -> Vec<ToolCallContent> {
        let state = self.state();
        let terminal = state.terminal.iter().map(|id| ToolCallContent::Terminal(Terminal::new(id.clone())));
        let diffs = state.diffs.iter().map(|diff| ToolCallContent::Diff(diff.clone()));
        let text = text.map(|text| ToolCallContent::from(ContentBlock::from(text.to_owned())));
        terminal.chain(diffs).chain(text).collect()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the terminal that shows output of this machine, if the editor has one.
    fn fed(&self) -> Option<TerminalId> {
        Some(self.state()).filter(|state| state.fed)?.terminal.clone()
    }

    fn update(&self, fields: ToolCallUpdateFields) {
        self.send(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(self.id.clone(), fields)));
    }

    /// Passes an update to the connection, without waiting until it is shown.
    fn send(&self, update: SessionUpdate) {
        let session = &self.turn.session;
        let sent = session.client.session_update(SessionNotification::new(session.id.clone(), update));
        if let Some(Err(error)) = futures_util::FutureExt::now_or_never(sent) {
            tracing::debug!(%error, "the editor is not shown how a call goes on");
        }
    }

    /// Ends the display of the call; only the first end counts.
    fn finish(&self, status: ToolCallStatus, text: Option<&str>, raw: Option<&Value>) {
        if std::mem::replace(&mut self.state().is_over, true) {
            return;
        }
        self.turn.session.record(&ThreadEvent::Call {
            request_id: self.request.clone(),
            title: self.title.clone(),
            kind: serde_json::to_value(self.kind)
                .ok()
                .and_then(|kind| kind.as_str().map(str::to_owned))
                .unwrap_or_default(),
            ok: status == ToolCallStatus::Completed,
        });
        let fed = self.fed();
        let in_terminal = Some(self.state()).is_some_and(|state| state.terminal.is_some() && state.started);
        let contents = self.contents(text.filter(|_| !in_terminal));
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
            let code = raw.and_then(|raw| raw.pointer("/meta/exitCode")).cloned().unwrap_or(Value::Null);
            let signal = raw.and_then(|raw| raw.pointer("/meta/signal")).cloned().unwrap_or(Value::Null);
            let exit = json!({ "terminal_id": terminal, "exit_code": code, "signal": signal });
            meta.insert("terminal_exit".into(), exit);
            update = update.meta(meta);
        }
        self.send(SessionUpdate::ToolCallUpdate(update));
        self.turn.live.send_modify(|live| *live -= 1);
    }

    /// Stops the call's conversation and refuses the call, because its question will not be answered any more.
    async fn refuse_for_good(&self, why: String) -> Verdict {
        self.turn.stop_conversations([self.conversation.clone()], why.clone()).await;
        Verdict { allowed: false, by: why, then: advice_when_stopped(&self.conversation) }
    }

    /// Completes with the reason when the person stops the turn or the editor is closed.
    async fn given_up(&self) -> String {
        tokio::select! {
            biased;
            () = self.turn.stop.cancelled() => format!("{} stopped the turn", self.turn.session.person()),
            () = self.turn.over.cancelled() => self.closed(),
        }
    }

    fn closed(&self) -> String {
        format!("{} was closed before anybody answered", self.turn.session.editor)
    }

    /// Returns the content of the question: the diffs of an edit, else all arguments.
    async fn question(&self) -> Vec<ToolCallContent> {
        let (changes, workspace) = (self.changes.clone(), self.workspace.clone());
        let reading =
            tokio::task::spawn_blocking(move || preview::differences(&changes, workspace.as_ref()?));
        match reading.await {
            Ok(Some(diffs)) => diffs.into_iter().map(ToolCallContent::Diff).collect(),
            _ => vec![ToolCallContent::from(ContentBlock::from(glance::whole(&self.args)))],
        }
    }

    async fn put(&self) -> Verdict {
        let session = &self.turn.session;
        if let Some(verdict) = self.known() {
            return verdict;
        }
        let person = session.person();
        let offered = permission::options(&self.scope);
        let fields = ToolCallUpdateFields::new()
            .title(self.title.clone())
            .kind(self.kind)
            .status(ToolCallStatus::Pending)
            .content(self.question().await)
            .raw_input(self.args.clone());
        let call = ToolCallUpdate::new(self.id.clone(), fields);
        let request = RequestPermissionRequest::new(session.id.clone(), call, offered.clone());
        let no = |by: String, then: &str| Verdict { allowed: false, by, then: then.into() };
        let again = "Do without it, or say why it is needed and ask again.";
        let answered = tokio::select! {
            biased;
            why = self.given_up() => return self.refuse_for_good(why).await,
            answered = session.client.request_permission(request) => answered,
        };
        match answered.map(|answer| permission::said(&answer.outcome, &offered)) {
            Ok(Said::Once) => {
                session.remembered.calls.record(&self.request);
                Verdict { allowed: true, by: person, then: "this once".into() }
            }
            Ok(Said::Always) => {
                session.remembered.add(self.scope.clone());
                session.remembered.calls.record(&self.request);
                Verdict { allowed: true, by: person, then: "for this session".into() }
            }
            Ok(Said::No) => no(format!("{person} rejected it"), again),
            Ok(Said::Dismissed) => match tokio::time::timeout(STOP_FOLLOWS, self.given_up()).await {
                Ok(why) => self.refuse_for_good(why).await,
                Err(_) => no(format!("{person} put the question away without an answer"), again),
            },
            Ok(Said::Unclear) => {
                no(format!("{} answered with none of the offered options", session.editor), again)
            }
            // The connection may end before the turn does.
            Err(error) if is_incoming_transport_closed(&error) || is_connection_terminated(&error) => {
                self.refuse_for_good(self.closed()).await
            }
            Err(error) => {
                tracing::warn!(%error, "the editor could not be asked");
                no(format!("{person} could not be asked"), "Ask again when the editor answers.")
            }
        }
    }
}

impl ObservedCall for ShownCall {
    fn wants_a_say(&self) -> bool {
        self.asks
    }

    fn known(&self) -> Option<Verdict> {
        let remembered = &self.turn.session.remembered;
        let holds = remembered.holds(&self.scope);
        if holds {
            remembered.calls.record(&self.request);
        }
        let person = || self.turn.session.person();
        holds.then(|| Verdict { allowed: true, by: person(), then: "for this session".into() })
    }

    fn ask(&self) -> Word<'_> {
        Box::pin(self.put())
    }

    fn started(&self) {
        if !self.is_over() {
            self.state().started = true;
            self.update(ToolCallUpdateFields::new().status(ToolCallStatus::InProgress));
        }
    }

    fn printed(&self, text: &str, omitted_bytes: u64) {
        if self.is_over() {
            return;
        }
        if let Some(terminal) = self.fed() {
            let mut meta = Meta::new();
            let data = text.replace('\n', "\r\n");
            meta.insert("terminal_output".into(), json!({ "terminal_id": terminal, "data": data }));
            let update = ToolCallUpdate::new(self.id.clone(), ToolCallUpdateFields::new()).meta(meta);
            self.send(SessionUpdate::ToolCallUpdate(update));
        } else if self.state().terminal.is_some() {
            // The editor's own terminal shows it already.
        } else if let Some(newest) = self.newest.push(text, omitted_bytes) {
            self.update(ToolCallUpdateFields::new().content(self.contents(Some(&fenced(&newest)))));
        }
    }

    fn ran_in_editor(&self) -> bool {
        self.in_editor.load(Ordering::Relaxed)
    }

    fn ended(&self, ending: Ended<'_>) {
        let raw: Value = serde_json::from_str(ending.payload).unwrap_or_default();
        let text = raw.get("result").or_else(|| raw.get("error")).map(as_text);
        let text = text.map(|text| fenced(clipped(&text, ANSWER)));
        let status = if ending.ok { ToolCallStatus::Completed } else { ToolCallStatus::Failed };
        self.finish(status, text.as_deref(), Some(&small(raw)));
    }

    fn stopped(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.turn.stop.cancelled())
    }
}

impl Drop for ShownCall {
    fn drop(&mut self) {
        self.finish(
            ToolCallStatus::Failed,
            Some("It has no result yet: the runner stopped, or failed inside."),
            None,
        );
    }
}

fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn clipped(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// Shortens the result's text, which is shown beside it.
fn small(mut raw: Value) -> Value {
    for key in ["result", "error"] {
        if let Some(value) = raw.get_mut(key)
            && value.to_string().len() > ANSWER
        {
            *value = Value::String(clipped(&as_text(value), ANSWER).to_owned());
        }
    }
    raw
}
