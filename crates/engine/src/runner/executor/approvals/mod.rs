//! Calls that wait for approval. The caller's side is asked through the backend; the person at this device through
//! the home and through an editor that follows the call. The first answer counts, and no answer in time is a refusal.
//! Answers for always are remembered for the conversation and the tool while this process runs. Not here: which calls
//! need approval (the gate).

mod answer_wait;
mod memory;
mod open_question;
mod people_questions;
mod question_text;
mod verdicts;

use std::sync::Arc;

use super::running_call::RunningCall;
use super::stopped_conversations::StoppedConversations;
use crate::backend::{Backend as _, RemoteAnswerKind, RemoteQuestion};
use crate::journal::{ALLOWED, ASKED, DENIED, Journal, RequestOrigin};
use crate::runner::backend_client::BackendClient;
use crate::runner::background::ShutdownPhases;
use crate::runner::backoff::RetryBudget;
use crate::runner::call_audit::Clearance;
use crate::runner::handles::Handles;
use crate::runner::runner_settings::RunnerSettings;
use crate::runner::server_clock::ServerClock;
use crate::runner::session_keeper::SessionKeeper;
use crate::runner::wake_event::LoopWaker;
use crate::runner::wake_signal::MachineWakeSignal;
use memory::{AnswerScope, ApprovalMemory};
use open_question::{DeviceQuestion, LanePlaceRelease};
use punie_core::ids::RequestId;
use punie_home::{ApprovalQuestions, OpenQuestion, SupervisionStore};
use punie_text::redact::Redactor;
use punie_tool::ApprovalSubject;
use punie_tool::request::{ToolEffect, ToolRequest};
use question_text::QuestionText;
pub(in crate::runner) use verdicts::ApprovalFailure;
use verdicts::{
    ApprovalReply, EDITOR_ASK_TOPIC, PersonAnswer, apply_answer, apply_editor_verdict, asking_rule,
    describe_asking, format_wait, nobody_to_ask_denial, unanswered_denial, unseen_denial,
};

/// The time before a call's deadline that is left for running it after an answer.
const TIME_TO_RUN_MS: f64 = 60_000.0;

/// The step of a call about which nobody could be asked.
const NOBODY_TO_ASK: &str = "nobody to ask";

/// Returns the scope in which an answer is remembered. An answer of the caller's side does not answer a question to the
/// person at this device only.
fn answer_scope(request: &ToolRequest, asked: Option<&ApprovalSubject>) -> AnswerScope {
    let topic = match asked {
        Some(asked) => asked.topic.clone(),
        None => Some(EDITOR_ASK_TOPIC.to_owned()),
    };
    (request.conversation.clone(), request.tool.clone(), topic)
}

/// Returns the latest time for an answer to a call with this deadline: a minute before it, or half of the time that is
/// left if that is less than two minutes.
fn last_answer_ms(now_ms: f64, deadline_ms: f64) -> f64 {
    let left = (deadline_ms - now_ms).max(0.0);
    deadline_ms - (left / 2.0).min(TIME_TO_RUN_MS)
}

/// Asks people about calls, and stores their answers. It does not hold [`Handles`]: the tools keep it, by
/// [`punie_home::RunnerPeople`], after the runner has ended.
pub(in crate::runner) struct ApprovalService {
    pub stopped: StoppedConversations,
    memory: ApprovalMemory,
    journal: Journal,
    backend: Arc<BackendClient>,
    sessions: Arc<SessionKeeper>,
    redactor: Redactor,
    settings: RunnerSettings,
    server_clock: ServerClock,
    budget: Arc<RetryBudget>,
    waker: LoopWaker,
    machine_wakes: MachineWakeSignal,
    phases: ShutdownPhases,
}

impl ApprovalService {
    /// Creates the service. Questions that an earlier process left open are closed.
    pub fn new(handles: &Handles, open: ApprovalQuestions, supervision: SupervisionStore) -> Self {
        Self {
            stopped: StoppedConversations {
                supervision,
                registry: Arc::clone(&handles.registry),
            },
            memory: ApprovalMemory::new(open, handles.server_clock.expiry()),
            journal: handles.journal.clone(),
            backend: Arc::clone(&handles.backend),
            sessions: Arc::clone(&handles.sessions),
            redactor: handles.sealer.redactor.clone(),
            settings: handles.settings.clone(),
            server_clock: handles.server_clock.clone(),
            budget: Arc::clone(&handles.budget),
            waker: handles.waker.clone(),
            machine_wakes: handles.machine_wakes.clone(),
            phases: handles.phases.clone(),
        }
    }

