//! Small facts that are kept over restarts, of the device or of one backend: the cursor, the clock's offset and figures
//! for `status`.

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use super::statements::execute_cached;
use super::transition_rules::next_cursor;
use super::{Journal, JournalError, JournalReader};

/// The key of the last time that the backend told, in milliseconds since 1970.
pub(crate) const BACKEND_TIME: &str = "backend_time_ms";

/// The facts that belong to a backend. All others belong to the device.
const FACTS_OF_BACKEND: &[&str] = &[
    "cursor",
    "clock_offset_ms",
    BACKEND_TIME,
    "catalog_revision",
    "catalog_published_tool",
    "catalog_published_skill",
    "catalog_published_agent",
    "last_contact_ms",
    "last_poll_ms",
    "backend_trouble",
    "backend_link",
    "request_key",
];

impl Journal {
    /// Keeps a small fact over restarts: of the device, or of the backend that this process works for (the cursor, the
    /// clock's offset).
    ///
    /// # Errors
    /// The journal could not be written.
    pub async fn store_fact(&self, key: &'static str, value: String) -> Result<(), JournalError> {
        let backend = self.current.row_id();
        self.writer
            .write_unordered(move |transaction| {
                Ok(set_backend_fact(transaction, backend, key, &value)?)
            })
            .await
    }

    /// Stores small facts for `status` without waiting; a failure is only logged.
    pub fn store_facts_later(&self, facts: Vec<(&'static str, String)>) {
        if facts.is_empty() {
            return;
        }
        let backend = self.current.row_id();
        self.writer.write_detached(move |transaction| {
            facts.iter().try_for_each(|(key, value)| {
                Ok(set_backend_fact(transaction, backend, key, value)?)
            })
        });
    }

    /// Resets the polling cursor: polling begins anew, and known requests are recognised.
    ///
    /// # Errors
    /// The journal could not be written.
    pub async fn reset_cursor(&self) -> Result<(), JournalError> {
        let backend = self.current.row_id();
        self.writer
            .write_unordered(move |transaction| {
                let sql = "delete from backend_fact where backend = ? and key = 'cursor'";
                Ok(transaction.execute(sql, [backend]).map(drop)?)
            })
            .await
    }
}

impl JournalReader {
    /// Reads a small fact of the device, or of the backend that this reads for.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read_fact(&self, key: &str) -> Result<Option<String>, JournalError> {
        Ok(backend_fact(&self.connection, self.facts_backend()?, key)?)
    }

    /// Reads the last time that the backend told a process of this home, in milliseconds since 1970.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn last_backend_time_ms(&self) -> Result<Option<i64>, JournalError> {
        let stored = self.read_fact(BACKEND_TIME)?;
        Ok(stored.and_then(|time| time.parse().ok()))
    }
}

/// Writes a fact where it belongs.
fn set_backend_fact(
    transaction: &Transaction<'_>,
    backend: i64,
    key: &str,
    value: &str,
) -> rusqlite::Result<()> {
    if !FACTS_OF_BACKEND.contains(&key) {
        return set_key_value(transaction, key, value);
    }
    execute_cached(
        transaction,
        "insert into backend_fact (backend, key, value) values (?, ?, ?) \
         on conflict (backend, key) do update set value = excluded.value",
        params![backend, key, value],
    )
    .map(drop)
}

/// Writes a fact of the device.
pub(super) fn set_key_value(
    connection: &Connection,
    key: &str,
    value: &str,
) -> rusqlite::Result<()> {
    let sql = "insert into kv (key, value) values (?, ?) on conflict (key) do update set value = excluded.value";
    execute_cached(connection, sql, [key, value]).map(drop)
}

/// Moves the cursor on, never back.
pub(super) fn advance_cursor(
    transaction: &Transaction<'_>,
    backend: i64,
    offered: &str,
) -> rusqlite::Result<()> {
    let stored = backend_fact(transaction, backend, "cursor")?;
    match next_cursor(stored.as_deref(), offered) {
        Some(cursor) => set_backend_fact(transaction, backend, "cursor", cursor),
        None => Ok(()),
    }
}

/// Reads a fact from where it belongs.
fn backend_fact(
    connection: &Connection,
    backend: i64,
    key: &str,
) -> rusqlite::Result<Option<String>> {
    if FACTS_OF_BACKEND.contains(&key) {
        let mut statement = connection
            .prepare_cached("select value from backend_fact where backend = ? and key = ?")?;
        return statement
            .query_row(params![backend, key], |row| row.get(0))
            .optional();
    }
    let mut statement = connection.prepare_cached("select value from kv where key = ?")?;
    statement.query_row([key], |row| row.get(0)).optional()
}
