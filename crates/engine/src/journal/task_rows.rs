//! Tasks as `TaskOutput` lists them, and their short names, `task_7`: a task is a request, whose id is too long to be
//! repeated in every answer.

use super::entry::parse_column;
use super::journal_reader::{JournalReader, RequestRecord, record_from_row};
use super::statements::execute_cached;
use super::write_job::WriteDurability;
use super::{Journal, JournalError};
use punie_core::ids::RequestId;
use punie_tool::request::RequestSession;

/// The beginning of every short name.
const PREFIX: &str = "task_";

pub(super) const TASKS: &str = "select origin, tool, state, received_at_ms, started_at_ms, finished_at_ms, outcome, null, id, \
     substr(args, 1, 100), (select number from task where request_id = id) from request where origin = 'task' and {own} and received_at_ms >= ?1 and (?3 is null or session = ?3) order by rowid desc limit ?2";

/// One task among others: its record without its payload, and the beginning of its arguments.
#[derive(Debug, Clone)]
pub struct ListedTask {
    /// Its short name, or its id where it was never given one.
    pub name: String,
    /// The first characters of its arguments' JSON text.
    pub args: String,
    /// Its record.
    pub record: RequestRecord,
}

impl Journal {
    /// Gives a task its short name, or tells the one that it has.
    ///
    /// # Errors
    /// The journal could not be written.
    pub async fn assign_task_name(&self, id: &RequestId) -> Result<String, JournalError> {
        let id = id.clone();
        self.writer
            .write_and_wait(WriteDurability::ProcessCrash, move |transaction| {
                let sql = "insert or ignore into task (request_id) values (?)";
                execute_cached(transaction, sql, [id.as_str()])?;
                let number = transaction
                    .prepare_cached("select number from task where request_id = ?")?
                    .query_row([id.as_str()], |row| row.get(0))?;
                Ok(format_task_name(number))
            })
            .await
    }
}

impl JournalReader {
    /// The task with this short name or, as earlier versions told it, this id. None where the name was never given, or
    /// not to a call of this session.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn find_task_by_name(
        &self,
        name: &str,
        of: Option<&RequestSession>,
    ) -> Result<Option<RequestId>, JournalError> {
        let number = name
            .strip_prefix(PREFIX)
            .and_then(|digits| digits.parse::<i64>().ok());
        let sql = "select id from request where id = coalesce((select request_id from task where number = ?1), ?2) \
                   and (?3 is null or session = ?3)";
        let of = of.map(RequestSession::to_json);
        self.query_optional(sql, (number, name, of), |row| {
            parse_column(row, 0, RequestId::parse)
        })
    }

    /// The tasks that were asked for since then, the latest first, at most so many; with a session, only its own.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn list_tasks(
        &self,
        since_ms: i64,
        limit: u32,
        of: Option<&RequestSession>,
    ) -> Result<Vec<ListedTask>, JournalError> {
        let of = of.map(RequestSession::to_json);
        self.query_all(TASKS, (since_ms, limit, of), |row| {
            let number: Option<i64> = row.get(10)?;
            Ok(ListedTask {
                name: number.map_or_else(|| row.get(8), |number| Ok(format_task_name(number)))?,
                args: row.get(9)?,
                record: record_from_row(row)?,
            })
        })
    }
}

/// The short name with this number.
fn format_task_name(number: i64) -> String {
    format!("{PREFIX}{number}")
}
