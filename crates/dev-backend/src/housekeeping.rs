//! Periodic housekeeping: closes requests whose time is up, and deletes old rows. Inbox rows are deleted from the
//! oldest on, so every cursor stays valid. No id runs twice: the small row of a request is deleted only if the time in
//! its id makes the backend refuse it from then on. If the id carries no time, the row stays.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use serde_json::json;

use super::backend_state::BackendState;
use super::commit_transaction::CommitTransaction;
use super::credentials::hash_fields;
use super::failure::{FunctionFailure, FunctionResult};
use super::sql_calls::SqlCalls as _;
use punie_core::ids::RequestId;

const INTERVAL: Duration = Duration::from_mins(1);
/// The most rows per transaction, because other calls wait for it.
const BATCH: u32 = 100;
/// The retention of finished requests. A device keeps its answers at least as long.
const KEPT_MS: f64 = 30.0 * 86_400_000.0;
/// The tolerance for a caller's clock that is ahead when request rows are deleted.
const MAX_CLOCK_AHEAD_MS: f64 = 3_600_000.0;
/// The time that an online device has to answer a late request itself.
const GRACE_MS: f64 = 60_000.0;
/// The time after the end of its lease that a device may be away before its answer is too late. Long-running commands
/// have answers that are worth waiting for.
const CLAIMED_GRACE_MS: f64 = 600_000.0;

/// Returns the time of the oldest ids that are accepted: the rows of older requests may be deleted.
fn oldest_accepted_ms(now_ms: f64) -> f64 {
    now_ms - (KEPT_MS - MAX_CLOCK_AHEAD_MS)
}

/// Returns the time in an id, if it has one.
fn creation_time_ms(id: &RequestId) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "48 bits of milliseconds")]
    id.creation_time_ms().map(|made| made as f64)
}

/// Returns whether an id is older than all retained requests, or than any that was ever deleted, by the time in it. The
/// second one outlives a longer retention of a later version, and a clock that is set back.
pub(super) fn is_refused(db: &Connection, id: &RequestId, now_ms: f64) -> rusqlite::Result<bool> {
    let Some(made_ms) = creation_time_ms(id) else {
        return Ok(false);
    };
    let swept_ms: f64 = db
        .prepare_cached("SELECT swept_ms FROM clock")?
        .query_row([], |row| row.get(0))?;
    Ok(made_ms <= swept_ms.max(oldest_accepted_ms(now_ms)))
}

/// Runs the housekeeping until the backend stops.
pub(super) async fn run_periodically(backend: Arc<BackendState>) {
    // The first run waits one interval, so that devices that were cut off have their grace, too.
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + INTERVAL, INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = backend.stopping.cancelled() => return,
            _ = ticks.tick() => {}
        }
        match run_full_pass(&backend).await {
            Ok(0) => {}
            Ok(rows) => tracing::debug!(rows, "housekeeping"),
            Err(FunctionFailure::Stopping) => return,
            Err(failure) => tracing::warn!(%failure, "housekeeping failed; it is tried again"),
        }
    }
}

/// Closes and deletes everything that is due, and returns the number of rows.
pub(super) async fn run_full_pass(backend: &Arc<BackendState>) -> FunctionResult<usize> {
    let mut done = 0;
    loop {
        let now_ms = backend.clock.now_ms();
        let on_writer = Arc::clone(backend);
        let batch = backend
            .store
            .run_write(move |db| -> FunctionResult<usize> {
                let mut commit = CommitTransaction::begin(db, now_ms)?;
                let rows = close_overdue(&mut commit)?
                    + delete_old_inbox(&commit)?
                    + delete_old_results(&commit)?;
                on_writer.announce_commit(commit.finish()?);
                Ok(rows)
            })
            .await??;
        done += batch;
        if batch == 0 {
            return Ok(done);
        }
        tokio::task::yield_now().await;
    }
}

struct OverdueRequest {
    request: String,
    tool: String,
    attempt: i32,
}

