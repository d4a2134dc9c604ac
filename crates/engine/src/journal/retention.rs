//! Deletes rows that are not needed any more, at most [`BATCH`] rows in one transaction: a call that writes waits no
//! longer than that takes.

use super::statements::execute_cached;
use super::{Journal, JournalError};

/// The most rows that one transaction deletes.
pub const BATCH: usize = 100;

/// The kept replies that were sent before a time.
const SENT: &str = "select id from request where sent_at_ms < ?1 order by sent_at_ms limit ?2";
/// The requests that were closed before a time, but not those whose signature is still good: such a request could be
/// offered again, and would run again. Rows that belong to a request go with it.
const FORGET_CLOSED: &str = "delete from request where rowid in \
     (select rowid from request where closed_at_ms < ?1 \
      and (signature is null or coalesce(deadline_ms, created_at_ms + ?3) < ?4) \
      order by closed_at_ms limit ?2)";
/// The incidents before a time of requests that the journal does not know (any more).
const FORGET_INCIDENTS: &str = "delete from incident where id in \
     (select id from incident where coalesce(last_at_ms, at_ms) < ?1 \
      and not exists (select 1 from request where request.id = request_id) limit ?2)";

/// The validity of signed requests, for which the journal remembers that they ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignatureExpiry {
    /// A signed request is over if it expired before this time, in milliseconds.
    pub now_ms: i64,
    /// The validity of a request without a deadline.
    pub ttl_ms: i64,
}

impl Journal {
    /// Drops replies that were kept after they were sent, before `before_ms`. Returns how many; fewer than [`BATCH`]
    /// are all that there were.
    ///
    /// # Errors
    /// The journal could not be written.
    pub async fn delete_sent_replies(&self, before_ms: i64) -> Result<usize, JournalError> {
        self.writer
            .write_unordered(move |transaction| {
                let bounds = (before_ms, rows_per_delete());
                let delete = format!("delete from result where request_id in ({SENT})");
                execute_cached(transaction, &delete, bounds)?;
                let update = format!("update request set sent_at_ms = null where id in ({SENT})");
                Ok(execute_cached(transaction, &update, bounds)?)
            })
            .await
    }

    /// Forgets requests that were closed before `before_ms`: by then the backend does not offer them again. Returns how
    /// many; fewer than [`BATCH`] are all that there were.
    ///
    /// # Errors
    /// The journal could not be written.
    pub async fn delete_closed_requests(
        &self,
        before_ms: i64,
        signed: SignatureExpiry,
    ) -> Result<usize, JournalError> {
        self.delete_rows(
            FORGET_CLOSED,
            (before_ms, rows_per_delete(), signed.ttl_ms, signed.now_ms),
        )
        .await
    }

    /// Forgets incidents before `before_ms` of requests that the journal does not know (any more). Returns how many;
    /// fewer than [`BATCH`] are all that there were.
    ///
    /// # Errors
    /// The journal could not be written.
    pub async fn delete_incidents(&self, before_ms: i64) -> Result<usize, JournalError> {
        self.delete_rows(FORGET_INCIDENTS, (before_ms, rows_per_delete()))
            .await
    }

    async fn delete_rows(
        &self,
        sql: &'static str,
        values: impl rusqlite::Params + Send + 'static,
    ) -> Result<usize, JournalError> {
        self.writer
            .write_unordered(move |transaction| Ok(execute_cached(transaction, sql, values)?))
            .await
    }
}

fn rows_per_delete() -> i64 {
    i64::try_from(BATCH).expect("a small number")
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::super::{backlog, history, journal_reader, migrate, task_rows};
    use super::*;

    /// The steps that SQLite takes for a statement, as it explains them.
    fn plan(connection: &Connection, sql: &str) -> Vec<String> {
        let mut statement = connection
            .prepare(&format!("explain query plan {sql}"))
            .expect("valid SQL");
        let values = vec![rusqlite::types::Null; statement.parameter_count()];
        let steps = statement.query_map(rusqlite::params_from_iter(values), |row| row.get(3));
        steps
            .expect("explained")
            .collect::<Result<_, _>>()
            .expect("text")
    }

    #[test]
    fn no_regular_look_goes_through_all_that_is_remembered() {
        let folder = tempfile::tempdir().expect("a folder");
        let connection =
            migrate::create_database(&folder.path().join("journal.sqlite3")).expect("made");
        let delete_sent = format!("delete from result where request_id in ({SENT})");
        let own = [delete_sent.as_str(), FORGET_CLOSED, FORGET_INCIDENTS];
        for sql in own
            .iter()
            .chain(journal_reader::REGULAR)
            .chain(backlog::REGULAR)
            .chain(history::REGULAR)
            .chain([&task_rows::TASKS])
        {
            let steps = plan(&connection, &sql.replace("{own}", "backend = 1"));
            assert!(!steps.is_empty(), "{sql}");
            for step in &steps {
                let scans = step.starts_with("SCAN") && !step.starts_with("SCAN CONSTANT");
                assert!(!scans || step.contains("json_each"), "{step}, for {sql}");
            }
        }
    }
}
