//! Read-only queries for recovery, delivery, `status` and `history`.

use std::cmp::Ordering;
use std::path::Path;

use rusqlite::{CachedStatement, Connection, OpenFlags, OptionalExtension, Params, Row};

use super::entry::{
    REPLY_COLUMNS, RecordedReply, RequestOrigin, RequestState, StoredOutcome, UnfinishedRequest,
    parse_column, request_from_row,
};
use super::incidents::{ALLOWED, ANSWERED, ASKED, DENIED};
use super::reply_rows::recorded_reply;
use super::{AcceptedRequest, JournalError, migrate};
use punie_core::ids::{LeaseId, RequestId};
use punie_tool::request::OutcomeKind;

/// A read-only view of a journal, which may be in use by a runner.
#[derive(Debug)]
pub struct JournalReader {
    pub(super) connection: Connection,
    /// The number of the backend that it reads for; none where it reads of all.
    pub(super) backend: Option<i64>,
}

const BEGUN: &str = "select id from request where state = 'started' and {own} order by rowid";
const BEGUN_ANYWHERE: &str = "select id from request where state = 'started' order by rowid";
const ASKED_ABOUT: &str = "select id from request where state in ('accepted', 'started') \
     and cancel_requested = 0 and (select kind from incident where request_id = request.id \
     and kind in (?1, ?2, ?3, ?4) order by incident.id desc limit 1) = ?1";
/// One whose reply is lost is none of them: the next start puts it in doubt.
const UNDELIVERED: &str = "select id from request where state = 'finished' and {own} \
     and exists (select 1 from result where request_id = id) order by rowid";
const COUNTS: &str = "select (select count(*) from request where state = 'accepted' and {own}), \
     (select count(*) from request where state = 'started' and {own}), \
     (select count(*) from request where state = 'finished' and {own}), \
     (select min(finished_at_ms) from request where state = 'finished' and {own}), \
     (select count(*) from request where state = 'undeliverable' and {own})";
const CUT_OFF: &str = "select count(*) from request where state = 'started' and {own} and (?1 is null or epoch is not ?1)";
/// Queries that run often: none may read through the closed requests.
#[cfg(test)]
pub(super) const REGULAR: &[&str] = &[BEGUN, BEGUN_ANYWHERE, UNDELIVERED, COUNTS, CUT_OFF];

/// The number of requests that are not closed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenRequestCounts {
    /// Accepted, not begun.
    pub accepted: u32,
    /// Begun.
    pub started: u32,
    /// Answered, not delivered.
    pub outbox: u32,
    /// The time when the oldest undelivered reply was recorded, in milliseconds since 1970.
    pub outbox_oldest_ms: Option<i64>,
    /// Replies that the backend will never take.
    pub undeliverable: u32,
    /// Begun by a run of the runner that has ended: the next start answers them.
    pub cut_off: u32,
}

/// The record of one request, as `TaskOutput` and `history` show it.
#[derive(Debug, Clone)]
pub struct RequestRecord {
    /// Its origin.
    pub origin: RequestOrigin,
    /// The tool asked for.
    pub tool: String,
    /// Its state.
    pub state: RequestState,
    /// The time when it was received, in milliseconds since 1970.
    pub received_at_ms: i64,
    /// The time when it was begun.
    pub started_at_ms: Option<i64>,
    /// The time when it was answered.
    pub finished_at_ms: Option<i64>,
    /// Its outcome, once it has ended.
    pub outcome: Option<OutcomeKind>,
    /// The payload, as long as it is kept.
    pub payload: Option<String>,
}

