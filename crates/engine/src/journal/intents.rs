//! Effects that a call declares before it makes them, so that the next run compares instead of guessing.

use rusqlite::params;

use super::journal_reader::JournalReader;
use super::transition_rules::{RequestEvent, TransitionWrite};
use super::write_job::WriteDurability;
use super::{Journal, JournalError, apply_transition};
use punie_core::ids::RequestId;

impl Journal {
    /// Records the effects that a call is about to make, each as JSON text; durable against power loss when it returns,
    /// and with it the call's start.
    ///
    /// # Errors
    /// [`JournalError::Moved`] when the call is not started as one that declares; any other: it must not be done.
    pub async fn record_intents(
        &self,
        request: &RequestId,
        bodies: Vec<String>,
    ) -> Result<(), JournalError> {
        let id = request.clone();
        self.writer
            .write_and_wait(WriteDurability::PowerLoss, move |transaction| {
                let known = apply_transition::read_known_request(transaction, &id)?;
                let step = apply_transition::decide_transition(
                    known.as_ref(),
                    &id,
                    RequestEvent::Declares,
                )?;
                debug_assert_eq!(
                    step.write,
                    TransitionWrite::Declare,
                    "a declaration writes nothing else"
                );
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

impl JournalReader {
    /// Returns the effects that a call has declared, in order, each as JSON text.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn recorded_intents(&self, request: &RequestId) -> Result<Vec<String>, JournalError> {
        let sql = "select body from intent where request_id = ? order by n";
        self.query_all(sql, [request.as_str()], |row| row.get(0))
    }
}
