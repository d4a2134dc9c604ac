//! A damaged journal: the rows that SQLite can still read are written into a new one, and the old one is put aside. A
//! call that cannot be read any more is still listed by the backend, which knows that it was claimed: it is answered as
//! interrupted.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, Transaction, params_from_iter};
use serde::{Deserialize, Serialize};

use super::{JournalError, backup, file_replace, migrate};
use punie_core::ids::{ConversationId, LeaseId, RequestId, ToolName};
use punie_core::record_locks;
use punie_tool::request::RequestSession;

/// The outcome of replacing a damaged journal. The new journal keeps it for `status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DamageReport {
    /// The damage, in SQLite's words.
    pub cause: String,
    /// The file that was put aside, beside the journal.
    pub file: String,
    /// The number of requests that were carried over.
    pub kept: u32,
    /// The number of requests that could not be, if it is known.
    pub lost: Option<u32>,
    /// The number of their answers, processes and other rows that could not be, as far as it is known.
    pub lost_beside: u32,
}

/// The key under which the new journal keeps the report.
pub(super) const REPORT_KEY: &str = "salvage";

/// The tables in the order in which their rows may be written.
const TABLES: &[&str] = &[
    "backend",
    "backend_fact",
    "request",
    "result",
    "child",
    "kv",
    "shell",
    "intent",
    "incident",
    "task",
];

/// Puts a new journal with the readable rows in the place of a damaged one.
pub(super) fn replace_damaged(
    path: &Path,
    cause: &JournalError,
) -> Result<DamageReport, JournalError> {
    let failed = JournalError::cannot_write(path);
    let draft = file_replace::prepare_draft(path).map_err(&failed)?;
    let mut target = migrate::create_database(&draft)?;
    let transaction = target.transaction()?;
    let mut report = DamageReport {
        cause: cause.to_string(),
        file: file_replace::next_broken_name(path),
        kept: 0,
        lost: None,
        lost_beside: 0,
    };
    if let Some(damaged) = open_damaged(path) {
        for table in TABLES {
            copy_table(&damaged, &transaction, table, &mut report)?;
        }
    }
    mark_outcome_unknown(&transaction)?;
    let text = serde_json::to_string(&report).expect("text and numbers are JSON");
    super::facts::set_key_value(&transaction, REPORT_KEY, &text)?;
    transaction.commit()?;
    drop(target);
    file_replace::replace_journal(path, &draft).map_err(&failed)?;
    tracing::error!(
        cause = report.cause,
        broken = report.file,
        requests.kept = report.kept,
        requests.lost = report.lost,
        "the journal was damaged; what could be read of it was carried over to a new one"
    );
    Ok(report)
}

/// Puts a copy in the place of a journal of which a sync failed. The connection sees the right rows, but what the disk has
/// of them is unknown, and a further sync would not say.
pub(super) fn rewrite_unsynced(
    connection: Connection,
    path: &Path,
) -> Result<Connection, JournalError> {
    let failed = JournalError::cannot_write(path);
    let draft = file_replace::prepare_draft(path).map_err(&failed)?;
    // As the connection sees it: without what it failed to commit.
    backup::copy_database(&connection, &draft)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    drop(connection);
    let aside = file_replace::replace_journal(path, &draft).map_err(&failed)?;
    let opened = migrate::open_checked(path, true)?;
    // Nothing of it is missing in the copy.
    file_replace::remove_database_files(&aside).map_err(&failed)?;
    Ok(opened)
}

impl super::JournalReader {
    /// The report on the last damage, as long as the damaged file is kept. The owner removes it when it is not needed.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn damage_report(&self) -> Result<Option<DamageReport>, JournalError> {
        let known = self
            .read_fact(REPORT_KEY)?
            .and_then(|text| serde_json::from_str::<DamageReport>(&text).ok());
        let folder = self
            .connection
            .path()
            .and_then(|path| Path::new(path).parent());
        Ok(known.filter(|report| folder.is_none_or(|folder| folder.join(&report.file).exists())))
    }
}

/// Opens a damaged file so that it stays as it was found; `None` if SQLite cannot open it at all.
fn open_damaged(path: &Path) -> Option<Connection> {
    record_locks::install_lock_calls();
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).ok()?;
    let wait = std::time::Duration::from_secs(5);
    connection.busy_timeout(wait).ok().map(|()| connection)
}

