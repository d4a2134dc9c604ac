//! One call from its lane to its recorded reply: prepare, claim, start, run, seal, record, post.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::engine::Engine;
use super::leases::Claimed;
use crate::journal::{Accepted, Close, JournalError, Origin, RecordedReply};
use crate::request::{ErrorCode, Failure, Meta, Outcome, Sealing};
use crate::tool::{ReadyCall, ToolCx, ToolError};

/// How long a call that was told to stop may take to do so before it is abandoned. Ending a stubborn process tree
/// takes ten seconds.
const LAST_WORDS: Duration = Duration::from_secs(15);

/// A call on its way.
pub(super) struct Call {
    pub accepted: Accepted,
    /// Cancelled when the caller takes the request back.
    pub cancel: CancellationToken,
}

/// What a call came to.
enum Work {
    /// This, in this execution (none where nothing was started).
    Outcome(Outcome, Option<u32>),
    /// Nothing: it stays where the journal has it, for the next life of the runner.
    Left,
}

impl Engine {
    /// Answers a call: exactly one reply is recorded, or the request is closed or left with its reason.
    pub(super) async fn answer(self: &Arc<Self>, call: Call) {
        let begun = Instant::now();
        let (claimed, result) = self.work(&call).await;
        let id = &call.accepted.request().id;
        let lease_lost = self.leases.release(id);
        let (outcome, attempt) = match (claimed, result) {
            (Claimed::NotOurs(reason), _) => {
                tracing::info!(request.id = %id, reason, "the request is not ours to answer");
                return self.close(&call.accepted, Close::Undeliverable(reason)).await;
            }
            (_, Work::Left) => return,
            (_, Work::Outcome(outcome, attempt)) => (mark_lease(outcome, lease_lost), attempt),
        };
        if let Some(recorded) = self.record(&call.accepted, outcome, attempt, begun.elapsed()).await {
            self.hand_over(&call.accepted, recorded).await;
        }
    }

    /// Posts the reply of the backend's requests; a task's reply stays here to be read.
    async fn hand_over(self: &Arc<Self>, call: &Accepted, recorded: RecordedReply) {
        match call.origin() {
            Origin::Task => self.close(call, Close::Delivered).await,
            Origin::Backend => self.deliver(recorded).await,
        }
    }

    async fn work(self: &Arc<Self>, call: &Call) -> (Claimed, Work) {
        let ready = match self.prepare(call).await {
            Ok(ready) => ready,
            Err(outcome) => return (self.claim_once(&call.accepted).await, Work::Outcome(outcome, None)),
        };
        if !call.accepted.effect().at_most_once() {
            return tokio::join!(self.claim_once(&call.accepted), self.run(call, ready));
        }
        match self.claim(&call.accepted, &call.cancel).await {
            Claimed::GivenUp if call.cancel.is_cancelled() => {
                (self.claim_once(&call.accepted).await, Work::Outcome(never_ran(), None))
            }
            Claimed::GivenUp => (Claimed::GivenUp, Work::Left),
            Claimed::Ours => (Claimed::Ours, self.run(call, ready).await),
            other => (other, Work::Left),
        }
    }

    /// Everything that can refuse a call before anything is done about it.
    async fn prepare(&self, call: &Call) -> Result<ReadyCall, Outcome> {
        let request = call.accepted.request();
        if call.cancel.is_cancelled() {
            return Err(never_ran());
        }
        if let Some(late) = self.lateness(&call.accepted) {
            return Err(Outcome::Error(late));
        }
        let entry = self.registry.find(request.tool.as_str()).map_err(refused)?;
        let ready = entry.decode(&request.args).map_err(refused)?;
        self.gate.permit(&self.context(call), entry.spec()).await.map_err(refused)?;
        Ok(ready)
    }