    /// Waits until a person allows a call. A call that only the editor's person is asked about is not shown to the
    /// caller's side.
    pub async fn wait_for_approval(
        &self,
        call: &RunningCall,
        asked: Option<&ApprovalSubject>,
    ) -> Result<Clearance, ApprovalFailure> {
        let request = call.accepted.tool_request();
        let scope = answer_scope(request, asked);
        if let Some((earlier, how)) = self.find_earlier_answer(call, asked, &scope) {
            self.record_verdict(call, &earlier, how).await;
            return earlier;
        }
        let asks_caller = asked.is_some() && self.can_ask_caller(call);
        let can_ask_here = self.can_ask_here(call).await;
        if !asks_caller && !can_ask_here {
            return self.refuse_unasked(call, asked).await;
        }
        let now = self.server_clock.now_ms();
        let why = asked.and_then(|asked| asked.why.as_deref());
        let text = QuestionText::for_call(request, why, &self.redactor);
        // After a crash the same question has the same id, so that an answer to it counts.
        let words = [&text.title, &text.arguments, why.unwrap_or_default()];
        let id = RequestId::derive(&request.id, &words);
        let question = self.build_question(id, request, &text, now);
        self.record_step(&request.id, ASKED, describe_asking(asked))
            .await;
        let listed = self.list_on_device(call, asked, &question, text);
        let _place = LanePlaceRelease::release(&self.waker, &call.accepted);
        tracing::info!(request.id = %request.id, tool.name = %request.tool, "a call waits for approval");
        let reply = self
            .wait_for_first_answer(call, &question, asks_caller, can_ask_here)
            .await;
        let answered_here = self.memory.open.given_reply(&question.id);
        let is_allowed_here = matches!(&answered_here, Some(it) if it.option.is_allowed());
        if is_allowed_here {
            self.stopped.resume(&request.conversation);
        }
        if let Err(ApprovalFailure::Cancelled) = reply {
            listed.unlist().await;
            return Err(ApprovalFailure::Cancelled);
        }
        let reply = reply?;
        let waited_ms = self.server_clock.now_ms() - now;
        let is_of_editor = asked.is_none() && matches!(reply, ApprovalReply::InEditor(_));
        let (verdict, how) = match reply {
            ApprovalReply::InEditor(decision) => {
                if decision.allowed {
                    self.stopped.resume(&request.conversation);
                }
                let verdict = apply_editor_verdict(&decision, &request.tool);
                (verdict, format!("in the editor: {}", decision.by))
            }
            ApprovalReply::NobodyToAsk => {
                let denial = nobody_to_ask_denial(call, asked);
                (Err(denial), NOBODY_TO_ASK.to_owned())
            }
            ApprovalReply::Answer(Some(answer))
                if question.is_cut && answer.option.is_allowed() && !is_allowed_here =>
            {
                let how = "the caller's side allowed it, but was shown only a part of it";
                (Err(unseen_denial(&request.tool, asked)), how.to_owned())
            }
            ApprovalReply::Answer(Some(answer)) => {
                let answer = PersonAnswer::from_remote(&answer, answered_here.as_ref());
                if answer.option.is_always() {
                    self.memory.remember_answer(scope, answer);
                }
                let verdict = apply_answer(answer, &request.tool, asked);
                (verdict, answer.describe_after(waited_ms))
            }
            ApprovalReply::Answer(None) => {
                let patience_ms = question.expires_at_ms - now;
                let denial = unanswered_denial(call, asked, patience_ms, asks_caller);
                let how = format!("nobody answered in {}", format_wait(waited_ms));
                (Err(denial), how)
            }
        };
        // Before the question leaves the list: whoever answered it looks here then.
        self.record_verdict(call, &verdict, how).await;
        listed.unlist().await;
        if verdict.is_ok() && !is_of_editor {
            self.memory.allowed.record(&request.id);
        }
        verdict
    }

    /// Refuses a call about which nobody can be asked.
    async fn refuse_unasked(
        &self,
        call: &RunningCall,
        asked: Option<&ApprovalSubject>,
    ) -> Result<Clearance, ApprovalFailure> {
        let denial = Err(nobody_to_ask_denial(call, asked));
        self.record_verdict(call, &denial, NOBODY_TO_ASK.to_owned())
            .await;
        denial
    }

    /// Records for the owner how a call was allowed or denied.
    async fn record_verdict(
        &self,
        call: &RunningCall,
        verdict: &Result<Clearance, ApprovalFailure>,
        how: String,
    ) {
        let kind = match verdict {
            Ok(_) => ALLOWED,
            Err(_) => DENIED,
        };
        let id = &call.accepted.tool_request().id;
        self.record_step(id, kind, how).await;
    }

    async fn record_step(&self, id: &RequestId, kind: &'static str, detail: String) {
        let now_ms = self.server_clock.local().now_ms();
        let recorded = self.journal.record_incident(id, kind, Some(detail), now_ms);
        if let Err(error) = recorded.await {
            tracing::warn!(request.id = %id, %error, "a step of the approval is missing in the history");
        }
    }

