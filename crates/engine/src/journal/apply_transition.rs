//! A step of the rules, applied to a request's row. Each update names the state that the rules saw, and must change
//! exactly one row.

use rusqlite::{OptionalExtension, Transaction, params};

use super::JournalError;
use super::entry::RequestState;
use super::statements::execute_cached;
use super::transition_rules::{
    self, KnownRequest, RequestEvent, RequestTransition, TransitionResult, TransitionWrite,
};
use punie_core::ids::RequestId;
use punie_tool::request::ToolEffect;

/// Looks at a request, asks the rules, and writes what they say, as far as it needs nothing but the row itself.
/// Returns what follows, with what was known before.
pub(super) fn apply_request_event(
    transaction: &Transaction<'_>,
    id: &RequestId,
    event: RequestEvent,
    now_ms: i64,
) -> Result<(TransitionResult, Option<KnownRequest>), JournalError> {
    let known = read_known_request(transaction, id)?;
    let step = decide_transition(known.as_ref(), id, event)?;
    if let Some(known) = &known {
        write_transition(transaction, id, known, step.write, now_ms)?;
    }
    Ok((step.then, known))
}

/// Asks the rules for the step that an event causes.
pub(super) fn decide_transition(
    known: Option<&KnownRequest>,
    id: &RequestId,
    event: RequestEvent,
) -> Result<RequestTransition, JournalError> {
    transition_rules::apply_event(known, event).map_err(|misfit| JournalError::Moved {
        id: id.clone(),
        expected: misfit.0,
    })
}

/// Reads the facts of a request that the rules need.
pub(super) fn read_known_request(
    transaction: &Transaction<'_>,
    id: &RequestId,
) -> rusqlite::Result<Option<KnownRequest>> {
    transaction
        .prepare_cached(
            "select state, effect, declares, declares and exists (select 1 from intent where request_id = id), \
             attempt, cancel_requested, origin, closed_at_ms is not null and origin = 'backend' \
             and exists (select 1 from result where request_id = id) from request where id = ?",
        )?
        .query_row([id.as_str()], |row| {
            Ok(KnownRequest {
                state: row.get(0)?,
                at_most_once: row.get::<_, ToolEffect>(1)?.runs_at_most_once(),
                declares: row.get(2)?,
                declared: row.get(3)?,
                attempt: row.get(4)?,
                cancelled: row.get(5)?,
                origin: row.get(6)?,
                kept: row.get(7)?,
            })
        })
        .optional()
}

/// Writes a step that is about the row alone; a new row, a reply and a declaration bring more with them.
fn write_transition(
    transaction: &Transaction<'_>,
    id: &RequestId,
    known: &KnownRequest,
    write: TransitionWrite,
    now_ms: i64,
) -> Result<(), JournalError> {
    let id_text = id.as_str();
    let was = known.state.as_str();
    let changed = match write {
        TransitionWrite::Nothing => return Ok(()),
        TransitionWrite::Insert { .. }
        | TransitionWrite::Finish { .. }
        | TransitionWrite::Declare => {
            unreachable!("these bring their own rows, and their callers write them")
        }
        TransitionWrite::CountOffer { cancelled } => execute_cached(
            transaction,
            "update request set offers = offers + 1, cancel_requested = cancel_requested or ?1, \
             cancel_requested_at_ms = case when ?1 then ?2 else cancel_requested_at_ms end \
             where id = ?3 and state = ?4",
            params![cancelled, now_ms, id_text, was],
        )?,
        TransitionWrite::Unclose => execute_cached(
            transaction,
            "update request set offers = offers + 1, state = 'finished', closed_at_ms = null, sent_at_ms = null \
             where id = ? and state = ?",
            [id_text, was],
        )?,
        TransitionWrite::Cancel => execute_cached(
            transaction,
            "update request set cancel_requested = 1, \
             cancel_requested_at_ms = coalesce(cancel_requested_at_ms, ?) where id = ? and state = ?",
            params![now_ms, id_text, was],
        )?,
        TransitionWrite::Start { declares } => execute_cached(
            transaction,
            "update request set state = 'started', attempt = attempt + 1, started_at_ms = ?, declares = ?, \
             epoch = (select cast(value as integer) from kv where key = 'epoch') where id = ? and state = ?",
            params![now_ms, declares, id_text, was],
        )?,
        TransitionWrite::Requeue => {
            execute_cached(
                transaction,
                "delete from intent where request_id = ?",
                [id_text],
            )?;
            let sql = "update request set state = 'accepted' where id = ? and state = ?";
            execute_cached(transaction, sql, [id_text, was])?
        }
        TransitionWrite::Close { delivered, kept } => {
            close_row(transaction, id_text, was, delivered, kept, now_ms)?
        }
    };
    check_transition(changed, id, was)
}

/// Closes a row, and drops its reply unless it is kept, as sent now.
fn close_row(
    transaction: &Transaction<'_>,
    id: &str,
    was: &str,
    delivered: bool,
    kept: bool,
    now_ms: i64,
) -> rusqlite::Result<usize> {
    let state = if delivered {
        RequestState::Delivered
    } else {
        RequestState::Undeliverable
    };
    if !kept {
        execute_cached(
            transaction,
            "delete from result where request_id = ?1 \
             and exists (select 1 from request where id = ?1 and origin = 'backend')",
            [id],
        )?;
    }
    execute_cached(
        transaction,
        "update request set state = ?1, closed_at_ms = ?2, sent_at_ms = ?3, \
         args = case origin when 'task' then args else '' end where id = ?4 and state = ?5",
        params![state.as_str(), now_ms, kept.then_some(now_ms), id, was],
    )
}

/// Fails unless the one row that was expected in this state was changed.
pub(super) fn check_transition(
    changed: usize,
    id: &RequestId,
    expected: &'static str,
) -> Result<(), JournalError> {
    if changed == 1 {
        return Ok(());
    }
    Err(JournalError::Moved {
        id: id.clone(),
        expected,
    })
}
