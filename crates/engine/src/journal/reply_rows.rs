//! The rows of replies, of which each is written together with the state of its request.

use rusqlite::{Connection, Transaction, params};

use super::JournalError;
use super::apply_transition::{check_transition, decide_transition, read_known_request};
use super::entry::{REPLY_COLUMNS, RecordedReply, RequestState};
use super::statements::execute_cached;
use super::transition_rules::{RequestEvent, TransitionWrite};
use punie_core::approval_answer::ApprovalDenial;
use punie_core::ids::RequestId;
use punie_tool::request::CleanReply;

/// Accepted or started, to finished with its payload. A task's reply is read here and never posted, so that the same
/// step delivers it.
pub(super) fn store_reply(
    transaction: &Transaction<'_>,
    id: &RequestId,
    reply: &CleanReply,
    now_ms: i64,
) -> Result<RecordedReply, JournalError> {
    let known = read_known_request(transaction, id)?;
    let step = decide_transition(known.as_ref(), id, RequestEvent::Answered)?;
    let (Some(known), TransitionWrite::Finish { read_here }) = (known, step.write) else {
        return Err(JournalError::Moved {
            id: id.clone(),
            expected: "known",
        });
    };
    let state = if read_here {
        RequestState::Delivered
    } else {
        RequestState::Finished
    };
    let end = reply.call_end();
    let changed = execute_cached(
        transaction,
        "update request set outcome = ?1, truncated = ?2, finished_at_ms = ?3, state = ?4, closed_at_ms = ?5, \
             code = ?6, exit_code = ?7, exit_signal = ?8, rule = ?9, denial = ?10, run_ms = ?11 \
             where id = ?12 and state = ?13",
        params![
            reply.outcome_kind().as_str(),
            reply.is_truncated(),
            now_ms,
            state.as_str(),
            read_here.then_some(now_ms),
            reply.failure_code(),
            end.exit_code,
            end.signal,
            end.rule,
            end.denial.map(ApprovalDenial::as_str),
            end.run_ms,
            id.as_str(),
            known.state.as_str(),
        ],
    )?;
    check_transition(changed, id, known.state.as_str())?;
    let sql = "insert into result (request_id, payload) values (?, ?)";
    execute_cached(transaction, sql, [id.as_str(), reply.payload_json()])?;
    recorded_reply(transaction, id)
}

/// Reads the reply of a request.
pub(super) fn recorded_reply(
    connection: &Connection,
    id: &RequestId,
) -> Result<RecordedReply, JournalError> {
    Ok(connection
        .prepare_cached(&format!(
            "select {REPLY_COLUMNS} from request join result on request_id = id where id = ?"
        ))?
        .query_row([id.as_str()], RecordedReply::from_row)?)
}
