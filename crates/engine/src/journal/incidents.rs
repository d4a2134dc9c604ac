//! Unusual events of requests, recorded for `history`: a post that failed, an offer that came again, a call that was
//! begun anew.

use rusqlite::{Transaction, params};

use super::statements::execute_cached;
use super::write_job::WriteDurability;
use super::{Journal, JournalError};
use punie_core::ids::RequestId;

/// The kind of the incident that a person is asked for approval.
pub const ASKED: &str = "asked";
/// The kind of the incident that a person or an earlier answer allowed the call.
pub const ALLOWED: &str = "allowed";
/// The kind of the incident that a person answered a question of the call.
pub const ANSWERED: &str = "answered";
/// The kind of the incident that the call did not get its approval.
pub const DENIED: &str = "denied";

impl Journal {
    /// Notes an incident of a request, which need not be in the journal. `kind` is a word or two for people, the same
    /// for the same kind of thing; the same again at once is counted, not written anew.
    ///
    /// # Errors
    /// The journal could not be written.
    pub async fn record_incident(
        &self,
        request: &RequestId,
        kind: &'static str,
        detail: Option<String>,
        now_ms: i64,
    ) -> Result<(), JournalError> {
        let id = request.clone();
        self.writer
            .write_and_wait(WriteDurability::ProcessCrash, move |transaction| {
                Ok(insert_incident(
                    transaction,
                    &id,
                    kind,
                    detail.as_deref(),
                    now_ms,
                )?)
            })
            .await
    }
}

/// The same within a transaction.
pub(super) fn insert_incident(
    transaction: &Transaction<'_>,
    request: &RequestId,
    kind: &str,
    detail: Option<&str>,
    now_ms: i64,
) -> rusqlite::Result<()> {
    let counted = execute_cached(
        transaction,
        "update incident set times = times + 1, last_at_ms = ?1 \
             where id = (select max(id) from incident where request_id = ?2) and kind = ?3 and detail is ?4",
        params![now_ms, request.as_str(), kind, detail],
    )?;
    if counted == 0 {
        let sql = "insert into incident (request_id, at_ms, kind, detail) values (?, ?, ?, ?)";
        let values = params![request.as_str(), now_ms, kind, detail];
        execute_cached(transaction, sql, values)?;
    }
    Ok(())
}
