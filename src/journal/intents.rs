//! Effects that a call declares before it makes them, so that the next run compares instead of guessing. Not here:
//! what a declaration says (its tool's domain) and who compares.

use rusqlite::params;

use super::read::Reader;
use super::rules::{Event, Write};
use super::writer::Durability;
use super::{Journal, JournalError, steps};
use crate::ids::RequestId;

impl Journal {
    /// Records the effects that a call is about to make, each as JSON text; durable against power loss when it returns,
    /// and with it the call's start.
    ///
    /// # Errors
    /// [`JournalError::Moved`] when the call is not started as one that declares; any other: it must not be done.
    pub async fn declare(&self, request: &RequestId, bodies: Vec<String>) -> Result<(), JournalError> {
        let id = request.clone();
        self.writer
            .write(Durability::Power, move |transaction| {
                let known = steps::known(transaction, &id)?;
                let step = steps::ask(known.as_ref(), &id, Event::Declares)?;
                debug_assert_eq!(step.write, Write::Declare, "a declaration writes nothing else");
                let mut insert = transaction.prepare_cached(
                    "insert into intent (request_id, n, body) \
                     select ?1, coalesce(max(n), 0) + 1, ?2 from intent where request_id = ?1",
                )?;
                for body in bodies {
                    insert.execute(params![id.as_str(), body])?;
                }
                Ok(())
            })
            .await
    }
}

impl Reader {
    /// Returns the effects that a call has declared, in order, each as JSON text.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn declared(&self, request: &RequestId) -> Result<Vec<String>, JournalError> {
        let mut statement =
            self.connection.prepare_cached("select body from intent where request_id = ? order by n")?;
        let rows = statement.query_map([request.as_str()], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}