impl JournalReader {
    /// Opens the file read-only.
    ///
    /// # Errors
    /// [`JournalError::Open`], also when there is no journal yet.
    pub fn open_read_only(path: &Path) -> Result<Self, JournalError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        punie_core::record_locks::install_lock_calls();
        let connection =
            Connection::open_with_flags(path, flags).map_err(JournalError::cannot_open(path))?;
        connection.busy_timeout(std::time::Duration::from_secs(5))?;
        Ok(Self {
            connection,
            backend: None,
        })
    }

    /// Checks the pages and the stored schema of the file.
    ///
    /// # Errors
    /// [`JournalError::Corrupt`]; any other if the pages cannot be read.
    pub fn check_integrity(&self, path: &Path) -> Result<(), JournalError> {
        super::integrity::check_integrity(&self.connection, path)?;
        migrate::check_schema(&self.connection, path, migrate::VERSION)
    }

    /// The journal as another process than its runner may read it; none where there is none yet, or where it is just
    /// being made.
    ///
    /// # Errors
    /// [`JournalError::Open`]; [`JournalError::Older`] and [`JournalError::Newer`] where its tables are not ours.
    pub fn find(path: &Path) -> Result<Option<Self>, JournalError> {
        if !path.exists() {
            return Ok(None);
        }
        let reader = Self::open_read_only(path)?;
        let version: i64 = reader
            .connection
            .pragma_query_value(None, "user_version", |row| row.get(0))?;
        let shown = || path.display().to_string();
        match usize::try_from(version)
            .unwrap_or(usize::MAX)
            .cmp(&migrate::VERSION)
        {
            _ if version == 0 => Ok(None),
            Ordering::Less => Err(JournalError::Older { path: shown() }),
            Ordering::Equal => Ok(Some(reader)),
            Ordering::Greater => Err(JournalError::Newer { path: shown() }),
        }
    }

    /// The requests that are begun and not answered, of all backends, oldest first.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn started_requests(&self) -> Result<Vec<RequestId>, JournalError> {
        self.query_ids(BEGUN_ANYWHERE, [])
    }

    /// Those of them that belong to the backend that this reads for.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn started_requests_here(&self) -> Result<Vec<RequestId>, JournalError> {
        self.query_ids(BEGUN, [])
    }

    /// The requests of all backends about which a person was asked and no answer is recorded. They are not over, and not
    /// taken back.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn requests_asked_about(&self) -> Result<Vec<RequestId>, JournalError> {
        self.query_ids(ASKED_ABOUT, [ASKED, ALLOWED, ANSWERED, DENIED])
    }

    /// The requests whose replies are not delivered, oldest first.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn undelivered_requests(&self) -> Result<Vec<RequestId>, JournalError> {
        self.query_ids(UNDELIVERED, [])
    }

    /// Prepares a statement for the requests of the backend that this reads for: `{own}` in it stands for that.
    pub(super) fn prepare_scoped(&self, sql: &str) -> rusqlite::Result<CachedStatement<'_>> {
        self.connection
            .prepare_cached(&sql.replace("{own}", &self.backend_condition()))
    }

    pub(super) fn query_ids(
        &self,
        sql: &str,
        values: impl Params,
    ) -> Result<Vec<RequestId>, JournalError> {
        self.query_all(sql, values, |row| parse_column(row, 0, RequestId::parse))
    }

    /// Returns one value for each row. `{own}` in the query stands for the backend that this reads for.
    pub(super) fn query_all<T>(
        &self,
        sql: &str,
        values: impl Params,
        from_row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, JournalError> {
        let mut statement = self.prepare_scoped(sql)?;
        let rows = statement.query_map(values, from_row)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Returns the value of the first row of such a query; `None` if there is no row.
    pub(super) fn query_optional<T>(
        &self,
        sql: &str,
        values: impl Params,
        from_row: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, JournalError> {
        let mut statement = self.prepare_scoped(sql)?;
        Ok(statement.query_row(values, from_row).optional()?)
    }

    /// The size of all replies that are not delivered, in bytes.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn undelivered_bytes(&self) -> Result<u64, JournalError> {
        let mut statement = self.connection.prepare_cached(
            "select coalesce(sum(octet_length(payload)), 0) from request join result on request_id = id \
             where state = 'finished'",
        )?;
        let bytes: i64 = statement.query_row([], |row| row.get(0))?;
        Ok(bytes.unsigned_abs())
    }

    /// A reply that is not delivered; none when it is by now.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn undelivered_reply(&self, id: &RequestId) -> Result<Option<RecordedReply>, JournalError> {
        let sql = format!(
            "select {REPLY_COLUMNS} from request join result on request_id = id \
             where id = ? and state = 'finished' and {{own}}"
        );
        self.query_optional(&sql, [id.as_str()], RecordedReply::from_row)
    }

    /// A reply that is recorded and still kept, delivered or not.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn retained_reply(&self, id: &RequestId) -> Result<Option<RecordedReply>, JournalError> {
        match recorded_reply(&self.connection, id) {
            Err(JournalError::Sqlite(rusqlite::Error::QueryReturnedNoRows)) => Ok(None),
            found => found.map(Some),
        }
    }

    /// The number of requests that are not closed, as another process than the runner counts them: a request that another
    /// run of the runner had begun is cut off. `run` is the number of the run that lives, if one does.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn count_beside_runner(&self, run: Option<u32>) -> Result<OpenRequestCounts, JournalError> {
        let mut counts = self.count_open_requests()?;
        counts.cut_off = self
            .prepare_scoped(CUT_OFF)?
            .query_row([run], |row| row.get(0))?;
        counts.started = counts.started.saturating_sub(counts.cut_off);
        Ok(counts)
    }

    /// The number of requests that are not closed.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn count_open_requests(&self) -> Result<OpenRequestCounts, JournalError> {
        Ok(self.prepare_scoped(COUNTS)?.query_row([], |row| {
            Ok(OpenRequestCounts {
                accepted: row.get(0)?,
                started: row.get(1)?,
                outbox: row.get(2)?,
                outbox_oldest_ms: row.get(3)?,
                undeliverable: row.get(4)?,
                cut_off: 0,
            })
        })?)
    }

    /// Returns the record of one request.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn request_record(&self, id: &RequestId) -> Result<Option<RequestRecord>, JournalError> {
        let sql = "select origin, tool, state, received_at_ms, started_at_ms, finished_at_ms, outcome, payload \
                   from request left join result on request_id = id where id = ? and {own}";
        self.query_optional(sql, [id.as_str()], record_from_row)
    }
}

/// Reads the columns of a request's record.
pub(super) fn record_from_row(row: &Row<'_>) -> rusqlite::Result<RequestRecord> {
    Ok(RequestRecord {
        origin: row.get(0)?,
        tool: row.get(1)?,
        state: row.get(2)?,
        received_at_ms: row.get(3)?,
        started_at_ms: row.get(4)?,
        finished_at_ms: row.get(5)?,
        outcome: row
            .get::<_, Option<StoredOutcome>>(6)?
            .map(|stored| stored.0),
        payload: row.get(7)?,
    })
}

impl From<UnfinishedRequest> for AcceptedRequest {
    /// Promised by an earlier run, which this one keeps.
    fn from(left: UnfinishedRequest) -> Self {
        Self::new(left.request, left.effect, left.origin, left.lease)
    }
}

/// The columns that [`unfinished_from_row`] reads behind the request's own columns.
pub(super) const LIFE_COLUMNS: &str = "origin, effect, state, attempt, lease_id";

pub(super) fn unfinished_from_row(row: &Row<'_>) -> rusqlite::Result<UnfinishedRequest> {
    Ok(UnfinishedRequest {
        request: request_from_row(row)?,
        origin: row.get(11)?,
        effect: row.get(12)?,
        state: row.get(13)?,
        attempt: row.get(14)?,
        lease: parse_column(row, 15, LeaseId::parse)?,
    })
}
