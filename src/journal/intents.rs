//! What calls declare before they do it, kept with their requests. Not here: what a declaration says (tool) and what
//! is made of it after a crash (runner::aftermath).

use rusqlite::{OptionalExtension, params};

use super::accept::Accepted;
use super::read::Reader;
use super::transitions::{Started, begin};
use super::writer::Durability;
use super::{Journal, JournalError};
use crate::ids::RequestId;

impl Journal {
    /// Records that a call begins that declares each effect before it makes it. This is durable against a crash of
    /// the process only: the first declaration makes it durable against a power cut too, and before that nothing has
    /// happened.
    ///
    /// # Errors
    /// As [`Journal::start`].
    pub async fn start_declaring(&self, call: &Accepted, now_ms: i64) -> Result<Started, JournalError> {
        let id = call.request().id.clone();
        self.writer
            .write(Durability::Process, move |transaction| {
                // What an earlier execution declared was found not to have happened.
                transaction
                    .prepare_cached("delete from intent where request_id = ?")?
                    .execute([id.as_str()])?;
                begin(transaction, id, true, now_ms)
            })
            .await
    }

    /// Records what a started call is about to do, as JSON text, behind what it declared before. Durable against
    /// power loss when it returns.
    ///
    /// # Errors
    /// [`JournalError::Moved`] when the call is not started; any other: it must not be done.
    pub async fn declare(&self, id: &RequestId, bodies: Vec<String>) -> Result<(), JournalError> {
        let id = id.clone();
        self.writer
            .write(Durability::Power, move |transaction| {
                for body in bodies {
                    let added = transaction
                        .prepare_cached(
                            "insert into intent (request_id, n, body) \
                             select ?1, (select coalesce(max(n), 0) + 1 from intent where request_id = ?1), ?2 \
                             where exists (select 1 from request where id = ?1 and state = 'started')",
                        )?
                        .execute(params![id.as_str(), body])?;
                    if added == 0 {
                        return Err(JournalError::Moved { id, expected: "started" });
                    }
                }
                Ok(())
            })
            .await
    }
}

impl Reader {
    /// What a call that declares its effects has declared, in order, as JSON text; none of one that does not.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn declared(&self, id: &RequestId) -> Result<Option<Vec<String>>, JournalError> {
        let mut statement = self.connection.prepare_cached("select declares from request where id = ?")?;
        let declares: Option<bool> = statement.query_row([id.as_str()], |row| row.get(0)).optional()?;
        if declares != Some(true) {
            return Ok(None);
        }
        let mut statement =
            self.connection.prepare_cached("select body from intent where request_id = ? order by n")?;
        let bodies = statement.query_map([id.as_str()], |row| row.get(0))?;
        Ok(Some(bodies.collect::<Result<_, _>>()?))
    }
}
