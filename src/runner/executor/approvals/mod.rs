//! Calls that wait for approval. The caller's side is asked through the backend; the person at this device through
//! the home and through an editor that follows the call. The first answer counts, and no answer in time is a refusal.
//! Answers for always are remembered for the conversation and the tool while this process runs. Not here: which calls
//! need approval (the gate).

mod memory;
mod open_question;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::call_runner::Call;
use super::stopped_conversations::StoppedConversations;
use crate::approval_answer::{AnsweredBy, ApprovalOption};
use crate::backend::{Answer, Backend as _, Disposition, Pause, Permissions, Question};
use crate::home::OpenQuestion;
use crate::ids::{RequestId, ToolName};
use crate::journal::{Accepted, Origin};
use crate::redact::Redactor;
use crate::request::{ErrorCode, Failure, Meta};
use crate::runner::backend_client::BackendClient;
use crate::runner::background::ShutdownPhases;
use crate::runner::backoff::{Budget, Retry};
use crate::runner::call_audit::{ASKED, Clearance};
use crate::runner::clock::{Clock, ServerClock};
use crate::runner::session::SessionKeeper;
use crate::runner::settings::Settings;
use crate::runner::wake::Waker;
use crate::runner::wake_signal::WakeSignal;
use crate::tool::{Asked, Verdict};
pub(in crate::runner) use memory::ApprovalMemory;
use open_question::{Aside, OpenHere};

/// The interval at which the runner checks for the device's answer while a question is open.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The least time between two requests to a backend for the answer.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// The longest time between them, reached when the answer takes long.
const ASK_SELDOM: Duration = Duration::from_secs(5);
/// The longest wait for the backend to say whether the device's answer is the first.
const SETTLE: Duration = Duration::from_secs(5);
/// The most bytes of a title on the wire.
const TITLE: usize = 4_000;

/// The topic of a remembered answer if only the person at this device was asked.
const ASKED_HERE: &str = "editor.ask";

/// The result of a question.
enum ApprovalReply {
    /// The answer of the person at the editor.
    InEditor(Verdict),
    /// The answer of another party, or `None` if there was none.
    Answer(Option<Answer>),
}

/// The reason why a call does not go on.
pub(in crate::runner) enum Stopped {
    /// It was refused.
    Refused(Box<Failure>),
    /// The caller cancelled it.
    TakenBack,
    /// The runner stops: the next process asks again.
    Stopping,
}

