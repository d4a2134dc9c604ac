//! The requests, their outcomes and their incidents, as `history` and `status` show them.

use rusqlite::Row;
use rusqlite::types::ToSql;
use serde::Serialize;

use super::entry::{RequestOrigin, RequestState, StoredOutcome};
use super::incidents::ASKED;
use super::{JournalError, JournalReader};
use punie_core::approval_answer::ApprovalDenial;
use punie_core::ids::RequestId;
use punie_tool::request::{CallEnd, OutcomeKind};

/// Which requests are asked for. Without anything set: all, the latest first.
#[derive(Debug, Clone, Default)]
pub struct HistoryQuery {
    /// At most so many; 0 for all.
    pub limit: u32,
    /// Only those whose outcome is an error, whose command failed, or whose reply the backend will never take.
    pub failed: bool,
    /// Only those that are not closed: waiting, running, or answered and not delivered.
    pub open: bool,
    /// Only those of this tool.
    pub tool: Option<String>,
    /// Only those of this conversation.
    pub conversation: Option<String>,
    /// Only those of which something was refused.
    pub denied: bool,
    /// Only those with this text in their title, in small or capital letters.
    pub text: Option<String>,
    /// Only those received from then on, in milliseconds since 1970.
    pub since_ms: Option<i64>,
    /// Only those received before then.
    pub until_ms: Option<i64>,
}

/// The history of one request, as `history --json` shows it. Times are milliseconds since 1970 by this machine's clock.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryEntry {
    /// The request.
    #[serde(rename = "requestId")]
    pub id: String,
    /// The tool asked for.
    #[serde(rename = "toolName")]
    pub tool: String,
    /// Its origin.
    pub origin: RequestOrigin,
    /// Its conversation.
    #[serde(rename = "conversationId")]
    pub conversation: String,
    /// The most that its tool may do.
    pub effect: String,
    /// Its state.
    pub state: RequestState,
    /// Its outcome, once it has ended.
    pub outcome: Option<OutcomeKind>,
    /// The error code of its reply.
    pub code: Option<String>,
    /// Its command, paths or query in one masked line; `None` if none is kept.
    pub title: Option<String>,
    /// The exit of its command, the refusal of it, and the time for which it ran.
    #[serde(flatten)]
    pub end: CallEnd,
    /// The number of times the backend offered it.
    pub offers: u32,
    /// The number of times it was started.
    pub attempts: u32,
    /// The number of the run that started it last.
    pub epoch: Option<u32>,
    /// The time when it was first offered and accepted.
    pub received_at_ms: i64,
    /// The time when it was started last.
    pub started_at_ms: Option<i64>,
    /// The time when its reply was recorded.
    pub finished_at_ms: Option<i64>,
    /// The time when the backend had the reply, or refused it for good.
    pub closed_at_ms: Option<i64>,
    /// Until when it was wanted, by the backend's clock.
    pub deadline_ms: Option<f64>,
    /// True if the caller took it back.
    pub cancel_requested: bool,
    /// The time when the caller first took it back.
    pub cancel_requested_at_ms: Option<i64>,
    /// The number of failed posts of the reply.
    pub failed_posts: u32,
    /// The error of the last one, or the reason for which the reply was given up.
    pub last_error: Option<String>,
    /// The address of the backend that it is of; none where that is not known.
    pub backend: Option<String>,
}

/// Something that does not happen to every request.
#[derive(Debug, Clone)]
pub struct RequestIncident {
    /// The time, in milliseconds since 1970.
    pub at_ms: i64,
    /// Its kind, in a word or two.
    pub kind: String,
    /// More words.
    pub detail: Option<String>,
    /// The number of times it happened in a row.
    pub times: u32,
    /// The time when the last of these was.
    pub last_at_ms: Option<i64>,
}

/// A request about which a person was asked, without an answer so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterruptedQuestion {
    /// The request.
    pub id: String,
    /// Its tool.
    pub tool: String,
    /// Its title; empty if none is kept.
    pub title: String,
}

/// Everything that is known of one request.
#[derive(Debug, Clone)]
pub struct FullHistory {
    /// Its history; `None` for one that is not in the journal (any more).
    pub entry: Option<HistoryEntry>,
    /// Its incidents, in order.
    pub incidents: Vec<RequestIncident>,
    /// The number of effects that it declared before making them.
    pub declared: u32,
    /// Processes of it that are not known to have ended: who they are, and their command.
    pub processes: Vec<(String, String)>,
}

