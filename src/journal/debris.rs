//! Reading around the damage of a broken database: forward until a row cannot be read, backward until one cannot be,
//! and what is between row by row. Nothing is written. Not here: what is made of the rows (salvage).

use std::collections::HashSet;
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::types::Value;
use rusqlite::{Connection, Row};

use crate::record_locks;

/// How many single rows are asked for between what can be read from both ends.
const PROBES: i64 = 50_000;

/// A broken database.
pub(super) struct Debris {
    connection: Connection,
}

/// The columns of a table.
pub(super) fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare("select name from pragma_table_info(?)")?;
    statement.query_map([table], |row| row.get(0))?.collect()
}

impl Debris {
    /// None where SQLite knows nothing of it at all.
    pub(super) fn open(path: &Path) -> Option<Self> {
        record_locks::install();
        let connection = Connection::open(path).ok()?;
        // It is kept as it was found.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).ok()?;
        connection.pragma_update(None, "wal_autocheckpoint", 0).ok()?;
        connection.busy_timeout(std::time::Duration::from_secs(5)).ok()?;
        Some(Self { connection })
    }

    pub(super) fn columns(&self, table: &str) -> Vec<String> {
        columns(&self.connection, table).unwrap_or_default()
    }

    /// Hands on every row that can be read, once. How many are known to be there and cannot be.
    pub(super) fn rows(&self, table: &str, columns: &[String], take: &mut dyn FnMut(i64, Vec<Value>)) -> u32 {
        let head = format!("select rowid, {} from {table}", columns.join(", "));
        let mut read = |sql: &str, after: i64| self.walk(sql, after, columns.len(), take);
        let forward = read(&format!("{head} where rowid > ? order by rowid"), i64::MIN);
        let first = forward.last.unwrap_or(0);
        if forward.whole {
            return 0;
        }
        let backward = read(&format!("{head} where rowid > ? order by rowid desc"), first);
        let end = backward.last.unwrap_or(first.saturating_add(PROBES));
        let mut unread = 0;
        for rowid in (first.saturating_add(1)..end).take(usize::try_from(PROBES).unwrap_or(usize::MAX)) {
            let probe = read(&format!("{head} where rowid = ?"), rowid);
            unread += u32::from(!probe.whole && backward.last.is_some());
        }
        unread
    }

    fn walk(&self, sql: &str, bound: i64, columns: usize, take: &mut dyn FnMut(i64, Vec<Value>)) -> Walk {
        let mut walk = Walk { last: None, whole: false };
        let Ok(mut statement) = self.connection.prepare_cached(sql) else { return walk };
        let Ok(mut rows) = statement.query([bound]) else { return walk };
        loop {
            let row = match rows.next() {
                Ok(Some(row)) => row,
                Ok(None) => break,
                Err(_) => return walk,
            };
            let Ok((rowid, values)) = values(row, columns) else { return walk };
            walk.last = Some(rowid);
            take(rowid, values);
        }
        walk.whole = true;
        walk
    }

    /// How many rows the table's own index names beside those that were read; none where it cannot be read either.
    pub(super) fn missing(&self, table: &str, read: &HashSet<i64>) -> Option<u32> {
        let sql = format!("select rowid from {table} indexed by sqlite_autoindex_{table}_1");
        let mut statement = self.connection.prepare(&sql).ok()?;
        let named = statement.query_map([], |row| row.get::<_, i64>(0)).ok()?;
        let mut missing = 0;
        for rowid in named {
            missing += u32::from(!read.contains(&rowid.ok()?));
        }
        Some(missing)
    }
}

/// How far a walk came.
struct Walk {
    last: Option<i64>,
    whole: bool,
}

fn values(row: &Row<'_>, columns: usize) -> rusqlite::Result<(i64, Vec<Value>)> {
    let values = (1..=columns).map(|at| row.get(at)).collect::<Result<_, _>>()?;
    Ok((row.get(0)?, values))
}
