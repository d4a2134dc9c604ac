//! Runs a socket's mutation once, however often its client sends it. Its value is stored by session and number, in the
//! mutation's own transaction. A failed mutation stores nothing.

use std::sync::Arc;

use rusqlite::Connection;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::timestamp::CommitTimestamp;
use crate::backend_state::BackendState;
use crate::commit_transaction::CommitTransaction;
use crate::credentials::{Sha256Hash, hash_fields};
use crate::failure::{FunctionFailure, FunctionResult};
use crate::function_traits::PreparedMutation;
use crate::sql_calls::SqlCalls as _;

/// The retention of values: 14 days, as in the hosted backend.
const KEPT_MS: f64 = 14.0 * 24.0 * 3_600_000.0;

/// The key of a mutation: the client's session, its number, and a hash.
pub(super) struct CallKey {
    session: Uuid,
    request_id: u32,
    body: Sha256Hash,
}

impl CallKey {
    pub fn new(session: Uuid, request_id: u32, path: &str, args: &RawValue) -> Self {
        Self {
            session,
            request_id,
            body: hash_fields(&[Some(path), Some(args.get())]),
        }
    }
}

#[derive(Debug)]
pub(super) struct CommittedMutation {
    pub ts: CommitTimestamp,
    pub value: Box<RawValue>,
}

/// Runs a mutation, or returns its stored value if it ran before.
pub(super) async fn run_deduplicated(
    backend: &Arc<BackendState>,
    key: CallKey,
    change: Box<dyn PreparedMutation>,
) -> FunctionResult<CommittedMutation> {
    let now_ms = backend.clock.now_ms();
    let on_writer = Arc::clone(backend);
    let done = backend.store.run_write(move |db| {
        let mut commit = CommitTransaction::begin(db, now_ms)?
            .with_caller_reads(&on_writer.caller_reads);
        if let Some(done) = load_committed(&commit, &key)? {
            return Ok(done);
        }
        let value = change.apply_in(&mut commit)?;
        let seq = commit.fix_seq()?;
        commit.execute_cached(
            "INSERT INTO sync_mutations (session_id, request_id, body_hash, ts, value, stored_at_ms) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            (key.session.as_bytes(), key.request_id, key.body, seq, value.get(), now_ms),
        )?;
        on_writer.announce_commit(commit.finish()?);
        Ok(CommittedMutation { ts: CommitTimestamp::from_seq(seq), value })
    });
    done.await?
}

fn load_committed(db: &Connection, key: &CallKey) -> FunctionResult<Option<CommittedMutation>> {
    let kept: Option<(Sha256Hash, i64, String)> = db.find_row(
        "SELECT body_hash, ts, value FROM sync_mutations WHERE session_id = ?1 AND request_id = ?2",
        (key.session.as_bytes(), key.request_id),
        |row| row.try_into(),
    )?;
    match kept {
        None => Ok(None),
        Some((body, ts, value)) if body == key.body => Ok(Some(CommittedMutation {
            ts: CommitTimestamp::from_seq(ts),
            value: RawValue::from_string(value)?,
        })),
        Some(_) => Err(FunctionFailure::Refused(format!(
            "this session has used the request id {} for another mutation",
            key.request_id
        ))),
    }
}

/// Prepares for a new socket. Deletes stored values that are too old to be requested again. Advances the commit clock
/// past the client's last observed time, which may come from a deleted database. The clock advances to the present at
/// most, as the next commit would do, because the client has shown no token yet.
pub(super) async fn begin_session(
    backend: &BackendState,
    observed: CommitTimestamp,
) -> FunctionResult<()> {
    let now_ms = backend.clock.now_ms();
    #[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
    let present = (now_ms * 1e6) as i64;
    let observed = observed.to_seq().unwrap_or(i64::MAX).min(present);
    let begun = backend.store.run_write(move |db| {
        let tx = db.transaction()?;
        tx.execute_cached(
            "DELETE FROM sync_mutations WHERE stored_at_ms < ?1",
            [now_ms - KEPT_MS],
        )?;
        tx.execute_cached(
            "UPDATE clock SET last_seq = ?1 WHERE last_seq < ?1",
            [observed],
        )?;
        tx.commit()
    });
    Ok(begun.await??)
}
