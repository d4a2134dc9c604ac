//! The processes that calls started, so that the next process of the runner can end those that are left.

use rusqlite::params;

use super::entry::parse_column;
use super::statements::execute_cached;
use super::write_job::WriteDurability;
use super::{Journal, JournalError, JournalReader};
use punie_core::ids::RequestId;

impl Journal {
    /// Records a process that a call started.
    ///
    /// # Errors
    /// The journal could not be written.
    pub async fn record_child_start(
        &self,
        request: &RequestId,
        identity: String,
        command: String,
        now_ms: i64,
    ) -> Result<(), JournalError> {
        let id = request.clone();
        self.writer
            .write_and_wait(WriteDurability::ProcessCrash, move |transaction| {
                execute_cached(
                    transaction,
                    "insert or replace into child (request_id, identity, command, started_at_ms) \
                     select ?1, ?2, ?3, ?4 where exists (select 1 from request where id = ?1)",
                    params![id.as_str(), identity, command, now_ms],
                )?;
                Ok(())
            })
            .await
    }

    /// Records later that a process is gone. A lost record costs a check at the next start.
    pub fn record_child_end(&self, identity: String) {
        self.writer.write_later(move |transaction| {
            execute_cached(
                transaction,
                "delete from child where identity = ?",
                [identity],
            )?;
            Ok(())
        });
    }
}

impl JournalReader {
    /// Lists the processes that requests' calls had started, of all backends.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn child_processes(&self) -> Result<Vec<(RequestId, String)>, JournalError> {
        let sql = "select request_id, identity from child order by rowid";
        self.query_all(sql, [], |row| {
            Ok((parse_column(row, 0, RequestId::parse)?, row.get(1)?))
        })
    }
}
