//! The transitions after acceptance. Each is compare-and-set: a request that has moved on meanwhile is left alone.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rusqlite::Transaction;

use super::accept_requests::AcceptedRequest;
use super::apply_transition::{apply_request_event, check_transition};
use super::entry::RecordedReply;
use super::incidents::insert_incident;
use super::reply_rows::store_reply;
use super::statements::execute_cached;
use super::transition_rules::{EffectComparison, RequestEvent, RulesReply, TransitionResult};
use super::write_job::WriteDurability;
use super::{Journal, JournalError};
use punie_core::ids::RequestId;
use punie_tool::request::CleanReply;

/// Proof that the start of a call is recorded: its effect may begin.
#[derive(Debug)]
pub struct RecordedStart {
    /// Which execution this is, from 1.
    pub attempt: u32,
}

/// The decision on a request that an earlier run of the runner left open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoveredRequest {
    /// It is run (again).
    Run,
    /// It is answered without being run.
    Answer(RulesReply),
    /// Its declared effects are compared with the files; then [`Journal::resolve_compared`] decides.
    Compare,
    /// Its reply is there already.
    Post,
}

/// The reason for which a request is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CloseReason {
    /// The backend has the reply, or a task's reply waits here.
    Delivered,
    /// The reply was sent, by a wire on which it may be asked for again: it is kept for that.
    Sent,
    /// The backend will never take a reply; the reason is kept for `history`.
    Undeliverable(String),
}

impl Journal {
    /// Records that a call begins. For a tool with effects this is durable against power loss when it returns, unless
    /// the tool `declares` each effect before it makes it: then the first declaration makes it so.
    ///
    /// # Errors
    /// [`JournalError::Moved`] when it is not merely accepted any more, [`JournalError::TakenBack`] when the caller
    /// took it back by now; any other: it must not begin.
    pub async fn record_start(
        &self,
        call: &AcceptedRequest,
        declares: bool,
        now_ms: i64,
    ) -> Result<RecordedStart, JournalError> {
        let id = call.tool_request().id.clone();
        let promise = call.tool_effect().runs_at_most_once() && !declares;
        let durability = WriteDurability::for_effect(promise);
        self.writer
            .write_and_wait(durability, move |transaction| {
                match apply_request_event(
                    transaction,
                    &id,
                    RequestEvent::Begins { declares },
                    now_ms,
                )? {
                    (TransitionResult::Begin, Some(known)) => Ok(RecordedStart {
                        attempt: known.attempt + 1,
                    }),
                    _ => Err(JournalError::TakenBack { id }),
                }
            })
            .await
    }

    /// Records the reply. Only the returned value can be posted.
    ///
    /// # Errors
    /// [`JournalError::Moved`] when the request was already finished; any other: it is not recorded.
    pub async fn record_reply(
        &self,
        call: &AcceptedRequest,
        reply: CleanReply,
        now_ms: i64,
    ) -> Result<RecordedReply, JournalError> {
        let id = call.tool_request().id.clone();
        let durability = WriteDurability::for_effect(call.tool_effect().runs_at_most_once());
        self.writer
            .write_and_wait(durability, move |transaction| {
                store_reply(transaction, &id, &reply, now_ms)
            })
            .await
    }

    /// Decides about each of these requests that an earlier run left open, and puts back what is to run
    /// again: all in one transaction, because a backlog must not hold up the start.
    ///
    /// # Errors
    /// [`JournalError::Moved`] when one is not open; then none was put back.
    pub async fn recover_requests(
        &self,
        ids: Vec<RequestId>,
        now_ms: i64,
    ) -> Result<Vec<RecoveredRequest>, JournalError> {
        self.writer
            .write_and_wait(WriteDurability::ProcessCrash, move |transaction| {
                ids.iter()
                    .map(|id| decide_recovery(transaction, id, RequestEvent::Found, now_ms))
                    .collect()
            })
            .await
    }

    /// The same for one whose declared effects were compared with the files.
    ///
    /// # Errors
    /// [`JournalError::Moved`] when it is not open, or had declared nothing.
    pub async fn resolve_compared(
        &self,
        id: &RequestId,
        comparison: EffectComparison,
        now_ms: i64,
    ) -> Result<RecoveredRequest, JournalError> {
        let id = id.clone();
        let event = RequestEvent::Compared(comparison);
        self.writer
            .write_and_wait(WriteDurability::ProcessCrash, move |transaction| {
                decide_recovery(transaction, &id, event, now_ms)
            })
            .await
    }

