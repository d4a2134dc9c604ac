//! Requests that wait in the journal until the runner has a place for them. Arguments may be long: they are read for
//! as many calls as there is room for, and everything else is decided by an index that does not hold them.

use std::collections::HashSet;

use rusqlite::Row;

use super::JournalError;
use super::entry::{REQUEST_COLUMNS, UnfinishedRequest, parse_column};
use super::journal_reader::{JournalReader, LIFE_COLUMNS, unfinished_from_row};
use punie_core::ids::{ConversationId, RequestId};

const ACCEPTED: &str = "select id from request where state = 'accepted' and {own} order by rowid";
const TAKEN_BACK: &str =
    "select id from request where state = 'accepted' and {own} and cancel_requested order by rowid";
const UNORDERED: &str = "select id from request where state = 'accepted' and {own} \
     and (origin = 'task' or tool in (select value from json_each(?))) order by rowid";
const CONVERSATIONS: &str = "select conversation from request where state = 'accepted' and {own} group by conversation order by min(rowid)";
const OF_CONVERSATION: &str = "select rowid from request where state = 'accepted' and {own} and conversation = ? order by rowid";

#[cfg(test)]
pub(super) const REGULAR: &[&str] = &[
    ACCEPTED,
    TAKEN_BACK,
    UNORDERED,
    CONVERSATIONS,
    OF_CONVERSATION,
];

/// The most that may be read at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BacklogLimit {
    /// Requests.
    pub calls: usize,
    /// Bytes of their arguments. One request is read however long it is.
    pub bytes: usize,
}

/// Waiting requests as far as there was room for them.
#[derive(Debug)]
pub struct WaitingRequests {
    /// The oldest, in order.
    pub requests: Vec<UnfinishedRequest>,
    /// There are more than these.
    pub more: bool,
}

impl JournalReader {
    /// The requests that are accepted and not begun, oldest first.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn accepted_requests(&self) -> Result<Vec<RequestId>, JournalError> {
        self.query_ids(ACCEPTED, [])
    }

    /// Those of them that the caller took back.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn cancelled_requests(&self) -> Result<Vec<RequestId>, JournalError> {
        self.query_ids(TAKEN_BACK, [])
    }

    /// Those of them that wait for no other call: tasks, and calls of these tools.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn accepted_unordered_requests(
        &self,
        tools: &[&str],
    ) -> Result<Vec<RequestId>, JournalError> {
        let tools = serde_json::Value::from(tools.to_vec()).to_string();
        self.query_ids(UNORDERED, [tools])
    }

    /// The conversations with accepted requests, the one that has waited longest first.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn waiting_conversations(&self) -> Result<Vec<ConversationId>, JournalError> {
        self.query_all(CONVERSATIONS, [], |row| {
            parse_column(row, 0, ConversationId::from_key)
        })
    }

    /// Accepted requests of one conversation, oldest first, without those in `busy`, as far as there is room.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn waiting_requests_in(
        &self,
        conversation: &ConversationId,
        room: BacklogLimit,
        busy: &HashSet<RequestId>,
    ) -> Result<WaitingRequests, JournalError> {
        let mut numbers = self.prepare_scoped(OF_CONVERSATION)?;
        let numbers = numbers.query_map([conversation.key()], |row| row.get::<_, i64>(0))?;
        let mut id_of = self
            .connection
            .prepare_cached("select id from request where rowid = ?")?;
        let mut one = self.connection.prepare_cached(&format!(
            "select {REQUEST_COLUMNS}, {LIFE_COLUMNS} from request where rowid = ?"
        ))?;
        let mut requests = Vec::new();
        let mut bytes = 0;
        for number in numbers {
            let number = number?;
            let id = id_of.query_row([number], |row: &Row<'_>| {
                parse_column(row, 0, RequestId::parse)
            })?;
            if busy.contains(&id) {
                continue;
            }
            if requests.len() == room.calls || bytes >= room.bytes {
                return Ok(WaitingRequests {
                    requests,
                    more: true,
                });
            }
            let left: UnfinishedRequest = one.query_row([number], unfinished_from_row)?;
            bytes += left.request.args.len();
            requests.push(left);
        }
        Ok(WaitingRequests {
            requests,
            more: false,
        })
    }

    /// One request, if it is accepted and not begun.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn waiting_request(
        &self,
        id: &RequestId,
    ) -> Result<Option<UnfinishedRequest>, JournalError> {
        self.read_open_request(id, "state = 'accepted'")
    }

    /// One request, if it is not answered.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn unfinished_request(
        &self,
        id: &RequestId,
    ) -> Result<Option<UnfinishedRequest>, JournalError> {
        self.read_open_request(id, "state in ('accepted', 'started')")
    }

    fn read_open_request(
        &self,
        id: &RequestId,
        condition: &str,
    ) -> Result<Option<UnfinishedRequest>, JournalError> {
        let sql = format!(
            "select {REQUEST_COLUMNS}, {LIFE_COLUMNS} from request where id = ? and {condition} and {{own}}"
        );
        self.query_optional(&sql, [id.as_str()], unfinished_from_row)
    }
}