/// Turns an answer into the permission or the refusal of a call of this tool.
fn apply_answer(answer: Answer, tool: &ToolName, asked: Option<&Asked>) -> Result<Clearance, Stopped> {
    if answer.option.is_allowed() {
        return Ok(Clearance::by(answer.by.as_str(), rule_of(asked)));
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
    let text = format!("{tool} was not run: {}, and {who} refused it, {then}", because(asked));
    Err(denied(text, asked))
}

/// Returns the reason of the question, as a part of a sentence.
fn because(asked: Option<&Asked>) -> &str {
    let why = asked.and_then(|asked| asked.why.as_deref());
    why.unwrap_or("its owner wants to be asked about such calls")
}

/// Waits for the answer of the person at an editor that follows the call; never completes if there is no such editor.
async fn answered_in_editor(call: &Call) -> Verdict {
    match &call.observed {
        Some(observed) => observed.ask().await,
        None => std::future::pending().await,
    }
}

fn judged(verdict: &Verdict, tool: &ToolName) -> Result<Clearance, Stopped> {
    let refused = || denied(format!("{tool} was not run: {}. {}", verdict.by, verdict.then), None);
    verdict.allowed.then(|| Clearance::by("editor", "editor.ask")).ok_or_else(refused)
}

/// Truncates a text in the middle.
fn shortened(text: &str) -> String {
    if text.len() <= TITLE {
        return text.to_owned();
    }
    let half = TITLE / 2 - 40;
    let (head, tail) = (text.floor_char_boundary(half), text.ceil_char_boundary(text.len() - half));
    format!("{} …({} bytes left out)… {}", &text[..head], tail - head, &text[tail..])
}

/// Returns the owner's rule by which a person is asked.
fn rule_of(asked: Option<&Asked>) -> &str {
    asked.and_then(|asked| asked.rule.as_deref()).unwrap_or(ASKED)
}

fn denied(text: String, asked: Option<&Asked>) -> Stopped {
    let meta = Meta { rule: Some(rule_of(asked).to_owned()), ..Meta::default() };
    Stopped::Refused(Box::new(Failure { code: ErrorCode::PolicyDenied, text, meta }))
}

/// Asks people about calls, and stores their answers.
pub(in crate::runner) struct ApprovalDesk {
    pub memory: ApprovalMemory,
    pub stopped: StoppedConversations,
    pub backend: Arc<BackendClient>,
    pub sessions: Arc<SessionKeeper>,
    pub redactor: Redactor,
    pub settings: Settings,
    pub clock: Clock,
    pub server_clock: ServerClock,
    pub budget: Arc<Budget>,
    pub waker: Waker,
    pub machine_wakes: WakeSignal,
    pub phases: ShutdownPhases,
}

impl ApprovalDesk {
    /// Waits until a person allows a call. A call that only the editor's person is asked about is not shown to the
    /// caller's side.
    pub(in crate::runner) async fn approve(
        &self,
        call: &Call,
        asked: Option<&Asked>,
    ) -> Result<Clearance, Stopped> {
        let request = call.accepted.request();
        let publicly = asked.is_some();
        let of_rule = asked.is_some_and(|asked| asked.topic.is_some());
        // An answer of the caller's side does not answer a question to the person at this device only.
        let topic =
            if publicly { asked.and_then(|asked| asked.topic.clone()) } else { Some(ASKED_HERE.to_owned()) };
        let place = (request.conversation.clone(), request.tool.clone(), topic);
        let of_task = publicly && call.accepted.origin() == Origin::Task;
        if of_task && !of_rule && self.memory.allowed.made_task(&request.id) {
            // The person who allowed the task saw all of it, but no rule about the content of its command.
            return Ok(Clearance::by("task", rule_of(asked)));
        }
        let refused = || {
            let of_tool = (request.conversation.clone(), request.tool.clone(), None);
            self.memory.recall(&of_tool).filter(|answer| !publicly && !answer.option.is_allowed())
        };
        if let Some(answer) = self.memory.recall(&place).or_else(refused) {
            return apply_answer(answer, &request.tool, asked);
        }
        // An answer to an editor about a tool is not an answer about a rule.
        let known = call.observed.as_ref().and_then(|observed| observed.known());
        if let Some(verdict) = known.filter(|verdict| !of_rule || !verdict.allowed) {
            return judged(&verdict, &request.tool);
        }
        let now = self.server_clock.now_ms();
        let patience = self.settings.calls.approval.as_secs_f64() * 1_000.0;
        let expires_at_ms =
            request.deadline_ms.map_or(now + patience, |deadline| deadline.min(now + patience));
        let question = Question {
            id: RequestId::new(),
            request: request.id.clone(),
            title: self.question(&call.accepted, asked),
            expires_at_ms,
        };
        let asks_there = publicly && self.asks_there(call);
        let open = self.put_to_the_person_here(call, &question);
        let _aside = Aside::step(&self.waker, &call.accepted);
        tracing::info!(request.id = %request.id, tool.name = %request.tool, "a call waits for somebody's word");
        let answer = self.hear(call, &question, asks_there).await;
        if self.memory.is_allowed_here(&question.id) {
            self.stopped.resume(&request.conversation);
        }
        open.close().await;
        let answer = match answer? {
            ApprovalReply::InEditor(verdict) => {
                if verdict.allowed {
                    self.stopped.resume(&request.conversation);
                }
                let judged = judged(&verdict, &request.tool);
                if publicly && judged.is_ok() {
                    self.memory.allowed.record(&request.id);
                }
                return judged;
            }
            ApprovalReply::Answer(answer) => answer,
        };
        let Some(answer) = answer else {
            let seconds = (expires_at_ms - now).max(0.0) / 1_000.0;
            let also = if asks_there { ", or the caller's own side" } else { "" };
            let editor = if call.observed.is_some() { "the editor, " } else { "" };
            let text = format!(
                "{} was not run: {}, and nobody answered within {seconds:.0} s. Ask again when somebody is there: {editor}`punie-runner approvals` at the device{also}.",
                request.tool,
                because(asked)
            );
            return Err(denied(text, asked));
        };
        if answer.option.is_always() {
            self.memory.remember(place, answer);
        }
        let judged = apply_answer(answer, &request.tool, asked);
        if judged.is_ok() {
            self.memory.allowed.record(&request.id);
        }
        judged
    }

    /// Waits for the first answer, until the question expires.
    async fn hear(
        &self,
        call: &Call,
        question: &Question,
        asks_there: bool,
    ) -> Result<ApprovalReply, Stopped> {
        let answer = tokio::select! {
            biased;
            () = call.cancel.cancelled() => return Err(Stopped::TakenBack),
            () = self.phases.stopping.cancelled() => return Err(Stopped::Stopping),
            verdict = answered_in_editor(call) => return Ok(ApprovalReply::InEditor(verdict)),
            answer = self.answered_here(question, asks_there) => answer,
            answer = self.answered_there(asks_there, question) => Some(answer),
            () = self.expiry(question.expires_at_ms) => self.last_look(asks_there, question).await,
        };
        Ok(ApprovalReply::Answer(answer))
    }

    /// Returns the text that people read: the tool and its arguments, masked. The JSON is written anew, so that
    /// neither the caller's blanks nor its escapes hide anything. A long text keeps both ends.
    pub(in crate::runner) fn title(&self, call: &Accepted) -> String {
        let request = call.request();
        let args: serde_json::Value = serde_json::from_str(&request.args).unwrap_or_default();
        let whole = format!("{} {args}", request.tool);
        let (masked, _) = self.redactor.scrub(&whole);
        shortened(&masked)
    }

    /// Returns the same text with the reason of the question.
    fn question(&self, call: &Accepted, asked: Option<&Asked>) -> String {
        let Some(why) = asked.and_then(|asked| asked.why.as_deref()) else { return self.title(call) };
        let (why, _) = self.redactor.scrub(why);
        shortened(&format!("{} [{why}]", self.title(call)))
    }

    /// Lists the question for the person at this device. A slow disk blocks nothing else meanwhile.
    fn put_to_the_person_here(&self, call: &Call, question: &Question) -> OpenHere {
        let asked_at_ms = self.clock.now_ms();
        #[expect(clippy::cast_possible_truncation, reason = "milliseconds since 1970")]
        let left_ms = (question.expires_at_ms - self.server_clock.now_ms()) as i64;
        let open = OpenQuestion {
            id: question.id.clone(),
            request_id: question.request.clone(),
            tool: call.accepted.request().tool.to_string(),
            title: question.title.clone(),
            asked_at_ms,
            expires_at_ms: asked_at_ms + left_ms,
        };
        OpenHere::list(self.memory.open.clone(), open)
    }

    /// Waits until the question expires, by the backend's clock and across sleeps of the machine.
    async fn expiry(&self, at_ms: f64) {
        let mut woken = self.machine_wakes.subscribe();
        loop {
            let left = match self.server_clock.instant(at_ms) {
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
    async fn last_look(&self, asks_there: bool, question: &Question) -> Option<Answer> {
        if let Some(option) = self.memory.open.answered(&question.id) {
            return self.settled(question, option, asks_there).await;
        }
        let permissions = self.backend.permissions().filter(|_| asks_there)?;
        let look = self.sessions.with_session(|| permissions.answer_to(&question.id, Duration::ZERO));
        tokio::time::timeout(SETTLE, look).await.ok()?.ok()?
    }

    /// Waits for the answer of the person at this device, unless another came first; `None` if it came too late.
    async fn answered_here(&self, question: &Question, asks_there: bool) -> Option<Answer> {
        loop {
            if let Some(option) = self.memory.open.answered(&question.id) {
                return self.settled(question, option, asks_there).await;
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Returns the answer that counts, after the person at this device has answered.
    async fn settled(&self, question: &Question, option: ApprovalOption, asks_there: bool) -> Option<Answer> {
        let own = Answer { option, by: AnsweredBy::Device };
        let Some(permissions) = self.backend.permissions().filter(|_| asks_there) else { return Some(own) };
        // If the backend cannot be asked, the answer at this device counts.
        match tokio::time::timeout(SETTLE, permissions.answer(&question.id, own.option)).await {
            Ok(Ok(standing)) => standing,
            _ => Some(own),
        }
    }

    /// Returns whether the caller's side can be asked: not about a request that the backend does not know, and not on
    /// a wire without approvals.
    fn asks_there(&self, call: &Call) -> bool {
        call.accepted.origin() == Origin::Backend && self.backend.permissions().is_some()
    }

    /// Waits for the answer of the caller's side.
    async fn answered_there(&self, asks_there: bool, question: &Question) -> Answer {
        match self.backend.permissions().filter(|_| asks_there) {
            Some(permissions) => self.asked_there(permissions, question).await,
            None => std::future::pending().await,
        }
    }

    async fn asked_there(&self, permissions: &dyn Permissions, question: &Question) -> Answer {
        let mut retry = Retry::new(self.settings.waits.retry).within(&self.budget);
        let mut stored = false;
        let mut pause = ASK_EVERY;
        loop {
            let begun = Instant::now();
            let answered = if stored {
                self.sessions
                    .with_session(|| permissions.answer_to(&question.id, self.settings.poll.hold))
                    .await
            } else {
                self.sessions.with_session(|| permissions.ask(question)).await
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
                    pause = (pause * 2).min(ASK_SELDOM);
                    wait
                }
                Err(error) => {
                    tracing::debug!(%error, "the caller's side cannot be asked now");
                    match error.disposition() {
                        // The request is over there, or this backend is too old: only the person at this device can
                        // answer.
                        Disposition::Never => std::future::pending().await,
                        Disposition::Retry(pause) => retry.after(pause),
                        _ => retry.after(Pause::BackOff),
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
        let text = format!("begin{}end", "é".repeat(TITLE));
        let shown = shortened(&text);
        assert!(shown.len() <= TITLE && shown.starts_with("beginé") && shown.ends_with("éend"), "{shown}");
        assert_eq!(shortened("short"), "short");
    }
}
