//! A step of the rules, applied to a request's row. Each update names the state that the rules saw, and must change
//! exactly one row. Not here: the rules.

use rusqlite::{OptionalExtension, Transaction, params};

use super::JournalError;
use super::entry::{RequestOrigin, RequestState, StoredText};
pub(super) use super::incidents::insert_incident as incident;
use super::transition_rules::{
    self, KnownRequest, RequestEvent, RequestTransition, TransitionResult, TransitionWrite,
};
use crate::ids::RequestId;
use crate::request::ToolEffect;

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
                state: row.get::<_, StoredText<RequestState>>(0)?.0,
                at_most_once: row.get::<_, StoredText<ToolEffect>>(1)?.0.runs_at_most_once(),
                declares: row.get(2)?,
                declared: row.get(3)?,
                attempt: row.get(4)?,
                cancelled: row.get(5)?,
                origin: row.get::<_, StoredText<RequestOrigin>>(6)?.0,
                kept: row.get(7)?,
            })
        })
        .optional()
}

/// Writes a step that is about the row alone; a new row, a reply and a declaration bring more with them.
pub(super) fn write_transition(
    transaction: &Transaction<'_>,
    id: &RequestId,
    known: &KnownRequest,
    write: TransitionWrite,
    now_ms: i64,
) -> Result<(), JournalError> {
    let (id_text, was) = (id.as_str(), known.state.as_str());
    let changed = match write {
        TransitionWrite::Nothing => return Ok(()),
        TransitionWrite::Insert { .. } | TransitionWrite::Finish { .. } | TransitionWrite::Declare => {
            unreachable!("these bring their own rows, and their callers write them")
        }
        TransitionWrite::CountOffer { cancelled } => transaction
            .prepare_cached(
                "update request set offers = offers + 1, cancel_requested = cancel_requested or ?1, \
                 cancel_requested_at_ms = case when ?1 then ?2 else cancel_requested_at_ms end \
                 where id = ?3 and state = ?4",
            )?
            .execute(params![cancelled, now_ms, id_text, was])?,
        TransitionWrite::Unclose => transaction
            .prepare_cached(
                "update request set offers = offers + 1, state = 'finished', closed_at_ms = null, sent_at_ms = null \
                 where id = ? and state = ?",
            )?
            .execute([id_text, was])?,
        TransitionWrite::Cancel => transaction
            .prepare_cached(
                "update request set cancel_requested = 1, \
                 cancel_requested_at_ms = coalesce(cancel_requested_at_ms, ?) where id = ? and state = ?",
            )?
            .execute(params![now_ms, id_text, was])?,
        TransitionWrite::Start { declares } => transaction
            .prepare_cached(
                "update request set state = 'started', attempt = attempt + 1, started_at_ms = ?, declares = ?, \
                 epoch = (select cast(value as integer) from kv where key = 'epoch') where id = ? and state = ?",
            )?
            .execute(params![now_ms, declares, id_text, was])?,
        TransitionWrite::Requeue => {
            transaction.prepare_cached("delete from intent where request_id = ?")?.execute([id_text])?;
            transaction
                .prepare_cached("update request set state = 'accepted' where id = ? and state = ?")?
                .execute([id_text, was])?
        }
        TransitionWrite::Close { delivered, kept } => {
            let state = if delivered { RequestState::Delivered } else { RequestState::Undeliverable };
            if !kept {
                transaction
                    .prepare_cached(
                        "delete from result where request_id = ?1 \
                         and exists (select 1 from request where id = ?1 and origin = 'backend')",
                    )?
                    .execute([id_text])?;
            }
            transaction
                .prepare_cached(
                    "update request set state = ?1, closed_at_ms = ?2, sent_at_ms = ?3, \
                     args = case origin when 'task' then args else '' end where id = ?4 and state = ?5",
                )?
                .execute(params![state.as_str(), now_ms, kept.then_some(now_ms), id_text, was])?
        }
    };
    if changed == 1 {
        Ok(())
    } else {
        Err(JournalError::Moved {
            id: id.clone(),
            expected: known.state.as_str(),
        })
    }
}
