//! The transitions after acceptance. Each is compare-and-set: a request that somebody else moved on is left alone.

use rusqlite::{OptionalExtension, Transaction, params};

use super::accept::Accepted;
use super::entry::{RecordedReply, State};
use super::writer::Durability;
use super::{Journal, JournalError};
use crate::ids::RequestId;
use crate::request::CleanReply;

/// Proof that the start of a call is recorded: its effect may begin.
#[derive(Debug)]
pub struct Started {
    /// Which execution this is, from 1.
    pub attempt: u32,
}

/// Why a request is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Close {
    /// The backend has the reply, or a task's reply waits here.
    Delivered,
    /// The backend will never take a reply; the reason is kept for `history`.
    Undeliverable(String),
}

impl Journal {
    /// Records that a call begins. For a tool with effects this is durable against power loss when it returns.
    ///
    /// # Errors
    /// [`JournalError::Moved`] when it is not merely accepted any more; any other: it must not begin.
    pub async fn start(&self, call: &Accepted, now_ms: i64) -> Result<Started, JournalError> {
        let id = call.request().id.clone();
        let durability = if call.effect().at_most_once() { Durability::Power } else { Durability::Process };
        self.writer.write(durability, move |transaction| begin(transaction, id, false, now_ms)).await
    }

    /// Records the reply. Only what this returns can be posted.
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

    /// Puts a call that a crash cut off, and that can be run again, back to where it can start.
    ///
    /// # Errors
    /// [`JournalError::Moved`].
    pub async fn restart(&self, id: &RequestId) -> Result<(), JournalError> {
        let id = id.clone();
        self.writer
            .write(Durability::Process, move |transaction| {
                let changed = transaction
                    .prepare_cached(
                        "update request set state = 'accepted' where id = ? and state = 'started'",
                    )?
                    .execute([id.as_str()])?;
                moved_unless(changed == 1, id, "started")
            })
            .await
    }

    /// Closes a request: nothing more will be posted for it. Closing a closed request changes nothing.
    ///
    /// # Errors
    /// The journal could not be written; the reply will be posted once more, which the backend answers with
    /// `duplicate`.
    pub async fn close(&self, id: &RequestId, close: Close, now_ms: i64) -> Result<(), JournalError> {
        let id = id.clone();
        self.writer
            .write(Durability::Process, move |transaction| {
                let (state, reason) = match &close {
                    Close::Delivered => (State::Delivered, None),
                    Close::Undeliverable(reason) => (State::Undeliverable, Some(reason.as_str())),
                };
                transaction
                    .prepare_cached(
                        "update request set state = ?, closed_at_ms = ?, last_error = coalesce(?, last_error), \
                         args = case origin when 'task' then args else '' end \
                         where id = ? and state in ('accepted', 'started', 'finished')",
                    )?
                    .execute(params![state.as_str(), now_ms, reason, id.as_str()])?;
                transaction
                    .prepare_cached(
                        "delete from result where request_id = ?1 \
                         and exists (select 1 from request where id = ?1 and origin = 'backend')",
                    )?
                    .execute([id.as_str()])?;
                Ok(())
            })
            .await
    }

    /// Notes that a post failed, for `history`.
    ///
    /// # Errors
    /// The journal could not be written.
    pub async fn note_failed_post(&self, id: &RequestId, cause: String) -> Result<(), JournalError> {
        let id = id.clone();
        self.writer
            // A reply that has to wait here may have to wait long: it is worth a sync now.
            .write(Durability::Power, move |transaction| {
                transaction
                    .prepare_cached(
                        "update request set deliver_attempts = deliver_attempts + 1, last_error = ? where id = ?",
                    )?
                    .execute(params![cause, id.as_str()])?;
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

    /// Keeps a small fact (the cursor, the clock's offset) over restarts.
    ///
    /// # Errors
    /// The journal could not be written.
    pub async fn remember(&self, key: &'static str, value: String) -> Result<(), JournalError> {
        self.writer.write(Durability::Process, move |transaction| Ok(set_kv(transaction, key, &value)?)).await
    }

    /// Forgets what was closed before `closed_before_ms`: by then the backend does not offer it again.
    ///
    /// # Errors
    /// The journal could not be written.
    pub async fn forget_closed(&self, closed_before_ms: i64) -> Result<usize, JournalError> {
        self.writer
            .write(Durability::Process, move |transaction| {
                Ok(transaction.execute("delete from request where closed_at_ms < ?", [closed_before_ms])?)
            })
            .await
    }
}

/// Accepted to started.
pub(super) fn begin(
    transaction: &Transaction<'_>,
    id: RequestId,
    declares: bool,
    now_ms: i64,
) -> Result<Started, JournalError> {
    let attempt = transaction
        .prepare_cached(
            "update request set state = 'started', attempt = attempt + 1, started_at_ms = ?, declares = ? \
             where id = ? and state = 'accepted' returning attempt",
        )?
        .query_row(params![now_ms, declares, id.as_str()], |row| row.get(0))
        .optional()?;
    attempt.map(|attempt| Started { attempt }).ok_or(JournalError::Moved { id, expected: "accepted" })
}

/// Accepted or started, to finished with its payload. A task's reply is read here and never posted, so that the same
/// step delivers it.
pub(super) fn finish(
    transaction: &Transaction<'_>,
    id: &RequestId,
    reply: &CleanReply,
    now_ms: i64,
) -> Result<RecordedReply, JournalError> {
    let changed = transaction
        .prepare_cached(
            "update request set outcome = ?1, truncated = ?2, finished_at_ms = ?3, \
             state = case origin when 'task' then 'delivered' else 'finished' end, \
             closed_at_ms = case origin when 'task' then ?3 end \
             where id = ?4 and state in ('accepted', 'started')",
        )?
        .execute(params![reply.kind().as_str(), reply.truncated(), now_ms, id.as_str()])?;
    moved_unless(changed == 1, id.clone(), "accepted or started")?;
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
