//! One call from its lane to its recorded reply: prepare, claim, start, run, seal, record, post.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::approvals::{ApprovalDesk, Stopped};
use super::claims::{Claimed, Claims};
use super::intent_log::IntentLog;
use super::outcome::{Cut, never_ran, not_begun_in_time, outcome, panicked, refused};
use super::progress_report::ProgressReports;
use crate::failpoint::reach_of;
use crate::journal::{Accepted, Close, Journal, Origin, RecordedReply};
use crate::request::{Effect, ErrorCode, Failure, Meta, Outcome};
use crate::runner::background::Background;
use crate::runner::call_audit::{CallAudit, Clearance};
use crate::runner::clock::ServerClock;
use crate::runner::delivery::Delivery;
use crate::runner::pause::CallPause;
use crate::runner::presence::Presence;
use crate::runner::request_signatures::RequestSignatures;
use crate::runner::sealer::Sealer;
use crate::runner::settings::Settings;
use crate::runner::tool_threads::ToolThreads;
use crate::runner::wake_signal::WakeSignal;
use crate::tool::{
    Asked, Gate, ObservedCall, Observer, Permission, Progress, ReadyCall, Registry, ToolCx, ToolError,
    Unrecorded,
};

/// The time in which a call that was told to stop may do so, before it is abandoned. Killing a stubborn process tree
/// takes ten seconds.
const LAST_WORDS: Duration = Duration::from_secs(15);

/// The observer of a call, if there is one.
pub(in crate::runner) type Observed = Option<Arc<dyn ObservedCall>>;

/// Runs calls, each from its lane to its recorded reply.
pub(in crate::runner) struct CallRunner {
    pub journal: Journal,
    pub audit: CallAudit,
    pub registry: Arc<Registry>,
    pub gate: Arc<dyn Gate>,
    pub observer: Arc<dyn Observer>,
    pub sealer: Sealer,
    pub threads: ToolThreads,
    pub settings: Settings,
    pub server_clock: ServerClock,
    pub signatures: Arc<RequestSignatures>,
    pub claims: Arc<Claims>,
    pub approvals: ApprovalDesk,
    pub progress: Arc<ProgressReports>,
    pub pause: Arc<CallPause>,
    pub presence: Arc<Presence>,
    pub delivery: Arc<Delivery>,
    pub machine_wakes: WakeSignal,
    pub background: Background,
}

/// A call on its way to its reply.
pub(in crate::runner) struct Call {
    pub accepted: Accepted,
    /// Cancelled when the caller cancels the request.
    pub cancel: CancellationToken,
    /// The call's observer, set when work on the call begins.
    pub observed: Observed,
}

/// A call that may begin.
struct Prepared {
    ready: ReadyCall,
    /// The reason why the call is allowed, for the audit.
    cleared: Clearance,
    /// The subject that a person was asked about; the call must still match it when it begins.
    asked: Option<Asked>,
}

/// The result of working on a call.
pub(in crate::runner) enum Work {
    /// An outcome, of this execution (`None` if nothing was started).
    Outcome(Box<Outcome>, Option<u32>),
    /// No outcome: the call stays in the journal for the next process.
    Left,
}

impl Work {
    pub(in crate::runner) fn answer(outcome: Outcome) -> Self {
        Self::Outcome(Box::new(outcome), None)
    }
}

impl CallRunner {
    /// Answers a call: records exactly one reply, or closes the request, or leaves it with a reason.
    pub(in crate::runner) async fn answer(self: &Arc<Self>, mut call: Call) {
        let begun = Instant::now();
        call.observed = self.observe(&call.accepted);
        let (claimed, result) = self.work(&call).await;
        let id = &call.accepted.request().id;
        let lease_lost = self.claims.held.release(id);
        let (outcome, attempt) = match (claimed, result) {
            (Claimed::NotOurs(reason), _) => {
                tracing::info!(request.id = %id, reason, "the request is not ours to answer");
                self.audit.record_undeliverable(id, None, &reason);
                return self.close(&call.accepted, Close::Undeliverable(reason)).await;
            }
            (Claimed::Answered, _) => {
                tracing::info!(request.id = %id, "the request has a result already");
                return self.close(&call.accepted, Close::Delivered).await;
            }
            (_, Work::Left) => return,
            (_, Work::Outcome(outcome, attempt)) => (*outcome, attempt),
        };
        let outcome = self.with_circumstances(outcome, &call, lease_lost);
        let recorded = self.record(&call.accepted, outcome, attempt, begun.elapsed(), &call.observed).await;
        if let Some(recorded) = recorded {
            self.hand_over(&call.accepted, recorded).await;
        }
    }

    /// Adds to an outcome the circumstances that the caller should know.
    fn with_circumstances(&self, mut outcome: Outcome, call: &Call, lease_lost: bool) -> Outcome {
        let meta = match &mut outcome {
            Outcome::Ok(reply) => &mut reply.meta,
            Outcome::Error(failure) | Outcome::Cancelled(failure) => &mut failure.meta,
        };
        meta.lease_lost = lease_lost;
        let in_editor = call.observed.as_ref().is_some_and(|observed| observed.ran_in_editor());
        if call.accepted.effect() == Effect::Executes && !in_editor {
            meta.confinement.get_or_insert_with(|| self.audit.confinement.in_words());
        }
        outcome
    }

