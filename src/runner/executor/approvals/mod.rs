//! Calls that wait for approval. The caller's side is asked through the backend; the person at this device through
//! the home and through an editor that follows the call. The first answer counts, and no answer in time is a refusal.
//! Answers for always are remembered for the conversation and the tool while this process runs. Not here: which calls
//! need approval (the gate).

mod memory;
mod open_question;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::call_runner::RunningCall;
use super::stopped_conversations::StoppedConversations;
use crate::approval_answer::{AnsweredBy, ApprovalOption};
use crate::backend::{
    Backend as _, RecoveryAction, RemoteAnswer, RemoteApprovals, RemoteQuestion, RetryDelay,
};
use crate::home::OpenQuestion;
use crate::ids::{RequestId, ToolName};
use crate::journal::{AcceptedRequest, RequestOrigin};
use crate::redact::Redactor;
use crate::request::{CallFailure, ErrorCode, ResultMeta};
use crate::runner::backend_client::BackendClient;
use crate::runner::background::ShutdownPhases;
use crate::runner::backoff::{RetryBudget, RetryIntervals};
use crate::runner::call_audit::{ASK_RULE, Clearance};
use crate::runner::clock::{Clock, ServerClock};
use crate::runner::runner_settings::RunnerSettings;
use crate::runner::session_keeper::SessionKeeper;
use crate::runner::wake_event::LoopWaker;
use crate::runner::wake_signal::MachineWakeSignal;
use crate::tool::{ApprovalSubject, ObserverDecision};
pub(in crate::runner) use memory::ApprovalMemory;
use open_question::{DeviceQuestion, LanePlaceRelease};

/// The interval at which the runner checks for the device's answer while a question is open.
const DEVICE_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// The least time between two requests to a backend for the answer.
const MIN_ASK_INTERVAL: Duration = Duration::from_secs(1);
/// The longest time between them, reached when the answer takes long.
const MAX_ASK_INTERVAL: Duration = Duration::from_secs(5);
/// The longest wait for the backend to say whether the device's answer is the first.
const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The most bytes of a title on the wire.
const MAX_TITLE_BYTES: usize = 4_000;

/// The topic of a remembered answer if only the person at this device was asked.
const EDITOR_ASK_TOPIC: &str = "editor.ask";

/// The result of a question.
enum ApprovalReply {
    /// The answer of the person at the editor.
    InEditor(ObserverDecision),
    /// The answer of another party, or `None` if there was none.
    Answer(Option<RemoteAnswer>),
}

/// The reason why a call does not go on.
pub(in crate::runner) enum ApprovalFailure {
    /// It was refused.
    Refused(Box<CallFailure>),
    /// The caller cancelled it.
    Cancelled,
    /// The runner stops: the next process asks again.
    Stopping,
}

/// Turns an answer into the permission or the refusal of a call of this tool.
fn apply_answer(
    answer: RemoteAnswer,
    tool: &ToolName,
    asked: Option<&ApprovalSubject>,
) -> Result<Clearance, ApprovalFailure> {
    if answer.option.is_allowed() {
        return Ok(Clearance::by_approval(
            answer.by.as_str(),
            asking_rule(asked),
        ));
    }
    let who = match answer.by {
        AnsweredBy::Device => "the person at this device",
        AnsweredBy::Caller => "the caller's side",
    };
    let then = if answer.option.is_always() {
        "for the rest of this conversation. Do without it."
    } else {
        "this once. Do without it, or say why it is needed and ask again."
    };
    let text = format!(
        "{tool} was not run: {}, and {who} refused it, {then}",
        asking_reason(asked)
    );
    Err(policy_denial(text, asked))
}

/// Returns the reason of the question, as a part of a sentence.
fn asking_reason(asked: Option<&ApprovalSubject>) -> &str {
    let why = asked.and_then(|asked| asked.why.as_deref());
    why.unwrap_or("its owner wants to be asked about such calls")
}

/// Waits for the answer of the person at an editor that follows the call; never completes if there is no such editor.
async fn wait_for_editor_answer(call: &RunningCall) -> ObserverDecision {
    match &call.observed {
        Some(observed) => observed.ask_follower().await,
        None => std::future::pending().await,
    }
}