/// The requests that wait to be started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PendingRequests {
    /// The number of requests.
    pub count: u32,
    /// The time when the oldest was received, in milliseconds since 1970.
    pub oldest_ms: Option<i64>,
}

const PENDING: &str = "select (select count(*) from request where state = 'accepted' and {own}), \
     (select received_at_ms from request where rowid = \
     (select min(rowid) from request where state = 'accepted' and {own}))";
const UNWANTED: &str = "select id from request where state = 'finished' and {own} and created_at_ms > 0 \
     and coalesce(deadline_ms, created_at_ms + ?1) < ?2 order by rowid";

#[cfg(test)]
pub(super) const REGULAR: &[&str] = &[PENDING, UNWANTED];

/// A request's own conversation is stored with a mark in front of its id ([`punie_core::ids::ConversationId::key`]).
const LIFE: &str = "id, tool, origin, ltrim(conversation, '~'), effect, state, outcome, code, offers, attempt, epoch, \
    received_at_ms, started_at_ms, finished_at_ms, closed_at_ms, cancel_requested_at_ms, cancel_requested, \
    deliver_attempts, last_error, deadline_ms, \
    (select nullif(address, '') from backend where number = request.backend), title, exit_code, exit_signal, rule, denial, run_ms";

impl HistoryQuery {
    /// Returns the condition of the query, and the values of its parameters.
    fn sql_conditions(&self) -> (String, Vec<&dyn ToSql>) {
        let mut conditions = vec!["true"];
        let mut values: Vec<&dyn ToSql> = Vec::new();
        if self.failed {
            conditions.push("(outcome = 'error' or state = 'undeliverable' or exit_code <> 0 or exit_signal is not null)");
        }
        if self.open {
            conditions.push("state in ('accepted', 'started', 'finished')");
        }
        if let Some(tool) = &self.tool {
            conditions.push("tool = ? collate nocase");
            values.push(tool);
        }
        if let Some(conversation) = &self.conversation {
            conditions.push("ltrim(conversation, '~') = ?");
            values.push(conversation);
        }
        if self.denied {
            conditions.push("(denial is not null or code = 'policy_denied')");
        }
        if let Some(text) = &self.text {
            conditions.push("instr(lower(title), lower(?)) > 0");
            values.push(text);
        }
        if let Some(until) = &self.until_ms {
            conditions.push("received_at_ms < ?");
            values.push(until);
        }
        if let Some(since) = &self.since_ms {
            conditions.push("received_at_ms >= ?");
            values.push(since);
        }
        (conditions.join(" and "), values)
    }
}