    /// Answers a call whose task panicked; the effects that it already had stay.
    pub(in crate::runner) async fn answer_for_the_fallen(self: &Arc<Self>, call: &Accepted) {
        tracing::error!(request.id = %call.request().id, "answering a call failed inside the runner");
        self.claims.held.release(&call.request().id);
        let outcome = Outcome::Error(panicked().into());
        if let Some(recorded) = self.record(call, outcome, None, Duration::ZERO, &None).await {
            self.hand_over(call, recorded).await;
        }
    }

    /// Posts the reply of a backend request; a task's reply stays here to be read.
    async fn hand_over(self: &Arc<Self>, call: &Accepted, recorded: RecordedReply) {
        if call.origin() == Origin::Backend {
            self.delivery.deliver(recorded).await;
        }
    }

    async fn work(self: &Arc<Self>, call: &Call) -> (Claimed, Work) {
        let Prepared { ready, cleared, asked } = match self.prepare(call).await {
            Ok(prepared) => prepared,
            Err(Work::Left) => return (Claimed::GivenUp, Work::Left),
            Err(refused) => return (self.claims.claim_once(&call.accepted, &call.cancel).await, refused),
        };
        if !call.accepted.effect().at_most_once() {
            return tokio::join!(
                self.claims.claim_once(&call.accepted, &call.cancel),
                self.run(call, ready, &cleared, asked)
            );
        }
        let claimed = self.claims.claim(&call.accepted, &call.cancel).await;
        match claimed {
            Claimed::GivenUp if !call.cancel.is_cancelled() => (claimed, Work::Left),
            Claimed::Ours | Claimed::GivenUp => {
                // The claim may have taken long, and its answer may have reported that the caller cancelled the call.
                let work = match self.unwanted(call) {
                    None => self.run(call, ready, &cleared, asked).await,
                    Some(outcome) => Work::answer(outcome),
                };
                (claimed, work)
            }
            Claimed::InDoubt => (claimed, Work::answer(self.sealer.interrupted(&call.accepted))),
            other => (other, Work::Left),
        }
    }

    /// Returns the outcome of a call that was cancelled, is late, or was stopped by a person before it began.
    pub(in crate::runner) fn unwanted(&self, call: &Call) -> Option<Outcome> {
        if call.cancel.is_cancelled() {
            return Some(never_ran());
        }
        self.lateness(&call.accepted)
            .or_else(|| self.approvals.stopped.refuse_if_stopped(&call.accepted))
            .map(Outcome::Error)
    }

    /// Makes all checks that can refuse a call before it has an effect.
    async fn prepare(self: &Arc<Self>, call: &Call) -> Result<Prepared, Work> {
        self.presence.learn_server_time().await;
        if let Some(outcome) = self.unwanted(call) {
            return Err(Work::answer(outcome));
        }
        // The paths that the gate checks may hang, as they may for the tool.
        let limit = self.context(call).time_left(self.settings.calls.longest_call);
        let decoded = tokio::select! {
            decoded = self.decode(call) => decoded,
            () = call.cancel.cancelled() => return Err(Work::answer(never_ran())),
            () = self.time_is_up(call, limit) => return Err(Work::answer(not_begun_in_time(limit))),
            () = self.background.phases.calls_over.cancelled() => return Err(Work::Left),
        };
        let (ready, permission) = decoded.map_err(|error| Work::answer(refused(error)))?;
        let mut cleared = Clearance::freely();
        let wants_a_say = call.observed.as_ref().is_some_and(|observed| observed.wants_a_say());
        let asked = match permission {
            Permission::Given => None,
            Permission::Ask(asked) => Some(asked),
        };
        if asked.is_some() || wants_a_say {
            cleared =
                self.approvals.approve(call, asked.as_ref()).await.map_err(|stopped| match stopped {
                    Stopped::Refused(failure) => Work::answer(Outcome::Error(*failure)),
                    Stopped::TakenBack => Work::answer(never_ran()),
                    Stopped::Stopping => Work::Left,
                })?;
            // The answer may have taken long, and the owner may have paused calls meanwhile.
            tokio::select! {
                () = self.pause.released() => {}
                () = call.cancel.cancelled() => {}
                () = self.background.phases.stopping.cancelled() => return Err(Work::Left),
            }
            if let Some(outcome) = self.unwanted(call) {
                return Err(Work::answer(outcome));
            }
        }
        Ok(Prepared { ready, cleared, asked })
    }

    /// Decodes the call for its tool, and asks the gate for permission.
    async fn decode(&self, call: &Call) -> Result<(ReadyCall, Permission), ToolError> {
        let request = call.accepted.request();
        let entry = self.registry.find(request.tool.as_str())?;
        let ready = entry.decode(&request.args)?;
        if ready.effect().at_most_once() && !call.accepted.effect().at_most_once() {
            // Another version of the runner accepted the call as a read, so nothing would prevent that it runs twice.
            return Err(ToolError::internal(
                "The call was taken for one that changes nothing and would change something. It was not run; ask anew.",
            ));
        }
        let permission =
            self.gate.permit(&self.context(call), entry.spec(), ready.decoded(&request.args)).await?;
        Ok((ready, permission))
    }