/// Answers requests whose deadline has passed, and those that stayed unclaimed for the whole retention. Requests with a
/// current or recent lease are skipped. An online device answers by itself; the late result of another one is refused
/// with `RESULT_EXISTS`.
fn close_overdue(db: &mut CommitTransaction<'_>) -> FunctionResult<usize> {
    let overdue: Vec<OverdueRequest> = db.read_rows(
        "SELECT request_id, tool_name, attempt FROM requests WHERE state = 'open' \
         AND (deadline_ms <= ?1 OR created_at_ms <= ?2) AND ifnull(lease_expires_at_ms, 0) <= ?3 LIMIT ?4",
        (db.now_ms - GRACE_MS, db.now_ms - KEPT_MS, db.now_ms - CLAIMED_GRACE_MS, BATCH),
        |row| {
            Ok(OverdueRequest { request: row.get(0)?, tool: row.get(1)?, attempt: row.get(2)? })
        },
    )?;
    for request in &overdue {
        let payload = request.expiry_payload();
        db.execute_cached(
            "INSERT INTO results (request_id, body_hash, outcome, stored_at_ms, payload) VALUES (?1, ?2, 'error', ?3, ?4)",
            (&request.request, hash_fields(&[Some("error"), Some(&payload), None]), db.now_ms, &payload),
        )?;
        db.execute_cached(
            "UPDATE requests SET state = 'finished' WHERE request_id = ?1",
            [&request.request],
        )?;
    }
    Ok(overdue.len())
}

impl OverdueRequest {
    fn expiry_payload(&self) -> String {
        let claimed = self.attempt > 0;
        let error = if claimed {
            "The request's time was up, and the device that had claimed it has not answered. Parts of it may have been \
             done: look before you repeat it."
        } else {
            "The request was not run: its time was up before a device took it. Ask again if it is still wanted."
        };
        let mut meta = json!({ "durationMs": 0, "code": "expired", "retryable": !claimed });
        if claimed {
            meta["attempt"] = json!(self.attempt);
            meta["mayHaveRun"] = json!(true);
        }
        json!({ "toolName": self.tool, "error": error, "meta": meta }).to_string()
    }
}

fn delete_old_inbox(db: &CommitTransaction<'_>) -> FunctionResult<usize> {
    #[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
    let before = ((db.now_ms - KEPT_MS) * 1e6) as i64;
    Ok(db.execute_cached(
        "DELETE FROM inbox WHERE (device_id, seq, place) IN \
             (SELECT device_id, seq, place FROM inbox WHERE seq < ?1 ORDER BY seq LIMIT ?2)",
        (before, BATCH),
    )?)
}

/// Deletes old results with all that belongs to their requests. The request's small row is deleted if its id is refused
/// from now on.
fn delete_old_results(db: &CommitTransaction<'_>) -> FunctionResult<usize> {
    let old: Vec<String> = db.read_rows(
        "SELECT request_id FROM results WHERE stored_at_ms < ?1 ORDER BY stored_at_ms LIMIT ?2",
        (db.now_ms - KEPT_MS, BATCH),
        |row| row.get(0),
    )?;
    let mut rows = 0;
    for request in &old {
        rows += db.execute_cached(
            "DELETE FROM progress WHERE (request_id, n) IN \
                 (SELECT request_id, n FROM progress WHERE request_id = ?1 LIMIT ?2)",
            (request, BATCH),
        )?;
        // The result is deleted last, so that the next batch still finds the rest.
        if rows >= BATCH as usize {
            return Ok(rows);
        }
        for sql in [
            "DELETE FROM permissions WHERE request_id = ?1",
            "DELETE FROM request_args WHERE number = (SELECT number FROM requests WHERE request_id = ?1)",
            "DELETE FROM results WHERE request_id = ?1",
        ] {
            db.execute_cached(sql, [request])?;
        }
        let made_ms = RequestId::parse(request)
            .ok()
            .and_then(|id| creation_time_ms(&id));
        let oldest_ms = oldest_accepted_ms(db.now_ms);
        if made_ms.is_some_and(|made| made <= oldest_ms) {
            db.execute_cached("UPDATE clock SET swept_ms = max(swept_ms, ?1)", [oldest_ms])?;
            db.execute_cached("DELETE FROM requests WHERE request_id = ?1", [request])?;
        }
        rows += 1;
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn an_id_from_before_what_was_ever_swept_is_refused_however_long_requests_are_kept() {
        let db = testing::database();
        let swept_ms: u64 = 1_763_000_000_000;
        let id = |at_ms: u64| {
            let id = uuid::Builder::from_unix_timestamp_millis(at_ms, &[7; 10]).into_uuid();
            RequestId::parse(id.to_string()).expect("an id")
        };
        // As if a shorter retention had been in force until now.
        db.execute("UPDATE clock SET swept_ms = ?1", [1_763_000_000_000.0])
            .expect("stored");
        let now_ms = 1_763_000_000_000.0 + 86_400_000.0;
        assert!(is_refused(&db, &id(swept_ms), now_ms).expect("read"));
        assert!(!is_refused(&db, &id(swept_ms + 1), now_ms).expect("read"));
    }
}
