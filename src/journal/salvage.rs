//! A journal that is damaged: its readable rows are written into a new one, the old one is put aside. What is read
//! here is trusted only as far as it can be read as what it claims to be. Not here: reading around damage (debris),
//! the exchange of the files (swap), and what becomes of calls in doubt, which recovery answers as after any crash.

use std::collections::HashSet;
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::types::Value;
use rusqlite::{Connection, Transaction, params_from_iter};
use serde::{Deserialize, Serialize};

use super::debris::{self, Debris};
use super::{JournalError, backup, gleanings, migrate, swap};
use crate::ids::{ConversationId, LeaseId, RequestId, ToolName};

/// What was made of a journal that could not be trusted any more; remembered in the new one, for `status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Salvage {
    /// Why, in SQLite's words.
    pub cause: String,
    /// The file that was put aside, beside the journal.
    pub file: String,
    /// How many requests were carried over.
    pub kept: u32,
    /// How many requests could not be.
    pub lost: u32,
    /// How many of their answers, processes and other rows could not be.
    pub lost_beside: u32,
}

/// The small fact under which the last salvage is remembered.
pub(super) const KEY: &str = "salvage";

/// Puts a new journal with what can be read in the place of a damaged one.
pub(super) fn replace(path: &Path, cause: &JournalError) -> Result<Salvage, JournalError> {
    let failed = |cause| JournalError::File { path: path.display().to_string(), cause };
    let draft = swap::draft(path).map_err(failed)?;
    let mut target = migrate::new_file(&draft)?;
    let transaction = target.transaction()?;
    let mut salvage = carry_over(path, &transaction)?;
    salvage.cause = cause.to_string();
    salvage.file = swap::next_aside(path);
    remember(&transaction, &salvage)?;
    transaction.commit()?;
    drop(target);
    swap::swap(path, &draft).map_err(failed)?;
    tracing::error!(
        cause = salvage.cause,
        broken = salvage.file,
        requests.kept = salvage.kept,
        requests.lost = salvage.lost,
        "the journal was damaged; what could be read of it was carried over to a new one"
    );
    Ok(salvage)
}

/// Puts a copy in the place of a journal of which a sync failed: what the connection sees is right, what the disk has
/// of it nobody can tell, and a further sync would not say.
pub(super) fn rewrite(connection: Connection, path: &Path) -> Result<Connection, JournalError> {
    let failed = |cause| JournalError::File { path: path.display().to_string(), cause };
    let draft = swap::draft(path).map_err(failed)?;
    // As the connection sees it: without what it failed to commit.
    backup::copy(&connection, &draft)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    drop(connection);
    let aside = swap::swap(path, &draft).map_err(failed)?;
    let opened = migrate::open_sound(path, true)?;
    // Nothing of it is missing in the copy.
    swap::remove_database(&aside).map_err(failed)?;
    Ok(opened)
}

impl super::Reader {
    /// What was carried over when the journal was last found damaged, as long as the damaged file is kept: whoever
    /// has seen to it removes it.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn salvage(&self) -> Result<Option<Salvage>, JournalError> {
        let known = self.recall(KEY)?.and_then(|text| serde_json::from_str::<Salvage>(&text).ok());
        let folder = self.connection.path().and_then(|path| Path::new(path).parent());
        Ok(known.filter(|salvage| folder.is_none_or(|folder| folder.join(&salvage.file).exists())))
    }
}

fn remember(transaction: &Transaction<'_>, salvage: &Salvage) -> Result<(), JournalError> {
    let text = serde_json::to_string(salvage).expect("text and numbers are JSON");
    Ok(super::transitions::set_kv(transaction, KEY, &text)?)
}

/// The tables in the order in which their rows may be written.
const TABLES: &[&str] =
    &["backend", "backend_fact", "request", "result", "child", "kv", "shell", "intent", "incident", "task"];

fn carry_over(path: &Path, target: &Transaction<'_>) -> Result<Salvage, JournalError> {
    let mut salvage = Salvage { cause: String::new(), file: String::new(), kept: 0, lost: 0, lost_beside: 0 };
    if let Some(debris) = Debris::open(path) {
        carry_tables(&debris, target, &mut salvage)?;
    }
    if salvage.lost > 0 || salvage.lost_beside > 0 || salvage.kept == 0 {
        let gleaned = gleanings::add(path, target)?;
        salvage.kept += gleaned;
        salvage.lost = salvage.lost.saturating_sub(gleaned);
    }
    put_in_doubt(target)?;
    Ok(salvage)
}

fn carry_tables(
    debris: &Debris,
    target: &Transaction<'_>,
    salvage: &mut Salvage,
) -> Result<(), JournalError> {
    for table in TABLES {
        let columns = shared_columns(debris, target, table)?;
        if columns.is_empty() {
            continue;
        }
        let mut insert = target.prepare(&format!(
            "insert or {} into {table} ({}) values ({})",
            // A new file has one row of these, which stands for what is carried over.
            if *table == "backend" { "replace" } else { "ignore" },
            columns.join(", "),
            vec!["?"; columns.len()].join(", ")
        ))?;
        let (mut kept, mut refused) = (0, 0);
        let mut seen = HashSet::new();
        let unread = debris.rows(table, &columns, &mut |rowid, row: Vec<Value>| {
            seen.insert(rowid);
            let sound = *table != "request" || is_sound(&columns, &row);
            // A row that the new tables refuse is as lost as one that cannot be read.
            match sound.then(|| insert.execute(params_from_iter(row))) {
                Some(Ok(1)) => kept += 1,
                _ => refused += 1,
            }
        });
        let lost = refused + debris.missing(table, &seen).unwrap_or(unread);
        if *table == "request" {
            (salvage.kept, salvage.lost) = (kept, lost);
        } else {
            salvage.lost_beside += lost;
        }
    }
    Ok(())
}

/// A reply that could not be read was perhaps never posted: its request is again where its reply is not known. One
/// that never began is as if it had not been looked at.
pub(super) fn put_in_doubt(target: &Connection) -> rusqlite::Result<()> {
    target.execute_batch(
        "update request set state = case attempt when 0 then 'accepted' else 'started' end, \
         outcome = null, finished_at_ms = null \
         where state = 'finished' and not exists (select 1 from result where request_id = id)",
    )
}

/// The columns that both the broken file and the new one have; none where the broken one tells nothing.
fn shared_columns(
    debris: &Debris,
    target: &Transaction<'_>,
    table: &str,
) -> Result<Vec<String>, JournalError> {
    let there: HashSet<String> = debris.columns(table).into_iter().collect();
    let wanted = debris::columns(target, table)?;
    Ok(wanted.into_iter().filter(|column| there.contains(column)).collect())
}

/// Whether a request's row can be read as a request: recovery must not stumble over it.
pub(super) fn is_sound(columns: &[String], row: &[Value]) -> bool {
    let text = |name: &str| {
        let at = columns.iter().position(|column| column == name)?;
        match &row[at] {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        }
    };
    let all = || {
        RequestId::parse(text("id")?).ok()?;
        ToolName::parse(text("tool")?).ok()?;
        ConversationId::parse(text("conversation")?).ok()?;
        LeaseId::parse(text("lease_id")?).ok()
    };
    all().is_some()
}
