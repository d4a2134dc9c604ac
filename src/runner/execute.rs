//! One call from its lane to its recorded reply: prepare, claim, start, run, seal, record, post.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::approvals::Stopped;
use super::auditing::{Cleared, Facts};
use super::backoff::Retry;
use super::declaring::InJournal;
use super::endings::{Cut, never_ran, not_begun_in_time, outcome, panicked, refused};
use super::engine::Engine;
use super::leases::Claimed;
use super::observing::Observed;
use crate::failpoint::reach_of;
use crate::journal::{Accepted, Close, JournalError, Origin, RecordedReply};
use crate::request::{Effect, ErrorCode, Failure, Meta, Outcome};
use crate::tool::{Asked, Permission, Progress, ReadyCall, ToolCx, ToolError, Unrecorded};

/// How long a call that was told to stop may take to do so before it is abandoned. Ending a stubborn process tree
/// takes ten seconds.
const LAST_WORDS: Duration = Duration::from_secs(15);

/// A call on its way.
pub(super) struct Call {
    pub accepted: Accepted,
    /// Cancelled when the caller takes the request back.
    pub cancel: CancellationToken,
    /// Who follows it, once it is begun with.
    pub observed: Observed,
}

/// A call that may begin.
struct Prepared {
    ready: ReadyCall,
    /// Who allowed it, for the audit.
    cleared: Cleared,
    /// What a person was asked about; the call is still to be that when it begins.
    asked: Option<Asked>,
}

/// What a call came to.
pub(super) enum Work {
    /// This, in this execution (none where nothing was started).
    Outcome(Box<Outcome>, Option<u32>),
    /// Nothing: it stays where the journal has it, for the next life of the runner.
    Left,
}

impl Work {
    pub(super) fn answer(outcome: Outcome) -> Self {
        Self::Outcome(Box::new(outcome), None)
    }
}

