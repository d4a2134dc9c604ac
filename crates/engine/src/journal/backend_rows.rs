//! Which backend a request, a cursor and other facts belong to. A backend is known by the id of its deployment, and by
//! its address as long as that is all that is known of it. Each process works for one; the rows of the others wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::journal_reader::JournalReader;
use super::write_job::WriteDurability;
use super::{Journal, JournalError};

/// The row that owns requests older than this table, until a backend takes them over.
const UNASSIGNED: i64 = 0;

/// The backend that a process works for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendIdentity {
    /// Its address, normalised.
    pub address: String,
    /// The id of the deployment, where it is known.
    pub id: Option<String>,
    /// True if it takes over the requests that have no recorded backend. Set for a configured backend.
    pub adopts_unassigned: bool,
}

/// A backend that this device has worked for, with the requests that wait for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingBackend {
    /// Its address; none where it is not known.
    pub address: Option<String>,
    /// The id of the deployment, where it has one.
    pub id: Option<String>,
    /// Requests that are not answered.
    pub requests: u32,
    /// Results that are not delivered.
    pub results: u32,
    /// The time when the oldest of these requests was received, in milliseconds since 1970.
    pub oldest_ms: Option<i64>,
}

/// The number of the backend that a process works for. All clones of a journal share it.
#[derive(Debug, Clone, Default)]
pub(super) struct CurrentBackend(Arc<AtomicI64>);

impl CurrentBackend {
    pub(super) fn new(number: i64) -> Self {
        Self(Arc::new(AtomicI64::new(number)))
    }

    pub(super) fn row_id(&self) -> i64 {
        self.0.load(Ordering::Acquire)
    }

    fn set_row_id(&self, number: i64) {
        self.0.store(number, Ordering::Release);
    }
}

/// Finds or makes the row of this backend, and notes that this process works for it. Returns its number.
pub(super) fn select_backend(
    connection: &mut Connection,
    backend: &BackendIdentity,
) -> rusqlite::Result<i64> {
    let transaction = connection.transaction()?;
    let known = match backend.id.as_deref() {
        Some(id) => match find_backend_by_id(&transaction, id)? {
            // Met at this address before it said who it is.
            None => {
                find_backend_by_address(&transaction, &backend.address, "id is null or id = ''")?
            }
            known => known,
        },
        None => find_backend_by_address(&transaction, &backend.address, "true")?,
    };
    let unassigned: Option<i64> = transaction
        .query_row(
            "select number from backend where number = ? and address = ''",
            [UNASSIGNED],
            |row| row.get(0),
        )
        .optional()?;
    let number = match (known, unassigned.filter(|_| backend.adopts_unassigned)) {
        (Some(known), Some(unassigned)) => {
            merge_backends(&transaction, unassigned, known)?;
            known
        }
        (Some(number), None) | (None, Some(number)) => number,
        (None, None) => insert_backend(&transaction)?,
    };
    transaction.execute(
        "update backend set address = ?1, id = coalesce(?2, id), used = (select 1 + max(used) from backend) \
         where number = ?3",
        params![backend.address, backend.id, number],
    )?;
    transaction.commit()?;
    Ok(number)
}

/// The backend that the last process worked for.
pub(super) fn last_used_backend(connection: &Connection) -> rusqlite::Result<i64> {
    let sql = "select number from backend order by used desc, number limit 1";
    Ok(connection
        .query_row(sql, [], |row| row.get(0))
        .optional()?
        .unwrap_or(UNASSIGNED))
}

fn find_backend_by_id(connection: &Connection, id: &str) -> rusqlite::Result<Option<i64>> {
    let sql = "select number from backend where id = ?1 and id <> ''";
    connection.query_row(sql, [id], |row| row.get(0)).optional()
}

fn find_backend_by_address(
    connection: &Connection,
    address: &str,
    which: &str,
) -> rusqlite::Result<Option<i64>> {
    let sql = format!(
        "select number from backend where address = ? and ({which}) order by used desc limit 1"
    );
    connection
        .query_row(&sql, [address], |row| row.get(0))
        .optional()
}

/// A new row. Its number is none that a request has: where the table was lost, its requests may not be.
fn insert_backend(connection: &Connection) -> rusqlite::Result<i64> {
    connection.execute(
        "insert into backend (number, address, used) \
         select 1 + max((select coalesce(max(number), 0) from backend), (select coalesce(max(backend), 0) from request)), \
         '', 0",
        [],
    )?;
    Ok(connection.last_insert_rowid())
}

/// Gives all requests of a backend to another, which turned out to be the same.
fn merge_backends(connection: &Connection, from: i64, to: i64) -> rusqlite::Result<()> {
    connection.execute(
        "update request set backend = ? where backend = ?",
        [to, from],
    )?;
    connection.execute("delete from backend_fact where backend = ?", [from])?;
    connection
        .execute("delete from backend where number = ?", [from])
        .map(drop)
}

