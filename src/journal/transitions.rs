//! The transitions after acceptance. Each is compare-and-set: a request that has moved on meanwhile is left alone.

use std::sync::atomic::Ordering;

use rusqlite::{Transaction, params};

use super::accept::Accepted;
use super::backends::set_fact;
use super::entry::{RecordedReply, State};
use super::rules::{Comparison, Event, Then, Verdict, Write};
use super::writer::Durability;
use super::{Journal, JournalError, steps};
use crate::ids::RequestId;
use crate::request::CleanReply;

/// Proof that the start of a call is recorded: its effect may begin.
#[derive(Debug)]
pub struct Started {
    /// Which execution this is, from 1.
    pub attempt: u32,
}

/// The decision on a request that an earlier run of the runner left open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is run (again).
    Run,
    /// It is answered without being run.
    Answer(Verdict),
    /// Its declared effects are compared with the files; then [`Journal::compared`] decides.
    Compare,
    /// Its reply is there already.
    Post,
}

/// The reason for which a request is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Close {
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
    pub async fn start(&self, call: &Accepted, declares: bool, now_ms: i64) -> Result<Started, JournalError> {
        let id = call.request().id.clone();
        let promise = call.effect().at_most_once() && !declares;
        let durability = if promise { Durability::Power } else { Durability::Process };
        self.writer
            .write(durability, move |transaction| {
                match steps::take(transaction, &id, Event::Begins { declares }, now_ms)? {
                    (Then::Begin, Some(known)) => Ok(Started { attempt: known.attempt + 1 }),
                    _ => Err(JournalError::TakenBack { id }),
                }
            })
            .await
    }

    /// Records the reply. Only the returned value can be posted.
    ///
    /// # Errors
    /// [`JournalError::Moved`] when the request was already finished; any other: it is not recorded.
    pub async fn record(
        &self,
        call: &Accepted,
        reply: CleanReply,
        now_ms: i64,
    ) -> Result<RecordedReply, JournalError> {
        let id = call.request().id.clone();
        let durability = if call.effect().at_most_once() { Durability::Power } else { Durability::Process };
        self.writer.write(durability, move |transaction| finish(transaction, &id, &reply, now_ms)).await
    }

    /// Decides about each of these requests that an earlier run left open, and puts back what is to run
    /// again: all in one transaction, because a backlog must not hold up the start.
    ///
    /// # Errors
    /// [`JournalError::Moved`] when one is not open; then none was put back.
    pub async fn found(&self, ids: Vec<RequestId>, now_ms: i64) -> Result<Vec<Fate>, JournalError> {
        self.writer
            .write(Durability::Process, move |transaction| {
                ids.iter().map(|id| decide(transaction, id, Event::Found, now_ms)).collect()
            })
            .await
    }

    /// The same for one whose declared effects were compared with the files.
    ///
    /// # Errors
    /// [`JournalError::Moved`] when it is not open, or had declared nothing.
    pub async fn compared(
        &self,
        id: &RequestId,
        comparison: Comparison,
        now_ms: i64,
    ) -> Result<Fate, JournalError> {
        let id = id.clone();
        let event = Event::Compared(comparison);
        self.writer
            .write(Durability::Process, move |transaction| decide(transaction, &id, event, now_ms))
            .await
    }

    /// Closes a request: nothing more will be posted for it. Closing a closed request changes nothing.
    ///
    /// # Errors
    /// The journal could not be written; the reply will be posted once more, which the backend answers with
    /// `duplicate`.
    pub async fn close(&self, id: &RequestId, close: Close, now_ms: i64) -> Result<(), JournalError> {
        let id = id.clone();
        let delivered = !matches!(close, Close::Undeliverable(_));
        let was_open = self
            .writer
            .write(Durability::Process, move |transaction| {
                let event = Event::Closed { delivered, kept: close == Close::Sent };
                let (_, known) = steps::take(transaction, &id, event, now_ms)?;
                if let Close::Undeliverable(reason) = &close {
                    transaction
                        .prepare_cached("update request set last_error = ? where id = ?")?
                        .execute([reason, id.as_str()])?;
                }
                Ok(known.is_some_and(|known| !matches!(known.state, State::Delivered | State::Undeliverable)))
            })
            .await?;
        if was_open {
            let count = if delivered { &self.closed.delivered } else { &self.closed.undeliverable };
            count.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Returns the numbers of requests that this process closed: those whose reply the backend has, and those whose
    /// reply it will never take.
    pub fn closed(&self) -> (u64, u64) {
        let [delivered, undeliverable] =
            [&self.closed.delivered, &self.closed.undeliverable].map(|count| count.load(Ordering::Relaxed));
        (delivered, undeliverable)
    }

    /// Notes that a post failed, for `history`.
    ///
    /// # Errors
    /// The journal could not be written.
    pub async fn note_failed_post(
        &self,
        id: &RequestId,
        cause: String,
        now_ms: i64,
    ) -> Result<(), JournalError> {
        let id = id.clone();
        self.writer
            // A reply that has to wait here may have to wait long: it is worth a sync now.
            .write(Durability::Power, move |transaction| {
                transaction
                    .prepare_cached(
                        "update request set deliver_attempts = deliver_attempts + 1, last_error = ? where id = ?",
                    )?
                    .execute(params![cause, id.as_str()])?;
                super::incidents::note(transaction, &id, "post failed", Some(&cause), now_ms)?;
                Ok(())
            })
            .await
    }

    /// Puts a smaller reply in the place of one that the backend found too large.
    ///
    /// # Errors
    /// [`JournalError::Moved`] when it is not finished, or closed already.
    pub async fn replace(
        &self,
        reply: &RecordedReply,
        payload: String,
    ) -> Result<RecordedReply, JournalError> {
        let (id, reply) = (reply.id().clone(), reply.shrunk(payload.clone()));
        self.writer
            .write(Durability::Process, move |transaction| {
                let changed = transaction
                    .prepare_cached(
                        "update result set payload = ?1 where request_id = ?2 \
                         and exists (select 1 from request where id = ?2 and state = 'finished')",
                    )?
                    .execute(params![payload, id.as_str()])?;
                moved_unless(changed == 1, id, "finished")?;
                Ok(reply)
            })
            .await
    }

    /// Notes a process that a call started.
    ///
    /// # Errors
    /// The journal could not be written.
    pub async fn child_started(
        &self,
        request: &RequestId,
        identity: String,
        command: String,
        now_ms: i64,
    ) -> Result<(), JournalError> {
        let id = request.clone();
        self.writer
            .write(Durability::Process, move |transaction| {
                transaction
                    .prepare_cached(
                        "insert or replace into child (request_id, identity, command, started_at_ms) \
                         select ?1, ?2, ?3, ?4 where exists (select 1 from request where id = ?1)",
                    )?
                    .execute(params![id.as_str(), identity, command, now_ms])?;
                Ok(())
            })
            .await
    }

    /// Notes that a process is gone, sooner or later; a note that is lost costs a look at the next start.
    pub fn child_ended(&self, identity: String) {
        self.writer.write_later(Durability::Process, move |transaction| {
            transaction.prepare_cached("delete from child where identity = ?")?.execute([identity])?;
            Ok(())
        });
    }

    /// Keeps a small fact over restarts: of the device, or of the backend that this process works for (the cursor, the
    /// clock's offset).
    ///
    /// # Errors
    /// The journal could not be written.
    pub async fn remember(&self, key: &'static str, value: String) -> Result<(), JournalError> {
        let backend = self.current.number();
        self.writer.write_beside(move |transaction| Ok(set_fact(transaction, backend, key, &value)?)).await
    }

    /// Stores small facts for `status` without waiting; a failure is only logged.
    pub fn note(&self, facts: Vec<(&'static str, String)>) {
        if facts.is_empty() {
            return;
        }
        let backend = self.current.number();
        self.writer.write_aside(move |transaction| {
            facts.iter().try_for_each(|(key, value)| Ok(set_fact(transaction, backend, key, value)?))
        });
    }

    /// Returns a number that rises whenever a request may have moved. Counts of open requests hold until then.
    pub fn moves(&self) -> u64 {
        self.writer.moves()
    }
}

/// Applies the rules to a request that an earlier run left open, and records the decision.
fn decide(
    transaction: &Transaction<'_>,
    id: &RequestId,
    event: Event,
    now_ms: i64,
) -> Result<Fate, JournalError> {
    let (then, known) = steps::take(transaction, id, event, now_ms)?;
    let attempt = known.map_or(0, |known| known.attempt);
    let (fate, kind) = match then {
        Then::Compare => return Ok(Fate::Compare),
        Then::Answer(verdict) => (Fate::Answer(verdict), verdict.kind()),
        Then::Post => return Ok(Fate::Post),
        // A request that had not started is not worth an incident.
        _ if attempt == 0 => return Ok(Fate::Run),
        _ => (Fate::Run, "rerun"),
    };
    steps::incident(transaction, id, kind, Some(&format!("attempt {attempt}")), now_ms)?;
    Ok(fate)
}

/// Accepted or started, to finished with its payload. A task's reply is read here and never posted, so that the same
/// step delivers it.
pub(super) fn finish(
    transaction: &Transaction<'_>,
    id: &RequestId,
    reply: &CleanReply,
    now_ms: i64,
) -> Result<RecordedReply, JournalError> {
    let known = steps::known(transaction, id)?;
    let step = steps::ask(known.as_ref(), id, Event::Answered)?;
    let (Some(known), Write::Finish { read_here }) = (known, step.write) else {
        return Err(JournalError::Moved { id: id.clone(), expected: "known" });
    };
    let state = if read_here { State::Delivered } else { State::Finished };
    let changed = transaction
        .prepare_cached(
            "update request set outcome = ?1, truncated = ?2, finished_at_ms = ?3, state = ?4, closed_at_ms = ?5, \
             code = ?6 where id = ?7 and state = ?8",
        )?
        .execute(params![
            reply.kind().as_str(),
            reply.truncated(),
            now_ms,
            state.as_str(),
            read_here.then_some(now_ms),
            reply.code(),
            id.as_str(),
            known.state.as_str(),
        ])?;
    moved_unless(changed == 1, id.clone(), known.state.as_str())?;
    transaction
        .prepare_cached("insert into result (request_id, payload) values (?, ?)")?
        .execute(params![id.as_str(), reply.payload()])?;
    super::read::recorded(transaction, id)
}

pub(super) fn set_kv(transaction: &Transaction<'_>, key: &str, value: &str) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("insert into kv (key, value) values (?, ?) on conflict (key) do update set value = excluded.value")?
        .execute([key, value])
        .map(drop)
}

fn moved_unless(kept: bool, id: RequestId, expected: &'static str) -> Result<(), JournalError> {
    if kept { Ok(()) } else { Err(JournalError::Moved { id, expected }) }
}