/// Copies the readable rows of a table and counts the others.
fn copy_table(
    damaged: &Connection,
    target: &Transaction<'_>,
    table: &str,
    report: &mut DamageReport,
) -> Result<(), JournalError> {
    let known = list_columns(damaged, table).unwrap_or_default();
    let mut columns = list_columns(target, table)?;
    // Where all columns are there, one with another name is damaged, and is taken by its place.
    let selected = if known.len() == columns.len() {
        "*".to_owned()
    } else {
        columns.retain(|column| known.contains(column));
        columns.join(", ")
    };
    if columns.is_empty() {
        return Ok(());
    }
    let mut insert = target.prepare(&format!(
        "insert or {} into {table} ({}) values ({})",
        // A new file has one row of these, which stands for what is carried over.
        if table == "backend" {
            "replace"
        } else {
            "ignore"
        },
        columns.join(", "),
        vec!["?"; columns.len()].join(", ")
    ))?;
    let mut kept = 0;
    let mut refused = 0;
    let is_whole = read_around_damage(damaged, table, &selected, |row| {
        let is_sound = table != "request" || is_request_row(&columns, &row);
        // A row that the new tables refuse is as lost as one that cannot be read.
        match is_sound.then(|| insert.execute(params_from_iter(row))) {
            Some(Ok(1)) => kept += 1,
            _ => refused += 1,
        }
    });
    let lost = if is_whole {
        Some(refused)
    } else {
        count_rows(damaged, table).map(|all| all.saturating_sub(kept))
    };
    if table == "request" {
        (report.kept, report.lost) = (kept, lost);
    } else {
        report.lost_beside += lost.unwrap_or(refused);
    }
    Ok(())
}

/// Hands on the rows up to the damage, then those from the end back to it. Returns whether there was no damage.
fn read_around_damage(
    damaged: &Connection,
    table: &str,
    columns: &str,
    mut take: impl FnMut(Vec<Value>),
) -> bool {
    let mut last = i64::MIN;
    let mut read = |order: &str| -> rusqlite::Result<()> {
        let sql =
            format!("select rowid, {columns} from {table} where rowid > ? order by rowid {order}");
        let mut statement = damaged.prepare(&sql)?;
        let count = statement.column_count();
        let mut rows = statement.query([last])?;
        while let Some(row) = rows.next()? {
            let values = (1..count).map(|at| row.get(at)).collect::<Result<_, _>>()?;
            last = row.get(0)?;
            take(values);
        }
        Ok(())
    };
    let is_whole = read("asc").is_ok();
    if !is_whole {
        // Where this stops is the other end of the damage.
        let _ = read("desc");
    }
    is_whole
}

/// Counts the rows by the table's own index, if that can be read.
fn count_rows(damaged: &Connection, table: &str) -> Option<u32> {
    let sql = format!("select count(*) from {table} indexed by sqlite_autoindex_{table}_1");
    damaged.query_row(&sql, [], |row| row.get(0)).ok()
}

fn list_columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare("select name from pragma_table_info(?)")?;
    let names = statement.query_map([table], |row| {
        // Damage need not be UTF-8.
        Ok(String::from_utf8_lossy(row.get_ref(0)?.as_bytes()?).into_owned())
    })?;
    names.collect()
}

/// Marks requests whose reply is lost: it was perhaps never posted. A request that never began is as if it had not been
/// looked at.
pub(super) fn mark_outcome_unknown(target: &Connection) -> rusqlite::Result<()> {
    target.execute_batch(
        "update request set state = case attempt when 0 then 'accepted' else 'started' end, \
         outcome = null, finished_at_ms = null \
         where state = 'finished' and not exists (select 1 from result where request_id = id)",
    )
}

/// Returns whether a row can be read as a request, so that recovery does not fail on it.
fn is_request_row(columns: &[String], row: &[Value]) -> bool {
    let text = |name: &str| match &row[columns.iter().position(|column| column == name)?] {
        Value::Text(text) => Some(text.clone()),
        _ => None,
    };
    let parse_all = || {
        RequestId::parse(text("id")?).ok()?;
        ToolName::parse(text("tool")?).ok()?;
        ConversationId::from_key(text("conversation")?).ok()?;
        if let Some(session) = text("session") {
            RequestSession::from_json(&session).ok()?;
        }
        LeaseId::parse(text("lease_id")?).ok()
    };
    parse_all().is_some()
}
