//! A step of the rules, applied to a request's row. Each update names the state that the rules saw, and must change
//! exactly one row. Not here: the rules.

use rusqlite::{OptionalExtension, Transaction, params};

use super::JournalError;
use super::entry::{Origin, State, Stored};
pub(super) use super::incidents::note as incident;
use super::rules::{self, Event, Known, Step, Then, Write};
use crate::ids::RequestId;
use crate::request::Effect;

/// Looks at a request, asks the rules, and writes what they say, as far as it needs nothing but the row itself.
/// Returns what follows, with what was known before.
pub(super) fn take(
    transaction: &Transaction<'_>,
    id: &RequestId,
    event: Event,
    now_ms: i64,
) -> Result<(Then, Option<Known>), JournalError> {
    let known = known(transaction, id)?;
    let step = ask(known.as_ref(), id, event)?;
    if let Some(known) = &known {
        write(transaction, id, known, step.write, now_ms)?;
    }
    Ok((step.then, known))
}

/// Asks the rules for the step that an event causes.
pub(super) fn ask(known: Option<&Known>, id: &RequestId, event: Event) -> Result<Step, JournalError> {
    rules::step(known, event).map_err(|misfit| JournalError::Moved { id: id.clone(), expected: misfit.0 })
}

/// Reads the facts of a request that the rules need.
pub(super) fn known(transaction: &Transaction<'_>, id: &RequestId) -> rusqlite::Result<Option<Known>> {
    transaction
        .prepare_cached(
            "select state, effect, declares, declares and exists (select 1 from intent where request_id = id), \
             attempt, cancel_requested, origin, closed_at_ms is not null and origin = 'backend' \
             and exists (select 1 from result where request_id = id) from request where id = ?",
        )?
        .query_row([id.as_str()], |row| {
            Ok(Known {
                state: row.get::<_, Stored<State>>(0)?.0,
                at_most_once: row.get::<_, Stored<Effect>>(1)?.0.at_most_once(),
                declares: row.get(2)?,
                declared: row.get(3)?,
                attempt: row.get(4)?,
                cancelled: row.get(5)?,
                origin: row.get::<_, Stored<Origin>>(6)?.0,
                kept: row.get(7)?,
            })
        })
        .optional()
}

/// Writes a step that is about the row alone; a new row, a reply and a declaration bring more with them.
pub(super) fn write(
    transaction: &Transaction<'_>,
    id: &RequestId,
    known: &Known,
    write: Write,
    now_ms: i64,
) -> Result<(), JournalError> {
    let (id_text, was) = (id.as_str(), known.state.as_str());
    let changed = match write {
        Write::Nothing => return Ok(()),
        Write::Insert { .. } | Write::Finish { .. } | Write::Declare => {
            unreachable!("these bring their own rows, and their callers write them")
        }
        Write::CountOffer { cancelled } => transaction
            .prepare_cached(
                "update request set offers = offers + 1, cancel_requested = cancel_requested or ?1, \
                 cancel_requested_at_ms = case when ?1 then ?2 else cancel_requested_at_ms end \
                 where id = ?3 and state = ?4",
            )?
            .execute(params![cancelled, now_ms, id_text, was])?,
        Write::Unclose => transaction
            .prepare_cached(
                "update request set offers = offers + 1, state = 'finished', closed_at_ms = null, sent_at_ms = null \
                 where id = ? and state = ?",
            )?
            .execute([id_text, was])?,
        Write::Cancel => transaction
            .prepare_cached(
                "update request set cancel_requested = 1, \
                 cancel_requested_at_ms = coalesce(cancel_requested_at_ms, ?) where id = ? and state = ?",
            )?
            .execute(params![now_ms, id_text, was])?,
        Write::Start { declares } => transaction
            .prepare_cached(
                "update request set state = 'started', attempt = attempt + 1, started_at_ms = ?, declares = ?, \
                 epoch = (select cast(value as integer) from kv where key = 'epoch') where id = ? and state = ?",
            )?
            .execute(params![now_ms, declares, id_text, was])?,
        Write::PutBack => {
            transaction.prepare_cached("delete from intent where request_id = ?")?.execute([id_text])?;
            transaction
                .prepare_cached("update request set state = 'accepted' where id = ? and state = ?")?
                .execute([id_text, was])?
        }
        Write::Close { delivered, kept } => {
            let state = if delivered { State::Delivered } else { State::Undeliverable };
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
        Err(JournalError::Moved { id: id.clone(), expected: known.state.as_str() })
    }
}