/// Writes down which deployment answered. Returns the backend to work for from here on.
fn record_deployment_id(
    transaction: &Transaction<'_>,
    current: i64,
    id: Option<&str>,
) -> rusqlite::Result<i64> {
    let known: Option<String> = transaction.query_row(
        "select id from backend where number = ?",
        [current],
        |row| row.get(0),
    )?;
    let Some(id) = id else {
        // It was asked, and has none.
        let sql = "update backend set id = coalesce(id, '') where number = ?";
        transaction.execute(sql, [current])?;
        return Ok(current);
    };
    if known.as_deref() == Some(id) {
        return Ok(current);
    }
    let is_named = known.is_some_and(|known| !known.is_empty());
    match find_backend_by_id(transaction, id)? {
        Some(other) => {
            if !is_named {
                let address = "update backend set address = (select address from backend where number = ?1), \
                               used = (select 1 + max(used) from backend) where number = ?2";
                transaction.execute(address, [current, other])?;
                merge_backends(transaction, current, other)?;
            }
            Ok(other)
        }
        None if is_named => {
            let number = insert_backend(transaction)?;
            let sql = "update backend set id = ?1, used = (select 1 + max(used) from backend), \
                       address = (select address from backend where number = ?2) where number = ?3";
            transaction.execute(sql, params![id, current, number])?;
            Ok(number)
        }
        None => {
            let sql = "update backend set id = ? where number = ?";
            transaction.execute(sql, params![id, current])?;
            Ok(current)
        }
    }
}

impl Journal {
    /// Returns whether the backend that this process works for was never asked for its id.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn backend_is_unnamed(&self) -> Result<bool, JournalError> {
        let sql = "select count(*) from backend where number = ? and id is null";
        Ok(self
            .open_reader()?
            .connection
            .query_row(sql, [self.current.row_id()], |row| row.get(0))?)
    }

    /// Writes down which deployment answered this process; none where it has no id. Returns whether it is one that is
    /// known by another address: then its requests are those that this process works for from here on, and it has
    /// settled others.
    ///
    /// # Errors
    /// The journal could not be written.
    pub async fn name_backend(&self, id: Option<String>) -> Result<bool, JournalError> {
        let current = self.current.clone();
        let now = self
            .writer
            .write_and_wait(WriteDurability::ProcessCrash, {
                let current = current.row_id();
                move |transaction| Ok(record_deployment_id(transaction, current, id.as_deref())?)
            })
            .await?;
        let changed = now != current.row_id();
        current.set_row_id(now);
        Ok(changed)
    }
}

impl JournalReader {
    /// The same file, as far as it is about the backend of this id or, without one, at this address; nothing of it where
    /// that is not known.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn for_backend(mut self, address: &str, id: Option<&str>) -> Result<Self, JournalError> {
        let by_id = id.map(|id| find_backend_by_id(&self.connection, id));
        let found = match by_id.transpose()?.flatten() {
            None => find_backend_by_address(&self.connection, address, "true")?,
            found => found,
        };
        self.backend = Some(found.unwrap_or(NO_BACKEND));
        Ok(self)
    }

    /// The same file, as far as it is about the backend that the last process worked for.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn for_last_backend(mut self) -> Result<Self, JournalError> {
        self.backend = Some(last_used_backend(&self.connection)?);
        Ok(self)
    }

    /// A condition for requests of the backend that this reads for.
    pub(super) fn backend_condition(&self) -> String {
        self.backend
            .map_or_else(|| "true".to_owned(), |number| format!("backend = {number}"))
    }

    /// The number of the backend whose facts this reads.
    pub(super) fn facts_backend(&self) -> rusqlite::Result<i64> {
        self.backend
            .map_or_else(|| last_used_backend(&self.connection), Ok)
    }

    /// Lists the requests that wait for other backends than the one that this reads for, by backend.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn other_waiting_backends(&self) -> Result<Vec<WaitingBackend>, JournalError> {
        let text = |text: Option<String>| text.filter(|text| !text.is_empty());
        self.query_all(
            // One query for each state: the planner uses no partial index for several.
            "select backend.address, backend.id, count(*) filter (where not is_result), \
             count(*) filter (where is_result), min(received_at_ms) from ( \
             select backend, 0 as is_result, received_at_ms from request where state = 'accepted' \
             union all select backend, 0, received_at_ms from request where state = 'started' \
             union all select backend, 1, received_at_ms from request where state = 'finished') as live \
             left join backend on backend.number = live.backend where live.backend <> ? \
             group by live.backend order by live.backend",
            [self.facts_backend()?],
            |row| {
                Ok(WaitingBackend {
                    address: text(row.get(0)?),
                    id: text(row.get(1)?),
                    requests: row.get(2)?,
                    results: row.get(3)?,
                    oldest_ms: row.get(4)?,
                })
            },
        )
    }
}

/// A number that no backend has.
const NO_BACKEND: i64 = -1;