impl JournalReader {
    /// The lives of the requests asked for, the latest first.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn list_history(&self, question: &HistoryQuery) -> Result<Vec<HistoryEntry>, JournalError> {
        let (conditions, mut values) = question.sql_conditions();
        let limit = if question.limit == 0 {
            -1
        } else {
            i64::from(question.limit)
        };
        values.push(&limit);
        let sql =
            format!("select {LIFE} from request where {conditions} order by rowid desc limit ?");
        self.query_all(&sql, &values[..], history_entry_from_row)
    }

    /// The number of all requests asked for, also of those above the limit.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn count_history(&self, question: &HistoryQuery) -> Result<u32, JournalError> {
        let (conditions, values) = question.sql_conditions();
        let sql = format!("select count(*) from request where {conditions}");
        let count = self.query_optional(&sql, &values[..], |row| row.get(0))?;
        Ok(count.unwrap_or_default())
    }

    /// The number of ended requests that are remembered, by tool and outcome. Names of tools that there are not are one:
    /// `unknown`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn count_ended_requests(&self) -> Result<Vec<(String, String, u32)>, JournalError> {
        let sql = "select case code when 'unknown_tool' then 'unknown' else tool end as name, outcome, count(*) \
                   from request where outcome is not null group by name, outcome order by name, outcome";
        self.query_all(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
    }

    /// Everything that is known of one request; none where nothing is.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read_full_history(&self, id: &str) -> Result<Option<FullHistory>, JournalError> {
        let sql = format!("select {LIFE} from request where id = ?");
        let entry = self.query_optional(&sql, [id], history_entry_from_row)?;
        let sql = "select at_ms, kind, detail, times, last_at_ms from incident where request_id = ? order by id";
        let incidents = self.query_all(sql, [id], |row| {
            Ok(RequestIncident {
                at_ms: row.get(0)?,
                kind: row.get(1)?,
                detail: row.get(2)?,
                times: row.get(3)?,
                last_at_ms: row.get(4)?,
            })
        })?;
        if entry.is_none() && incidents.is_empty() {
            return Ok(None);
        }
        let declared = self.connection.query_row(
            "select count(*) from intent where request_id = ?",
            [id],
            |row| row.get(0),
        )?;
        let sql = "select identity, command from child where request_id = ? order by started_at_ms";
        let processes = self.query_all(sql, [id], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(Some(FullHistory {
            entry,
            incidents,
            declared,
            processes,
        }))
    }

    /// The ids that end with this, at most so many, the newest first.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn ids_ending_with(&self, end: &str, limit: u32) -> Result<Vec<String>, JournalError> {
        let sql = "select id from request where substr(id, -length(?1)) = ?1 order by rowid desc limit ?2";
        self.query_all(sql, (end, limit), |row| row.get(0))
    }

    /// The ids that begin with this, at most so many, the newest first.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn ids_beginning_with(
        &self,
        beginning: &str,
        limit: u32,
    ) -> Result<Vec<String>, JournalError> {
        let sql = "select id from request where substr(id, 1, length(?1)) = ?1 order by rowid desc limit ?2";
        self.query_all(sql, (beginning, limit), |row| row.get(0))
    }

    /// The requests about which a person was asked when the runner stopped, the oldest first. Its next start asks
    /// again.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read_interrupted_questions(&self) -> Result<Vec<InterruptedQuestion>, JournalError> {
        let sql = "select id, tool, coalesce(title, '') from request where state = 'accepted' and cancel_requested = 0 \
                   and (select kind from incident where request_id = request.id order by incident.id desc limit 1) = ?1 \
                   order by rowid";
        self.query_all(sql, [ASKED], |row| {
            Ok(InterruptedQuestion {
                id: row.get(0)?,
                tool: row.get(1)?,
                title: row.get(2)?,
            })
        })
    }

    /// The id of the newest request.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn newest_id(&self) -> Result<Option<String>, JournalError> {
        let sql = "select id from request order by rowid desc limit 1";
        self.query_optional(sql, [], |row| row.get(0))
    }

    /// The requests that wait to be started.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read_pending(&self) -> Result<PendingRequests, JournalError> {
        Ok(self.prepare_scoped(PENDING)?.query_row([], |row| {
            Ok(PendingRequests {
                count: row.get(0)?,
                oldest_ms: row.get(1)?,
            })
        })?)
    }

    /// The replies that are no longer wanted: those whose request expired before `expired_before_ms` by the
    /// backend's clock. One without a deadline expires `ttl_ms` after it was made.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn expired_replies(
        &self,
        expired_before_ms: f64,
        ttl_ms: f64,
    ) -> Result<Vec<RequestId>, JournalError> {
        self.query_ids(UNWANTED, (ttl_ms, expired_before_ms))
    }
}

fn history_entry_from_row(row: &Row<'_>) -> rusqlite::Result<HistoryEntry> {
    Ok(HistoryEntry {
        id: row.get(0)?,
        tool: row.get(1)?,
        origin: row.get(2)?,
        conversation: row.get(3)?,
        effect: row.get(4)?,
        state: row.get(5)?,
        outcome: row
            .get::<_, Option<StoredOutcome>>(6)?
            .map(|stored| stored.0),
        code: row.get(7)?,
        offers: row.get(8)?,
        attempts: row.get(9)?,
        epoch: row.get(10)?,
        received_at_ms: row.get(11)?,
        started_at_ms: row.get(12)?,
        finished_at_ms: row.get(13)?,
        closed_at_ms: row.get(14)?,
        cancel_requested_at_ms: row.get(15)?,
        cancel_requested: row.get(16)?,
        failed_posts: row.get(17)?,
        last_error: row.get(18)?,
        deadline_ms: row.get(19)?,
        backend: row.get(20)?,
        title: row.get(21)?,
        end: CallEnd {
            exit_code: row.get(22)?,
            signal: row.get(23)?,
            rule: row.get(24)?,
            denial: row
                .get::<_, Option<String>>(25)?
                .and_then(|name| ApprovalDenial::from_name(&name)),
            run_ms: row.get(26)?,
        },
    })
}