    fn lateness(&self, call: &Accepted) -> Option<Failure> {
        if call.origin() == Origin::Task {
            return None;
        }
        let request = call.request();
        let now = self.server_clock.now_ms().max(self.signatures.least_now_ms());
        let age = now - request.created_at_ms;
        let ttl = self.settings.calls.ttl.as_secs_f64() * 1_000.0;
        let why = match request.deadline_ms {
            Some(deadline) if deadline <= now => {
                format!("its deadline passed {} ago", seconds(now - deadline))
            }
            None if request.created_at_ms > 0.0 && age > ttl => {
                format!("it is {} old and this device runs nothing older than {}", seconds(age), seconds(ttl))
            }
            _ => return None,
        };
        let text = format!("The request was not run: {why}. Ask again if it is still wanted.");
        Some(Failure { code: ErrorCode::Expired, text, meta: Meta::default() })
    }

    pub(in crate::runner) fn context(&self, call: &Call) -> ToolCx {
        let request = call.accepted.request();
        ToolCx {
            request: request.id.clone(),
            conversation: request.conversation.clone(),
            agent_type: request.agent_type.clone(),
            cancel: call.cancel.child_token(),
            winding_up: self.background.phases.ending.clone(),
            deadline: request.deadline_ms.and_then(|deadline| self.server_clock.instant(deadline)),
            intents: Arc::new(Unrecorded),
            keeping: None,
            progress: Progress::default(),
            uncut: crate::request::uncut(&self.sealer.redactor),
        }
    }

    /// Runs a prepared call after its start is recorded, under its deadline and a panic guard.
    async fn run(
        self: &Arc<Self>,
        call: &Call,
        ready: ReadyCall,
        cleared: &Clearance,
        asked: Option<Asked>,
    ) -> Work {
        let declares = ready.declares();
        let attempt = match self.start(call, declares).await {
            Ok(attempt) => attempt,
            Err(not_started) => return not_started,
        };
        if let Some(changed) = self.changed(call, asked).await {
            return Work::Outcome(Box::new(changed), Some(attempt));
        }
        self.audit.record_begun(&call.accepted, cleared, attempt).await;
        reach_of("start.after", call.accepted.request().id.as_str());
        let mut cx = self.context(call);
        // Ends with this call, so that no progress is reported after its result.
        let (progress, _telling) = self.progress.begin(&call.accepted);
        let (progress, following) = self.follow(call, progress);
        cx.progress = progress;
        if let Some(observed) = &call.observed {
            observed.started();
        }
        if declares {
            cx.intents = Arc::new(IntentLog(self.journal.clone()));
        }
        let stop = cx.cancel.clone();
        let limit = cx.time_left(self.settings.calls.longest_call);
        let mut running = self.threads.spawn(self.background.tracker(), ready.run(cx));
        let ended = tokio::select! {
            joined = running.ended() => Ok(joined),
            () = call.cancel.cancelled() => Err(Cut::Cancelled),
            () = call.stopped_by_follower() => Err(Cut::Followed),
            () = self.time_is_up(call, limit) => Err(Cut::Deadline(limit)),
            () = self.background.phases.ending.cancelled() => Err(Cut::Stopped),
        };
        let (cut, joined) = match ended {
            Ok(joined) => (None, Some(joined)),
            Err(cut) => {
                stop.cancel();
                tokio::select! {
                    last = tokio::time::timeout(LAST_WORDS, running.ended()) => (Some(cut), last.ok()),
                    () = self.background.phases.calls_over.cancelled() => (Some(cut), None),
                }
            }
        };
        running.abandon();
        if self.background.phases.calls_over.is_cancelled() {
            // A tool's result during the shutdown is not reliable: its terminal may be gone.
            return Work::Left;
        }
        if let Some(following) = following {
            following.end().await;
        }
        let answer = joined.map(|joined| joined.ok().flatten().unwrap_or_else(|| Err(panicked())));
        let unanswered = !matches!(answer, Some(Ok(_)));
        if cut == Some(Cut::Stopped) && unanswered && !call.accepted.effect().at_most_once() {
            // A read that the shutdown cut off is run again by the next process.
            return Work::Left;
        }
        Work::Outcome(Box::new(outcome(cut, answer)), Some(attempt))
    }

    /// Returns the refusal of a call that no longer matches the person's approval.
    async fn changed(&self, call: &Call, asked: Option<Asked>) -> Option<Outcome> {
        let (asked, request) = (asked?, call.accepted.request());
        let entry = self.registry.find(request.tool.as_str()).ok()?;
        let access = match entry.decode(&request.args) {
            Ok(ready) => ready.access().clone(),
            Err(error) => return Some(refused(error)),
        };
        self.gate.still(entry.spec(), &access, &asked).await.err().map(refused)
    }
}

fn seconds(ms: f64) -> String {
    format!("{:.0} s", ms / 1_000.0)
}
