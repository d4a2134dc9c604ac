//! Calls that wait for approval. The caller's side is asked through the backend; the person at this device through
//! the home and through an editor that follows the call. The first answer counts, and no answer in time is a refusal.
//! Answers for always are remembered for the conversation and the tool while this process runs. Not here: which calls
//! need approval (the gate).

mod answer_wait;
mod memory;
mod open_question;
mod question_text;
mod verdicts;

use std::sync::Arc;

use super::running_call::RunningCall;
use super::stopped_conversations::StoppedConversations;
use crate::backend::{Backend as _, RemoteQuestion};
use crate::home::OpenQuestion;
use crate::ids::RequestId;
use crate::journal::RequestOrigin;
use crate::redact::Redactor;
use crate::request::{ToolEffect, ToolRequest};
use crate::runner::backend_client::BackendClient;
use crate::runner::background::ShutdownPhases;
use crate::runner::backoff::RetryBudget;
use crate::runner::call_audit::Clearance;
use crate::runner::clock::{Clock, ServerClock};
use crate::runner::runner_settings::RunnerSettings;
use crate::runner::session_keeper::SessionKeeper;
use crate::runner::wake_event::LoopWaker;
use crate::runner::wake_signal::MachineWakeSignal;
use crate::tool::ApprovalSubject;
use memory::AnswerScope;
pub(in crate::runner) use memory::ApprovalMemory;
use open_question::{DeviceQuestion, LanePlaceRelease};
use question_text::QuestionText;
pub(in crate::runner) use verdicts::ApprovalFailure;
use verdicts::{
    ApprovalReply, EDITOR_ASK_TOPIC, apply_answer, apply_editor_verdict, asking_rule,
    nobody_to_ask_denial, unanswered_denial, unseen_denial,
};

/// The time before a call's deadline that is left for running it after an answer.
const TIME_TO_RUN_MS: f64 = 60_000.0;

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

/// Asks people about calls, and stores their answers.
pub(in crate::runner) struct ApprovalService {
    pub memory: ApprovalMemory,
    pub stopped: StoppedConversations,
    pub backend: Arc<BackendClient>,
    pub sessions: Arc<SessionKeeper>,
    pub redactor: Redactor,
    pub settings: RunnerSettings,
    pub clock: Clock,
    pub server_clock: ServerClock,
    pub budget: Arc<RetryBudget>,
    pub waker: LoopWaker,
    pub machine_wakes: MachineWakeSignal,
    pub phases: ShutdownPhases,
}

impl ApprovalService {
    /// Waits until a person allows a call. A call that only the editor's person is asked about is not shown to the
    /// caller's side.
    pub async fn wait_for_approval(
        &self,
        call: &RunningCall,
        asked: Option<&ApprovalSubject>,
    ) -> Result<Clearance, ApprovalFailure> {
        let request = call.accepted.tool_request();
        let scope = answer_scope(request, asked);
        if let Some(earlier) = self.find_earlier_answer(call, asked, &scope) {
            return earlier;
        }
        let asks_caller = asked.is_some() && self.can_ask_caller(call);
        let can_ask_here = self.can_ask_here(call).await;
        if !asks_caller && !can_ask_here {
            return Err(nobody_to_ask_denial(call, asked));
        }
        let now = self.server_clock.now_ms();
        let id = RequestId::new();
        let why = asked.and_then(|asked| asked.why.as_deref());
        let text = QuestionText::for_call(&id, request, why, &self.redactor);
        let question = self.build_question(id, request, &text, now);
        let listed = self.list_on_device(call, asked, &question, text);
        let _place = LanePlaceRelease::release_place(&self.waker, &call.accepted);
        tracing::info!(request.id = %request.id, tool.name = %request.tool, "a call waits for approval");
        let reply = self
            .wait_for_first_answer(call, &question, asks_caller, can_ask_here)
            .await;
        let is_allowed_here = self.memory.is_allowed_here(&question.id);
        if is_allowed_here {
            self.stopped.resume_stopped(&request.conversation);
        }
        listed.unlist_question().await;
        let judged = match reply? {
            ApprovalReply::InEditor(verdict) => {
                if verdict.allowed {
                    self.stopped.resume_stopped(&request.conversation);
                }
                let judged = apply_editor_verdict(&verdict, &request.tool);
                if asked.is_none() {
                    return judged;
                }
                judged
            }
            ApprovalReply::NobodyToAsk => Err(nobody_to_ask_denial(call, asked)),
            ApprovalReply::Answer(Some(answer))
                if question.is_cut && answer.option.is_allowed() && !is_allowed_here =>
            {
                Err(unseen_denial(&request.tool, asked))
            }
            ApprovalReply::Answer(Some(answer)) => {
                if answer.option.is_always() {
                    self.memory.remember_answer(scope, answer);
                }
                apply_answer(answer, &request.tool, asked)
            }
            ApprovalReply::Answer(None) => {
                let waited_ms = question.expires_at_ms - now;
                Err(unanswered_denial(call, asked, waited_ms, asks_caller))
            }
        };
        if judged.is_ok() {
            self.memory.allowed.record_allowed(&request.id);
        }
        judged
    }

    /// Returns the permission or the refusal that an earlier answer gives, if one does.
    fn find_earlier_answer(
        &self,
        call: &RunningCall,
        asked: Option<&ApprovalSubject>,
        scope: &AnswerScope,
    ) -> Option<Result<Clearance, ApprovalFailure>> {
        let request = call.accepted.tool_request();
        let is_of_rule = asked.is_some_and(|asked| asked.topic.is_some());
        let is_task = asked.is_some() && call.accepted.request_origin() == RequestOrigin::Task;
        if is_task && !is_of_rule && self.memory.allowed.has_made_task(&request.id) {
            // The person who allowed the task saw all of it, but no rule about the content of its command.
            return Some(Ok(Clearance::by_approval("task", asking_rule(asked))));
        }
        let refused = || {
            let of_tool = (request.conversation.clone(), request.tool.clone(), None);
            self.memory
                .find_remembered(&of_tool)
                .filter(|answer| asked.is_none() && !answer.option.is_allowed())
        };
        if let Some(answer) = self.memory.find_remembered(scope).or_else(refused) {
            return Some(apply_answer(answer, &request.tool, asked));
        }
        // An answer to an editor about a tool is not an answer about a rule.
        let verdict = call
            .observed
            .as_ref()
            .and_then(|observed| observed.remembered_decision())
            .filter(|verdict| !is_of_rule || !verdict.allowed)?;
        Some(apply_editor_verdict(&verdict, &request.tool))
    }

    /// Returns whether a person can be asked on this machine: by a process that asks, or by an editor that follows the
    /// call or did so before.
    async fn can_ask_here(&self, call: &RunningCall) -> bool {
        if call.observed.is_some() {
            return true;
        }
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
            expires_at_ms: request.deadline_ms.map_or(latest, |deadline| {
                latest.min(last_answer_ms(now_ms, deadline))
            }),
        }
    }

    /// Returns whether the caller's side can be asked: not about a request that the backend does not know, and not on
    /// a wire without approvals.
    fn can_ask_caller(&self, call: &RunningCall) -> bool {
        call.accepted.request_origin() == RequestOrigin::Backend
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
        let asked_at_ms = self.clock.now_ms();
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
            asked_at_ms,
            expires_at_ms: asked_at_ms + left_ms,
        };
        DeviceQuestion::list_question(self.memory.open.clone(), open)
    }
}
