//! The wait for the first answer to a question: of the person at an editor, of the person at this device, or of the
//! caller's side.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::ApprovalService;
use super::verdicts::{ApprovalFailure, ApprovalReply};
use crate::backend::{
    Backend as _, RecoveryAction, RemoteAnswer, RemoteApprovals, RemoteQuestion, RetryDelay,
};
use crate::runner::backoff::RetryIntervals;
use crate::runner::executor::running_call::RunningCall;
use punie_core::approval_answer::AnsweredBy;
use punie_home::PersonReply;
use punie_tool::ObserverDecision;

/// The interval at which the runner checks for the device's answer while a question is open.
const DEVICE_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// The least time between two requests to a backend for the answer.
const MIN_ASK_INTERVAL: Duration = Duration::from_secs(1);
/// The longest time between them, reached when the answer takes long.
const MAX_ASK_INTERVAL: Duration = Duration::from_secs(5);
/// The longest wait for the backend to say whether the device's answer is the first.
const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Waits for the answer of the person at an editor that follows the call; never completes if there is no such editor.
async fn wait_for_editor_answer(call: &RunningCall) -> ObserverDecision {
    match &call.observed {
        Some(observed) => observed.ask_follower().await,
        None => std::future::pending().await,
    }
}

impl ApprovalService {
    /// Waits for the first answer, until the question expires.
    pub(super) async fn wait_for_first_answer(
        &self,
        call: &RunningCall,
        question: &RemoteQuestion,
        asks_caller: bool,
        can_ask_here: bool,
    ) -> Result<ApprovalReply, ApprovalFailure> {
        tokio::select! {
            biased;
            () = call.cancel.cancelled() => Err(ApprovalFailure::Cancelled),
            () = self.phases.stopping.cancelled() => Err(ApprovalFailure::Stopping),
            verdict = wait_for_editor_answer(call) => Ok(ApprovalReply::InEditor(verdict)),
            reply = self.wait_for_listed_answer(question, asks_caller, can_ask_here) => Ok(reply),
        }
    }

    /// Waits for the first answer at this device or of the caller's side, until the question expires.
    pub(super) async fn wait_for_listed_answer(
        &self,
        question: &RemoteQuestion,
        asks_caller: bool,
        can_ask_here: bool,
    ) -> ApprovalReply {
        let answer = tokio::select! {
            biased;
            answer = self.wait_for_device_answer(question, asks_caller) => answer,
            reply = self.wait_for_caller_answer(asks_caller, can_ask_here, question) => return reply,
            () = self.wait_for_expiry(question.expires_at_ms) => self.find_late_answer(asks_caller, question).await,
        };
        ApprovalReply::Answer(answer)
    }

    /// Waits until the question expires, by the backend's clock and across sleeps of the machine.
    async fn wait_for_expiry(&self, at_ms: f64) {
        let mut woken = self.machine_wakes.subscribe();
        loop {
            let Some(left) = self.server_clock.instant_of_deadline(at_ms) else {
                return;
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
        asks_caller: bool,
        question: &RemoteQuestion,
    ) -> Option<RemoteAnswer> {
        if let Some(reply) = self.memory.open.given_reply(&question.id) {
            return self
                .resolve_device_answer(question, reply, asks_caller)
                .await;
        }
        let permissions = self.backend.remote_approvals().filter(|_| asks_caller)?;
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
        asks_caller: bool,
    ) -> Option<RemoteAnswer> {
        loop {
            if let Some(reply) = self.memory.open.given_reply(&question.id) {
                return self
                    .resolve_device_answer(question, reply, asks_caller)
                    .await;
            }
            sleep(DEVICE_CHECK_INTERVAL).await;
        }
    }

    /// Returns the answer that counts, after the person at this device has answered.
    async fn resolve_device_answer(
        &self,
        question: &RemoteQuestion,
        reply: PersonReply,
        asks_caller: bool,
    ) -> Option<RemoteAnswer> {
        let own = RemoteAnswer {
            option: reply.option,
            text: reply.text,
            by: AnsweredBy::Device,
        };
        let Some(permissions) = self.backend.remote_approvals().filter(|_| asks_caller) else {
            return Some(own);
        };
        let submit = || permissions.submit_answer(&question.id, own.option, own.text.as_deref());
        let mut retry = self.retry_intervals();
        let submit_until_heard = async {
            loop {
                match self.sessions.with_session(submit).await {
                    Ok(standing) => return standing,
                    Err(error) => match error.recovery_action() {
                        RecoveryAction::Retry(pause) => {
                            let wait = retry.delay_after(pause);
                            self.backend.wait_to_retry(wait).await;
                        }
                        _ => return Some(own.clone()),
                    },
                }
            }
        };
        // If the backend cannot be asked, the answer at this device counts.
        tokio::time::timeout(FIRST_ANSWER_TIMEOUT, submit_until_heard)
            .await
            .unwrap_or_else(|_| Some(own.clone()))
    }

    fn retry_intervals(&self) -> RetryIntervals {
        RetryIntervals::new(self.settings.waits.retry).with_budget(&self.budget)
    }

    /// Waits for the answer of the caller's side, or learns that nobody there can be asked and nobody is here.
    async fn wait_for_caller_answer(
        &self,
        asks_caller: bool,
        can_ask_here: bool,
        question: &RemoteQuestion,
    ) -> ApprovalReply {
        match self.backend.remote_approvals().filter(|_| asks_caller) {
            Some(permissions) => {
                self.poll_caller_answer(permissions, question, can_ask_here)
                    .await
            }
            None => std::future::pending().await,
        }
    }

    async fn poll_caller_answer(
        &self,
        permissions: &dyn RemoteApprovals,
        question: &RemoteQuestion,
        can_ask_here: bool,
    ) -> ApprovalReply {
        let mut retry = self.retry_intervals();
        let mut stored = false;
        let mut pause = MIN_ASK_INTERVAL;
        loop {
            let begun = Instant::now();
            let hold = self.settings.poll.hold;
            let answered = if stored {
                let fetch = || permissions.fetch_answer(&question.id, hold);
                self.sessions.with_session(fetch).await
            } else {
                let ask = || permissions.ask_caller(question);
                match self.sessions.with_session(ask).await {
                    Ok(asked) if asked.answer.is_none() => {
                        let is_new = !asked.is_asked_again;
                        if is_new && asked.caller_listens == Some(false) && !can_ask_here {
                            return ApprovalReply::NobodyToAsk;
                        }
                        stored = true;
                        continue;
                    }
                    // It was asked before, with a little more time.
                    Err(error) if error.refusal_code() == Some("REQUEST_ID_REUSED") => {
                        stored = true;
                        continue;
                    }
                    asked => asked.map(|asked| asked.answer),
                }
            };
            let wait = match answered {
                Ok(Some(answer)) => return ApprovalReply::Answer(Some(answer)),
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
                        RecoveryAction::GiveUp if can_ask_here => std::future::pending().await,
                        RecoveryAction::GiveUp => return ApprovalReply::NobodyToAsk,
                        RecoveryAction::Retry(pause) => retry.delay_after(pause),
                        _ => retry.delay_after(RetryDelay::BackOff),
                    }
                }
            };
            sleep(wait).await;
        }
    }
}