    fn lateness(&self, call: &Accepted) -> Option<Failure> {
        if call.origin() == Origin::Task {
            return None;
        }
        let (request, now) = (call.request(), self.server_clock.now_ms());
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

    fn context(&self, call: &Call) -> ToolCx {
        let request = call.accepted.request();
        ToolCx {
            request: request.id.clone(),
            conversation: request.conversation.clone(),
            agent_type: request.agent_type.clone(),
            cancel: call.cancel.child_token(),
            deadline: request.deadline_ms.and_then(|deadline| self.server_clock.instant(deadline)),
        }
    }

    /// Runs a prepared call whose start is recorded, under its deadline and a panic guard.
    async fn run(self: &Arc<Self>, call: &Call, ready: ReadyCall) -> Work {
        let attempt = match self.journal.start(&call.accepted, self.clock.now_ms()).await {
            Ok(started) => started.attempt,
            Err(error) => {
                tracing::error!(request.id = %call.accepted.request().id, %error, "the call is left for later");
                return Work::Left;
            }
        };
        let cx = self.context(call);
        let stop = cx.cancel.clone();
        let limit = cx.time_left(self.settings.longest_call);
        let mut running = self.tasks.spawn(ready.run(cx));
        let ended = tokio::select! {
            ended = &mut running => Ended::Itself(ended),
            () = call.cancel.cancelled() => Ended::Cancelled,
            () = tokio::time::sleep(limit) => Ended::Deadline(limit),
            () = self.ending.cancelled() => Ended::Stopped,
        };
        let (why, joined) = match ended {
            Ended::Itself(joined) => (None, Some(joined)),
            why => {
                stop.cancel();
                (Some(why), tokio::time::timeout(LAST_WORDS, &mut running).await.ok())
            }
        };
        running.abort();
        let answer = joined.map(|joined| joined.unwrap_or_else(|_panic| Err(panicked())));
        match (why, answer) {
            (Some(Ended::Stopped), None | Some(Err(_))) if !call.accepted.effect().at_most_once() => {
                Work::Left
            }
            (why, answer) => Work::Outcome(outcome(why, answer), Some(attempt)),
        }
    }

    async fn record(
        &self,
        call: &Accepted,
        outcome: Outcome,
        attempt: Option<u32>,
        duration: Duration,
    ) -> Option<RecordedReply> {
        let request = call.request();
        let sealed = outcome.seal(&Sealing {
            redactor: &self.redactor,
            store: &self.outputs,
            request: &request.id,
            tool: &request.tool,
            duration,
            attempt,
        });
        let kind = sealed.kind().as_str();
        match self.journal.record(call, sealed, self.clock.now_ms()).await {
            Ok(recorded) => {
                let duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
                tracing::info!(request.id = %request.id, tool.name = %request.tool, outcome = kind, duration_ms, "a call was answered");
                Some(recorded)
            }
            Err(error) => {
                tracing::error!(request.id = %request.id, %error, "a reply could not be recorded; recovery will answer");
                None
            }
        }
    }

    /// Closes a request; if that fails, the reply is posted once more after a restart, which harms nothing.
    pub(super) async fn close(&self, call: &Accepted, close: Close) {
        let id = &call.request().id;
        match self.journal.close(id, close, self.clock.now_ms()).await {
            Ok(()) | Err(JournalError::Moved { .. }) => {}
            Err(error) => tracing::error!(request.id = %id, %error, "a request could not be closed"),
        }
    }
}

/// Why a call's wait ended.
enum Ended {
    Itself(Result<Result<crate::request::Reply, ToolError>, tokio::task::JoinError>),
    Cancelled,
    Deadline(Duration),
    Stopped,
}

/// What a call that ended for this reason and said this came to.
fn outcome(why: Option<Ended>, answer: Option<Result<crate::request::Reply, ToolError>>) -> Outcome {
    let (said, meta) = match answer {
        // It was done before it heard of the stop; what it did is the truth.
        Some(Ok(reply)) => return Outcome::Ok(reply),
        Some(Err(error)) if why.is_none() || error.code() != ErrorCode::Cancelled => {
            return if error.code() == ErrorCode::Cancelled {
                Outcome::Cancelled(error.into())
            } else {
                Outcome::Error(error.into())
            };
        }
        Some(Err(error)) => {
            let failure = Failure::from(error);
            (failure.text, failure.meta)
        }
        None => (
            "It did not stop when it was told to and was abandoned.".to_owned(),
            Meta { may_have_run: true, ..Meta::default() },
        ),
    };
    let failure = |code, lead: &str| Failure { code, text: format!("{lead}\n{said}"), meta: meta.clone() };
    match why {
        Some(Ended::Deadline(limit)) => {
            let lead = format!("Stopped at its deadline, after {:.1} s.", limit.as_secs_f64());
            Outcome::Error(failure(ErrorCode::Timeout, &lead))
        }
        Some(Ended::Stopped) => {
            let mut failure =
                failure(ErrorCode::Interrupted, "The device's runner was stopped while this ran.");
            failure.meta.may_have_run = true;
            Outcome::Error(failure)
        }
        _ => Outcome::Cancelled(Failure { code: ErrorCode::Cancelled, text: said, meta }),
    }
}

fn refused(error: ToolError) -> Outcome {
    Outcome::Error(error.into())
}

pub(super) fn never_ran() -> Outcome {
    let text = "Cancelled before it started; it never ran.".to_owned();
    Outcome::Cancelled(Failure { code: ErrorCode::Cancelled, text, meta: Meta::default() })
}

fn panicked() -> ToolError {
    ToolError::internal("The tool failed inside (a fault of punie-runner, not of the arguments). What it had done so far stands.")
        .with_meta(Meta { may_have_run: true, ..Meta::default() })
}

fn mark_lease(mut outcome: Outcome, lost: bool) -> Outcome {
    if lost {
        match &mut outcome {
            Outcome::Ok(reply) => reply.meta.lease_lost = true,
            Outcome::Error(failure) | Outcome::Cancelled(failure) => failure.meta.lease_lost = true,
        }
    }
    outcome
}

fn seconds(ms: f64) -> String {
    format!("{:.0} s", ms / 1_000.0)
}
