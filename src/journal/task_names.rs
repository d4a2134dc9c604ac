//! Short names of tasks, `task_7`: a task is a request, whose id is too long to be repeated in every answer. Not here:
//! the tasks themselves (runner::tasks).

use rusqlite::OptionalExtension as _;

use super::entry::parse_column;
use super::journal_reader::JournalReader;
use super::writer::WriteDurability;
use super::{Journal, JournalError};
use crate::ids::RequestId;

/// The beginning of every short name.
const PREFIX: &str = "task_";

impl Journal {
    /// Gives a task its short name, or tells the one that it has.
    ///
    /// # Errors
    /// The journal could not be written.
    pub async fn assign_task_name(&self, id: &RequestId) -> Result<String, JournalError> {
        let id = id.clone();
        self.writer
            .write_and_wait(WriteDurability::ProcessCrash, move |transaction| {
                transaction
                    .prepare_cached("insert or ignore into task (request_id) values (?)")?
                    .execute([id.as_str()])?;
                let number = transaction
                    .prepare_cached("select number from task where request_id = ?")?
                    .query_row([id.as_str()], |row| row.get(0))?;
                Ok(format_task_name(number))
            })
            .await
    }
}

impl JournalReader {
    /// The task with this short name or, as earlier versions told it, this id. None where the name was never given.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn find_task_by_name(&self, name: &str) -> Result<Option<RequestId>, JournalError> {
        let Some(number) = name
            .strip_prefix(PREFIX)
            .and_then(|digits| digits.parse::<i64>().ok())
        else {
            return Ok(RequestId::parse(name).ok());
        };
        let mut statement = self
            .connection
            .prepare_cached("select request_id from task where number = ?")?;
        Ok(statement
            .query_row([number], |row| parse_column(row, 0, RequestId::parse))
            .optional()?)
    }
}

/// The short name with this number.
pub(super) fn format_task_name(number: i64) -> String {
    format!("{PREFIX}{number}")
}