fn apply_editor_verdict(
    verdict: &ObserverDecision,
    tool: &ToolName,
) -> Result<Clearance, ApprovalFailure> {
    let refused = || {
        policy_denial(
            format!("{tool} was not run: {}. {}", verdict.by, verdict.then),
            None,
        )
    };
    verdict
        .allowed
        .then(|| Clearance::by_approval("editor", "editor.ask"))
        .ok_or_else(refused)
}

/// Truncates a text in the middle.
fn truncate_middle(text: &str) -> String {
    if text.len() <= MAX_TITLE_BYTES {
        return text.to_owned();
    }
    let half = MAX_TITLE_BYTES / 2 - 40;
    let (head, tail) = (
        text.floor_char_boundary(half),
        text.ceil_char_boundary(text.len() - half),
    );
    format!(
        "{} …({} bytes left out)… {}",
        &text[..head],
        tail - head,
        &text[tail..]
    )
}

/// Returns the owner's rule by which a person is asked.
fn asking_rule(asked: Option<&ApprovalSubject>) -> &str {
    asked
        .and_then(|asked| asked.rule.as_deref())
        .unwrap_or(ASK_RULE)
}

fn policy_denial(text: String, asked: Option<&ApprovalSubject>) -> ApprovalFailure {
    let meta = ResultMeta {
        rule: Some(asking_rule(asked).to_owned()),
        ..ResultMeta::default()
    };
    ApprovalFailure::Refused(Box::new(CallFailure {
        code: ErrorCode::PolicyDenied,
        text,
        meta,
    }))
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
    pub(in crate::runner) async fn wait_for_approval(
        &self,
        call: &RunningCall,
        asked: Option<&ApprovalSubject>,
    ) -> Result<Clearance, ApprovalFailure> {
        let request = call.accepted.tool_request();
        let publicly = asked.is_some();
        let of_rule = asked.is_some_and(|asked| asked.topic.is_some());
        // An answer of the caller's side does not answer a question to the person at this device only.
        let topic = if publicly {
            asked.and_then(|asked| asked.topic.clone())
        } else {
            Some(EDITOR_ASK_TOPIC.to_owned())
        };
        let place = (request.conversation.clone(), request.tool.clone(), topic);
        let of_task = publicly && call.accepted.request_origin() == RequestOrigin::Task;
        if of_task && !of_rule && self.memory.allowed.has_made_task(&request.id) {
            // The person who allowed the task saw all of it, but no rule about the content of its command.
            return Ok(Clearance::by_approval("task", asking_rule(asked)));
        }
        let refused = || {
            let of_tool = (request.conversation.clone(), request.tool.clone(), None);
            self.memory
                .find_remembered(&of_tool)
                .filter(|answer| !publicly && !answer.option.is_allowed())
        };
        if let Some(answer) = self.memory.find_remembered(&place).or_else(refused) {
            return apply_answer(answer, &request.tool, asked);
        }
        // An answer to an editor about a tool is not an answer about a rule.
        let known = call
            .observed
            .as_ref()
            .and_then(|observed| observed.remembered_decision());
        if let Some(verdict) = known.filter(|verdict| !of_rule || !verdict.allowed) {
            return apply_editor_verdict(&verdict, &request.tool);
        }
        let now = self.server_clock.now_ms();
        let patience = self.settings.calls.approval.as_secs_f64() * 1_000.0;
        let expires_at_ms = request
            .deadline_ms
            .map_or(now + patience, |deadline| deadline.min(now + patience));
        let question = RemoteQuestion {
            id: RequestId::new(),
            request: request.id.clone(),
            title: self.question_text(&call.accepted, asked),
            expires_at_ms,
        };
        let asks_there = publicly && self.can_ask_caller(call);
        let open = self.list_on_device(call, &question);
        let _aside = LanePlaceRelease::release_place(&self.waker, &call.accepted);
        tracing::info!(request.id = %request.id, tool.name = %request.tool, "a call waits for somebody's word");
        let answer = self
            .wait_for_first_answer(call, &question, asks_there)
            .await;
        if self.memory.is_allowed_here(&question.id) {
            self.stopped.resume_stopped(&request.conversation);
        }
        open.unlist_question().await;
        let answer = match answer? {
            ApprovalReply::InEditor(verdict) => {
                if verdict.allowed {
                    self.stopped.resume_stopped(&request.conversation);
                }
                let judged = apply_editor_verdict(&verdict, &request.tool);
                if publicly && judged.is_ok() {
                    self.memory.allowed.record_allowed(&request.id);
                }
                return judged;
            }
            ApprovalReply::Answer(answer) => answer,
        };
        let Some(answer) = answer else {
            let seconds = (expires_at_ms - now).max(0.0) / 1_000.0;
            let also = if asks_there {
                ", or the caller's own side"
            } else {
                ""
            };
            let editor = if call.observed.is_some() {
                "the editor, "
            } else {
                ""
            };
            let text = format!(
                "{} was not run: {}, and nobody answered within {seconds:.0} s. Ask again when somebody is there: {editor}`punie-runner approvals` at the device{also}.",
                request.tool,
                asking_reason(asked)
            );
            return Err(policy_denial(text, asked));
        };
        if answer.option.is_always() {
            self.memory.remember_answer(place, answer);
        }
        let judged = apply_answer(answer, &request.tool, asked);
        if judged.is_ok() {
            self.memory.allowed.record_allowed(&request.id);
        }
        judged
    }

    /// Waits for the first answer, until the question expires.
    async fn wait_for_first_answer(
        &self,
        call: &RunningCall,
        question: &RemoteQuestion,
        asks_there: bool,
    ) -> Result<ApprovalReply, ApprovalFailure> {
        let answer = tokio::select! {
            biased;
            () = call.cancel.cancelled() => return Err(ApprovalFailure::Cancelled),
            () = self.phases.stopping.cancelled() => return Err(ApprovalFailure::Stopping),
            verdict = wait_for_editor_answer(call) => return Ok(ApprovalReply::InEditor(verdict)),
            answer = self.wait_for_device_answer(question, asks_there) => answer,
            answer = self.wait_for_caller_answer(asks_there, question) => Some(answer),
            () = self.wait_for_expiry(question.expires_at_ms) => self.find_late_answer(asks_there, question).await,
        };
        Ok(ApprovalReply::Answer(answer))
    }

    /// Returns the text that people read: the tool and its arguments, masked. The JSON is written anew, so that
    /// neither the caller's blanks nor its escapes hide anything. A long text keeps both ends.
    pub(in crate::runner) fn masked_title(&self, call: &AcceptedRequest) -> String {
        let request = call.tool_request();
        let args: serde_json::Value = serde_json::from_str(&request.args).unwrap_or_default();
        let whole = format!("{} {args}", request.tool);
        let (masked, _) = self.redactor.mask(&whole);
        truncate_middle(&masked)
    }

    /// Returns the same text with the reason of the question.
    fn question_text(&self, call: &AcceptedRequest, asked: Option<&ApprovalSubject>) -> String {
        let Some(why) = asked.and_then(|asked| asked.why.as_deref()) else {
            return self.masked_title(call);
        };
        let (why, _) = self.redactor.mask(why);
        truncate_middle(&format!("{} [{why}]", self.masked_title(call)))
    }

    /// Lists the question for the person at this device. A slow disk blocks nothing else meanwhile.
    fn list_on_device(&self, call: &RunningCall, question: &RemoteQuestion) -> DeviceQuestion {
        let asked_at_ms = self.clock.now_ms();
        #[expect(clippy::cast_possible_truncation, reason = "milliseconds since 1970")]
        let left_ms = (question.expires_at_ms - self.server_clock.now_ms()) as i64;
        let open = OpenQuestion {
            id: question.id.clone(),
            request_id: question.request.clone(),
            tool: call.accepted.tool_request().tool.to_string(),
            title: question.title.clone(),
            asked_at_ms,
            expires_at_ms: asked_at_ms + left_ms,
        };
        DeviceQuestion::list_question(self.memory.open.clone(), open)
    }

    /// Waits until the question expires, by the backend's clock and across sleeps of the machine.
    async fn wait_for_expiry(&self, at_ms: f64) {
        let mut woken = self.machine_wakes.subscribe_wakes();
        loop {
            let left = match self.server_clock.instant_of_deadline(at_ms) {
                Some(at) => at,
                None => Instant::now() + self.settings.calls.approval,
            };
            tokio::select! {
                () = sleep_until(left) => return,
                _ = woken.changed() => {}
            }
        }
    }

    /// Returns an answer that came in time and was not noticed yet.
    async fn find_late_answer(
        &self,
        asks_there: bool,
        question: &RemoteQuestion,
    ) -> Option<RemoteAnswer> {
        if let Some(option) = self.memory.open.chosen_option(&question.id) {
            return self
                .resolve_device_answer(question, option, asks_there)
                .await;
        }
        let permissions = self.backend.remote_approvals().filter(|_| asks_there)?;
        let look = self
            .sessions
            .with_session(|| permissions.fetch_answer(&question.id, Duration::ZERO));
        tokio::time::timeout(FIRST_ANSWER_TIMEOUT, look)
            .await
            .ok()?
            .ok()?
    }

    /// Waits for the answer of the person at this device, unless another came first; `None` if it came too late.
    async fn wait_for_device_answer(
        &self,
        question: &RemoteQuestion,
        asks_there: bool,
    ) -> Option<RemoteAnswer> {
        loop {
            if let Some(option) = self.memory.open.chosen_option(&question.id) {
                return self
                    .resolve_device_answer(question, option, asks_there)
                    .await;
            }
            sleep(DEVICE_CHECK_INTERVAL).await;
        }
    }

    /// Returns the answer that counts, after the person at this device has answered.
    async fn resolve_device_answer(
        &self,
        question: &RemoteQuestion,
        option: ApprovalOption,
        asks_there: bool,
    ) -> Option<RemoteAnswer> {
        let own = RemoteAnswer {
            option,
            by: AnsweredBy::Device,
        };
        let Some(permissions) = self.backend.remote_approvals().filter(|_| asks_there) else {
            return Some(own);
        };
        // If the backend cannot be asked, the answer at this device counts.
        match tokio::time::timeout(
            FIRST_ANSWER_TIMEOUT,
            permissions.submit_answer(&question.id, own.option),
        )
        .await
        {
            Ok(Ok(standing)) => standing,
            _ => Some(own),
        }
    }

    /// Returns whether the caller's side can be asked: not about a request that the backend does not know, and not on
    /// a wire without approvals.
    fn can_ask_caller(&self, call: &RunningCall) -> bool {
        call.accepted.request_origin() == RequestOrigin::Backend
            && self.backend.remote_approvals().is_some()
    }

    /// Waits for the answer of the caller's side.
    async fn wait_for_caller_answer(
        &self,
        asks_there: bool,
        question: &RemoteQuestion,
    ) -> RemoteAnswer {
        match self.backend.remote_approvals().filter(|_| asks_there) {
            Some(permissions) => self.poll_caller_answer(permissions, question).await,
            None => std::future::pending().await,
        }
    }

    async fn poll_caller_answer(
        &self,
        permissions: &dyn RemoteApprovals,
        question: &RemoteQuestion,
    ) -> RemoteAnswer {
        let mut retry =
            RetryIntervals::new(self.settings.waits.retry).with_retry_budget(&self.budget);
        let mut stored = false;
        let mut pause = MIN_ASK_INTERVAL;
        loop {
            let begun = Instant::now();
            let answered = if stored {
                self.sessions
                    .with_session(|| {
                        permissions.fetch_answer(&question.id, self.settings.poll.hold)
                    })
                    .await
            } else {
                self.sessions
                    .with_session(|| permissions.ask_caller(question))
                    .await
            };
            let wait = match answered {
                Ok(Some(answer)) => return answer,
                Ok(None) if !stored => {
                    stored = true;
                    continue;
                }
                // A backend that does not hold the request open is not asked all the time.
                Ok(None) => {
                    let wait = pause.saturating_sub(begun.elapsed());
                    pause = (pause * 2).min(MAX_ASK_INTERVAL);
                    wait
                }
                Err(error) => {
                    tracing::debug!(%error, "the caller's side cannot be asked now");
                    match error.recovery_action() {
                        // The request is over there, or this backend is too old: only the person at this device can
                        // answer.
                        RecoveryAction::GiveUp => std::future::pending().await,
                        RecoveryAction::Retry(pause) => retry.delay_after(pause),
                        _ => retry.delay_after(RetryDelay::BackOff),
                    }
                }
            };
            sleep(wait).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_title_both_ends_are_shown() {
        let text = format!("begin{}end", "é".repeat(MAX_TITLE_BYTES));
        let shown = truncate_middle(&text);
        assert!(
            shown.len() <= MAX_TITLE_BYTES
                && shown.starts_with("beginé")
                && shown.ends_with("éend"),
            "{shown}"
        );
        assert_eq!(truncate_middle("short"), "short");
    }
}