    /// Returns the permission or the refusal that an earlier answer gives, if one does, and a description of that
    /// answer.
    fn find_earlier_answer(
        &self,
        call: &RunningCall,
        asked: Option<&ApprovalSubject>,
        scope: &AnswerScope,
    ) -> Option<(Result<Clearance, ApprovalFailure>, String)> {
        let request = call.accepted.tool_request();
        let is_of_rule = asked.is_some_and(|asked| asked.topic.is_some());
        let is_task = asked.is_some() && call.accepted.origin() == RequestOrigin::Task;
        if is_task && !is_of_rule && self.memory.allowed.has_made_task(&request.id) {
            // The person who allowed the task saw all of it, but no rule about the content of its command.
            let clearance = Clearance::by_approval("task", asking_rule(asked));
            return Some((Ok(clearance), "with the task that made it".to_owned()));
        }
        let refused = || {
            let of_tool = (request.conversation.clone(), request.tool.clone(), None);
            self.memory
                .find_remembered(&of_tool)
                .filter(|answer| asked.is_none() && !answer.option.is_allowed())
        };
        if let Some(answer) = self.memory.find_remembered(scope).or_else(refused) {
            let verdict = apply_answer(answer, &request.tool, asked);
            return Some((verdict, answer.describe_earlier()));
        }
        // An answer to an editor about a tool is not an answer about a rule.
        let verdict = call
            .observed
            .as_ref()
            .and_then(|observed| observed.remembered_decision())
            .filter(|verdict| !is_of_rule || !verdict.allowed)?;
        let how = format!("in the editor, earlier: {}", verdict.by);
        Some((apply_editor_verdict(&verdict, &request.tool), how))
    }

    /// Returns whether a person can be asked on this machine: by a process that asks, or by an editor that follows the
    /// call or did so before.
    async fn can_ask_here(&self, call: &RunningCall) -> bool {
        call.observed.is_some() || self.has_approver().await
    }

    /// Returns whether a process asks a person at this device.
    async fn has_approver(&self) -> bool {
        let open = self.memory.open.clone();
        tokio::task::spawn_blocking(move || open.has_approver())
            .await
            .unwrap_or(true)
    }

    /// Builds the question, which expires with the patience of people, or so long before the deadline of the call that
    /// an answer leaves time to run it.
    fn build_question(
        &self,
        id: RequestId,
        request: &ToolRequest,
        text: &QuestionText,
        now_ms: f64,
    ) -> RemoteQuestion {
        let latest = now_ms + self.settings.calls.current().approval.as_secs_f64() * 1_000.0;
        RemoteQuestion {
            id,
            request: request.id.clone(),
            title: text.title.clone(),
            is_cut: text.is_cut,
            host: None,
            answers: RemoteAnswerKind::Approval,
            expires_at_ms: request.deadline_ms.map_or(latest, |deadline| {
                latest.min(last_answer_ms(now_ms, deadline))
            }),
        }
    }

    /// Returns whether the caller's side can be asked: not about a request that the backend does not know, and not on
    /// a wire without approvals.
    fn can_ask_caller(&self, call: &RunningCall) -> bool {
        call.accepted.origin() == RequestOrigin::Backend
            && self.backend.remote_approvals().is_some()
    }

    /// Lists the question for the person at this device. A slow disk blocks nothing else meanwhile.
    fn list_on_device(
        &self,
        call: &RunningCall,
        asked: Option<&ApprovalSubject>,
        question: &RemoteQuestion,
        text: QuestionText,
    ) -> DeviceQuestion {
        let asked_at_ms = self.server_clock.local().now_ms();
        #[expect(clippy::cast_possible_truncation, reason = "milliseconds since 1970")]
        let left_ms = (question.expires_at_ms - self.server_clock.now_ms()) as i64;
        let open = OpenQuestion {
            id: question.id.clone(),
            request_id: question.request.clone(),
            tool: call.accepted.tool_request().tool.to_string(),
            runs_command: call.accepted.tool_effect() == ToolEffect::Executes,
            title: text.title,
            is_cut: text.is_cut,
            arguments: text.arguments,
            why: text.why,
            folder: asked
                .and_then(|asked| asked.folder.as_ref())
                .map(|folder| folder.display().to_string()),
            allowable_command: asked
                .and_then(|asked| asked.allowable_command.clone())
                .filter(|words| self.redactor.mask(&words.join(" ")).1 == 0),
            host: None,
            allowable_host: None,
            session_folder: None,
            input: None,
            asked_at_ms,
            expires_at_ms: asked_at_ms + left_ms,
        };
        let stopping = self.phases.stopping.clone();
        DeviceQuestion::list_question(self.memory.open.clone(), open, stopping)
    }
}