    /// Closes a request: nothing more will be posted for it. Closing a closed request changes nothing.
    ///
    /// # Errors
    /// The journal could not be written; the reply will be posted once more, which the backend answers with
    /// `duplicate`.
    pub async fn close_request(
        &self,
        id: &RequestId,
        close: CloseReason,
        now_ms: i64,
    ) -> Result<(), JournalError> {
        let id = id.clone();
        let delivered = !matches!(close, CloseReason::Undeliverable(_));
        let was_open = self
            .writer
            .write_and_wait(WriteDurability::ProcessCrash, move |transaction| {
                let event = RequestEvent::Closed {
                    delivered,
                    kept: close == CloseReason::Sent,
                };
                let (_, known) = apply_request_event(transaction, &id, event, now_ms)?;
                if let CloseReason::Undeliverable(reason) = &close {
                    let sql = "update request set last_error = ? where id = ?";
                    execute_cached(transaction, sql, [reason, id.as_str()])?;
                }
                Ok(known.is_some_and(|known| !known.state.is_closed()))
            })
            .await?;
        if was_open {
            let count = if delivered {
                &self.closed.delivered
            } else {
                &self.closed.undeliverable
            };
            count.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Returns the numbers of requests that this process closed: those whose reply the backend has, and those whose
    /// reply it will never take.
    pub fn closed_counts(&self) -> (u64, u64) {
        let [delivered, undeliverable] = [&self.closed.delivered, &self.closed.undeliverable]
            .map(|count| count.load(Ordering::Relaxed));
        (delivered, undeliverable)
    }

    /// Notes that a post failed, for `history`.
    ///
    /// # Errors
    /// The journal could not be written.
    pub async fn record_failed_post(
        &self,
        id: &RequestId,
        cause: String,
        now_ms: i64,
    ) -> Result<(), JournalError> {
        let id = id.clone();
        self.writer
            // A reply that has to wait here may have to wait long: it is worth a sync now.
            .write_and_wait(WriteDurability::PowerLoss, move |transaction| {
                execute_cached(
                    transaction,
                    "update request set deliver_attempts = deliver_attempts + 1, last_error = ? where id = ?",
                    [cause.as_str(), id.as_str()],
                )?;
                insert_incident(transaction, &id, "post failed", Some(&cause), now_ms)?;
                Ok(())
            })
            .await
    }

    /// Puts a smaller reply in the place of one that the backend found too large.
    ///
    /// # Errors
    /// [`JournalError::Moved`] when it is not finished, or closed already.
    pub async fn replace_reply(
        &self,
        reply: &RecordedReply,
        payload: String,
    ) -> Result<RecordedReply, JournalError> {
        let id = reply.request_id().clone();
        let reply = reply.with_smaller_payload(payload.clone());
        self.writer
            .write_and_wait(WriteDurability::ProcessCrash, move |transaction| {
                let changed = execute_cached(
                    transaction,
                    "update result set payload = ?1 where request_id = ?2 \
                     and exists (select 1 from request where id = ?2 and state = 'finished')",
                    [payload.as_str(), id.as_str()],
                )?;
                check_transition(changed, &id, "finished")?;
                Ok(reply)
            })
            .await
    }

    /// Returns a number that rises whenever a request may have moved. Counts of open requests hold until then.
    pub fn change_counter(&self) -> u64 {
        self.writer.change_counter()
    }

    /// Returns the age of the writer's last commit, if it made one.
    pub fn last_commit_age(&self) -> Option<Duration> {
        self.writer.last_commit_age()
    }
}

/// Applies the rules to a request that an earlier run left open, and records the decision.
fn decide_recovery(
    transaction: &Transaction<'_>,
    id: &RequestId,
    event: RequestEvent,
    now_ms: i64,
) -> Result<RecoveredRequest, JournalError> {
    let (then, known) = apply_request_event(transaction, id, event, now_ms)?;
    let attempt = known.map_or(0, |known| known.attempt);
    let (fate, kind) = match then {
        TransitionResult::Compare => return Ok(RecoveredRequest::Compare),
        TransitionResult::Answer(verdict) => (RecoveredRequest::Answer(verdict), verdict.kind()),
        TransitionResult::Post => return Ok(RecoveredRequest::Post),
        // A request that had not started is not worth an incident.
        _ if attempt == 0 => return Ok(RecoveredRequest::Run),
        _ => (RecoveredRequest::Run, "rerun"),
    };
    insert_incident(
        transaction,
        id,
        kind,
        Some(&format!("attempt {attempt}")),
        now_ms,
    )?;
    Ok(fate)
}