impl Engine {
    /// Answers a call: exactly one reply is recorded, or the request is closed or left with its reason.
    pub(super) async fn answer(self: &Arc<Self>, mut call: Call) {
        let begun = Instant::now();
        self.begun.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        call.observed = self.observe(&call.accepted);
        let (claimed, result) = self.work(&call).await;
        let id = &call.accepted.request().id;
        let lease_lost = self.leases.release(id);
        let (outcome, attempt) = match (claimed, result) {
            (Claimed::NotOurs(reason), _) => {
                tracing::info!(request.id = %id, reason, "the request is not ours to answer");
                self.audit_undeliverable(id, None, &reason);
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

    /// What the caller should know of how a call ran.
    fn with_circumstances(&self, mut outcome: Outcome, call: &Call, lease_lost: bool) -> Outcome {
        let meta = match &mut outcome {
            Outcome::Ok(reply) => &mut reply.meta,
            Outcome::Error(failure) | Outcome::Cancelled(failure) => &mut failure.meta,
        };
        meta.lease_lost = lease_lost;
        let in_editor = call.observed.as_ref().is_some_and(|observed| observed.ran_in_editor());
        if call.accepted.effect() == Effect::Executes && !in_editor {
            meta.confinement.get_or_insert_with(|| self.confinement.in_words());
        }
        outcome
    }

    /// Answers a call whose answering failed inside; what it had done so far stands.
    pub(super) async fn answer_for_the_fallen(self: &Arc<Self>, call: &Accepted) {
        tracing::error!(request.id = %call.request().id, "answering a call failed inside the runner");
        self.leases.release(&call.request().id);
        let outcome = Outcome::Error(panicked().into());
        if let Some(recorded) = self.record(call, outcome, None, Duration::ZERO, &None).await {
            self.hand_over(call, recorded).await;
        }
    }

    /// Posts the reply of the backend's requests; a task's reply stays here to be read.
    async fn hand_over(self: &Arc<Self>, call: &Accepted, recorded: RecordedReply) {
        if call.origin() == Origin::Backend {
            self.deliver(recorded).await;
        }
    }

    async fn work(self: &Arc<Self>, call: &Call) -> (Claimed, Work) {
        let Prepared { ready, cleared, asked } = match self.prepare(call).await {
            Ok(prepared) => prepared,
            Err(Work::Left) => return (Claimed::GivenUp, Work::Left),
            Err(refused) => return (self.claim_once(&call.accepted, &call.cancel).await, refused),
        };
        if !call.accepted.effect().at_most_once() {
            return tokio::join!(
                self.claim_once(&call.accepted, &call.cancel),
                self.run(call, ready, &cleared, asked)
            );
        }
        let claimed = self.claim(&call.accepted, &call.cancel).await;
        match claimed {
            Claimed::GivenUp if !call.cancel.is_cancelled() => (claimed, Work::Left),
            Claimed::Ours | Claimed::GivenUp => {
                // The claim may have taken long, and its answer may have said that the caller took the call back.
                let work = match self.unwanted(call) {
                    None => self.run(call, ready, &cleared, asked).await,
                    Some(outcome) => Work::answer(outcome),
                };
                (claimed, work)
            }
            Claimed::InDoubt => (claimed, Work::answer(self.interrupted(&call.accepted))),
            other => (other, Work::Left),
        }
    }

    /// What a call comes to that was taken back, is late, or was stopped by a person, before it began.
    pub(super) fn unwanted(&self, call: &Call) -> Option<Outcome> {
        if call.cancel.is_cancelled() {
            return Some(never_ran());
        }
        self.lateness(&call.accepted).or_else(|| self.refuse_if_stopped(&call.accepted)).map(Outcome::Error)
    }

    /// Everything that can refuse a call before anything is done about it.
    async fn prepare(self: &Arc<Self>, call: &Call) -> Result<Prepared, Work> {
        self.know_the_time().await;
        if let Some(outcome) = self.unwanted(call) {
            return Err(Work::answer(outcome));
        }
        // What the gate looks at may hang as what the tool does.
        let limit = self.context(call).time_left(self.settings.longest_call);
        let decoded = tokio::select! {
            decoded = self.decode(call) => decoded,
            () = call.cancel.cancelled() => return Err(Work::answer(never_ran())),
            () = self.time_is_up(call, limit) => return Err(Work::answer(not_begun_in_time(limit))),
            () = self.calls_over.cancelled() => return Err(Work::Left),
        };
        let (ready, permission) = decoded.map_err(|error| Work::answer(refused(error)))?;
        let mut cleared = Cleared::freely();
        let wants_a_say = call.observed.as_ref().is_some_and(|observed| observed.wants_a_say());
        let asked = match permission {
            Permission::Given => None,
            Permission::Ask(asked) => Some(asked),
        };
        if asked.is_some() || wants_a_say {
            cleared = self.approve(call, asked.as_ref()).await.map_err(|stopped| match stopped {
                Stopped::Refused(failure) => Work::answer(Outcome::Error(*failure)),
                Stopped::TakenBack => Work::answer(never_ran()),
                Stopped::Stopping => Work::Left,
            })?;
            // Somebody may have taken their time, and the owner may want nothing to begin meanwhile.
            tokio::select! {
                () = self.hold.released() => {}
                () = call.cancel.cancelled() => {}
                () = self.stopping.cancelled() => return Err(Work::Left),
            }
            if let Some(outcome) = self.unwanted(call) {
                return Err(Work::answer(outcome));
            }
        }
        Ok(Prepared { ready, cleared, asked })
    }

    /// The call as its tool takes it, and what the gate says to it.
    async fn decode(&self, call: &Call) -> Result<(ReadyCall, Permission), ToolError> {
        let request = call.accepted.request();
        let entry = self.registry.find(request.tool.as_str())?;
        let ready = entry.decode(&request.args)?;
        if ready.effect().at_most_once() && !call.accepted.effect().at_most_once() {
            // Promised by another version of the runner, which took the call for a read: nothing would keep it from
            // running twice.
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
        let now = self.server_clock.now_ms().max(self.least_now_ms());
        let age = now - request.created_at_ms;
        let ttl = self.settings.ttl.as_secs_f64() * 1_000.0;
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

    pub(super) fn context(&self, call: &Call) -> ToolCx {
        let request = call.accepted.request();
        ToolCx {
            request: request.id.clone(),
            conversation: request.conversation.clone(),
            agent_type: request.agent_type.clone(),
            cancel: call.cancel.child_token(),
            winding_up: self.ending.clone(),
            deadline: request.deadline_ms.and_then(|deadline| self.server_clock.instant(deadline)),
            intents: Arc::new(Unrecorded),
            keeping: None,
            progress: Progress::default(),
            uncut: crate::request::uncut(&self.redactor),
        }
    }

    /// Runs a prepared call whose start is recorded, under its deadline and a panic guard.
    async fn run(
        self: &Arc<Self>,
        call: &Call,
        ready: ReadyCall,
        cleared: &Cleared,
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
        self.audit_begun(&call.accepted, cleared, attempt).await;
        reach_of("start.after", call.accepted.request().id.as_str());
        let mut cx = self.context(call);
        // Ends with this call, so that nothing is told after its result.
        let (progress, _telling) = self.tell(&call.accepted);
        let (progress, following) = self.follow(call, progress);
        cx.progress = progress;
        if let Some(observed) = &call.observed {
            observed.started();
        }
        if declares {
            cx.intents = Arc::new(InJournal(self.journal.clone()));
        }
        let stop = cx.cancel.clone();
        let limit = cx.time_left(self.settings.longest_call);
        let mut running = self.bench.spawn(&self.tasks, ready.run(cx));
        let ended = tokio::select! {
            joined = running.ended() => Ok(joined),
            () = call.cancel.cancelled() => Err(Cut::Cancelled),
            () = call.stopped_by_follower() => Err(Cut::Followed),
            () = self.time_is_up(call, limit) => Err(Cut::Deadline(limit)),
            () = self.ending.cancelled() => Err(Cut::Stopped),
        };
        let (cut, joined) = match ended {
            Ok(joined) => (None, Some(joined)),
            Err(cut) => {
                stop.cancel();
                tokio::select! {
                    last = tokio::time::timeout(LAST_WORDS, running.ended()) => (Some(cut), last.ok()),
                    () = self.calls_over.cancelled() => (Some(cut), None),
                }
            }
        };
        running.abandon();
        if self.calls_over.is_cancelled() {
            // What a tool says while everything ends around it is not to be trusted: its terminal is gone, say.
            return Work::Left;
        }
        if let Some(following) = following {
            following.end().await;
        }
        let answer = joined.map(|joined| joined.ok().flatten().unwrap_or_else(|| Err(panicked())));
        let unanswered = !matches!(answer, Some(Ok(_)));
        if cut == Some(Cut::Stopped) && unanswered && !call.accepted.effect().at_most_once() {
            // A read that our own stop cut off is run again by the next life.
            return Work::Left;
        }
        Work::Outcome(Box::new(outcome(cut, answer)), Some(attempt))
    }

    /// The refusal of a call that is no more what a person said yes to.
    async fn changed(&self, call: &Call, asked: Option<Asked>) -> Option<Outcome> {
        let (asked, request) = (asked?, call.accepted.request());
        let entry = self.registry.find(request.tool.as_str()).ok()?;
        let access = match entry.decode(&request.args) {
            Ok(ready) => ready.access().clone(),
            Err(error) => return Some(refused(error)),
        };
        self.gate.still(entry.spec(), &access, &asked).await.err().map(refused)
    }

    /// Records a reply, however long the journal cannot be written. None where it holds one already, or at the end
    /// of the runner's life; then recovery answers.
    async fn record(
        &self,
        call: &Accepted,
        outcome: Outcome,
        attempt: Option<u32>,
        duration: Duration,
        observed: &Observed,
    ) -> Option<RecordedReply> {
        let request = call.request();
        let facts = Facts::from(&outcome);
        let sealed = self.seal(request, outcome, attempt, duration).await;
        self.audit_answered(call, &sealed, facts, attempt, duration).await;
        let kind = sealed.kind().as_str();
        reach_of("finish.before", request.id.as_str());
        let mut retry = Retry::new(self.settings.retry);
        let mut reserved = true;
        loop {
            match self.journal.record(call, sealed.clone(), self.clock.now_ms()).await {
                Ok(recorded) => {
                    reach_of("finish.after", request.id.as_str());
                    Call::has_ended(observed, &sealed);
                    let duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
                    tracing::info!(request.id = %request.id, tool.name = %request.tool, outcome = kind, duration_ms, "a call was answered");
                    return Some(recorded);
                }
                Err(error @ JournalError::Moved { .. }) => {
                    tracing::error!(request.id = %request.id, %error, "a second reply is not recorded");
                    self.outbox.ring();
                    return None;
                }
                // The reserve was given up for this: at once, before others fill its place.
                Err(JournalError::Full) if std::mem::take(&mut reserved) => continue,
                Err(error) => {
                    tracing::error!(request.id = %request.id, %error, "a reply cannot be recorded now");
                }
            }
            tokio::select! {
                () = tokio::time::sleep(retry.next(None)) => {}
                () = self.over.cancelled() => return None,
            }
        }
    }

    /// Closes a request; if that fails, the reply is posted once more after a restart, which harms nothing.
    pub(super) async fn close(&self, call: &Accepted, close: Close) {
        let id = &call.request().id;
        match self.journal.close(id, close, self.closing_ms()).await {
            Ok(()) | Err(JournalError::Moved { .. }) => {}
            Err(error) => tracing::error!(request.id = %id, %error, "a request could not be closed"),
        }
    }
}

fn seconds(ms: f64) -> String {
    format!("{:.0} s", ms / 1_000.0)
}
