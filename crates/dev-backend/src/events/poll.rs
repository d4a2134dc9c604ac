//! `events:listForDevice`: one page of a device's inbox after its cursor, oldest first.
//!
//! Rows of finished requests are included, because the cursor counts commits and the device's journal knows its
//! answers. `request` is set for a `tool_request` whose body is still stored. It is null for a `tool_cancel`, which
//! always follows its request, and for a deleted body.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::request::{COLUMNS, PAGE_BYTES, StoredRequest};
use crate::args::{WireNumber, nullable, optional};
use crate::auth;
use crate::failure::{FunctionFailure, FunctionResult};
use crate::function_traits::{PollHold, QueryFunction, SnapshotView};
use punie_core::ids::DeviceId;

/// The default number of events per page.
const LIMIT: i64 = 64;
/// The most events per page.
const MOST: i64 = 512;

/// The arguments of `listForDevice`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ListForDevice {
    device_id: String,
    token: String,
    #[serde(deserialize_with = "nullable")]
    cursor: Option<String>,
    #[serde(default, deserialize_with = "optional")]
    limit: Option<WireNumber>,
    #[serde(default, deserialize_with = "optional")]
    wait_ms: Option<WireNumber>,
}

/// The value of `listForDevice`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InboxPage {
    events: Vec<Box<RawValue>>,
    cursor: Option<String>,
    is_done: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InboxEvent {
    seq: String,
    #[serde(rename = "type")]
    kind: String,
    request_id: String,
    request: Option<StoredRequest>,
}

/// Reads a range of the inbox's own key and looks up each row's body by it. The cost depends on the page, not on the
/// length of the inbox.
static SQL: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT i.seq, i.type, i.request_id, a.number IS NOT NULL, {COLUMNS} FROM inbox i \
         LEFT JOIN requests r ON i.type = 'tool_request' AND r.request_id = i.request_id \
         LEFT JOIN request_args a ON a.number = r.number \
         WHERE i.device_id = ?1 AND i.seq > ?2 ORDER BY i.seq, i.place"
    )
});

/// A page under construction. Rows of one commit share a sequence number and stay together: a cursor between them would
/// lose the rest.
struct InboxPager {
    limit: usize,
    events: Vec<Box<RawValue>>,
    bytes: usize,
    last: Option<i64>,
    group: Vec<Box<RawValue>>,
    group_bytes: usize,
}

impl InboxPager {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            events: Vec::new(),
            bytes: 0,
            last: None,
            group: Vec::new(),
            group_bytes: 0,
        }
    }

    fn add_to_group(&mut self, event: Box<RawValue>) {
        self.group_bytes += event.get().len();
        self.group.push(event);
    }

    /// Adds the collected group to the page. Returns false if the page is full and the group has to wait for the next
    /// one. The first group always fits.
    fn close_group(&mut self, seq: i64) -> bool {
        let fits = self.events.len() + self.group.len() <= self.limit
            && self.bytes + self.group_bytes <= PAGE_BYTES;
        if !fits && !self.events.is_empty() {
            return false;
        }
        self.bytes += std::mem::take(&mut self.group_bytes);
        self.events.append(&mut self.group);
        self.last = Some(seq);
        true
    }

    fn is_page_full(&self) -> bool {
        self.events.len() >= self.limit
    }
}

impl ListForDevice {
    fn cursor_seq(&self) -> FunctionResult<i64> {
        self.cursor.as_deref().map_or(Ok(0), |cursor| {
            let digits = cursor.bytes().all(|b| b.is_ascii_digit());
            cursor
                .parse()
                .ok()
                .filter(|_| digits)
                .ok_or_else(|| FunctionFailure::invalid_argument("cursor must be decimal digits"))
        })
    }

    fn page_limit(&self) -> FunctionResult<usize> {
        let limit = self
            .limit
            .map_or(Ok(LIMIT), |limit| limit.whole_value("limit"))?;
        if limit == 0 {
            return Err(FunctionFailure::invalid_argument(
                "limit must be at least 1",
            ));
        }
        Ok(usize::try_from(limit.min(MOST)).expect("1 to MOST"))
    }

    fn requested_wait_ms(&self) -> FunctionResult<f64> {
        self.wait_ms.map_or(Ok(0.0), WireNumber::wait_ms_value)
    }

    fn read_page(&self, view: &SnapshotView<'_>, device: &DeviceId) -> FunctionResult<InboxPage> {
        let after = self.cursor_seq()?;
        let mut pager = InboxPager::new(self.page_limit()?);
        let mut statement = view.db.prepare_cached(&SQL)?;
        let mut rows = statement.query((device.as_str(), after))?;
        let mut group_seq = None;
        let mut is_done = true;
        while let Some(row) = rows.next()? {
            let seq: i64 = row.get(0)?;
            if let Some(before) = group_seq.filter(|before| *before != seq)
                && (!pager.close_group(before) || pager.is_page_full())
            {
                is_done = false;
                group_seq = None;
                break;
            }
            group_seq = Some(seq);
            let request = if row.get(3)? {
                Some(StoredRequest::from_row(row, 4)?)
            } else {
                None
            };
            pager.add_to_group(to_raw_value(&InboxEvent {
                seq: seq.to_string(),
                kind: row.get(1)?,
                request_id: row.get(2)?,
                request,
            })?);
        }
        if let Some(seq) = group_seq {
            is_done = pager.close_group(seq);
        }
        let cursor = pager
            .last
            .map(|seq| seq.to_string())
            .or_else(|| self.cursor.clone());
        Ok(InboxPage {
            events: pager.events,
            cursor,
            is_done,
        })
    }
}

impl QueryFunction for ListForDevice {
    const PATH: &'static str = "events:listForDevice";
    type Reply = InboxPage;

    fn run_on_snapshot(&self, view: &SnapshotView<'_>) -> FunctionResult<InboxPage> {
        self.requested_wait_ms()?;
        let device = auth::authenticate_device(view.db, &self.device_id, &self.token)?;
        self.read_page(view, &device)
    }

    fn requested_hold(&self) -> Option<PollHold> {
        PollHold::from_wait(
            DeviceId::parse(&self.device_id).ok()?,
            self.requested_wait_ms().ok()?,
        )
    }

    fn is_reply_empty(page: &InboxPage) -> bool {
        page.events.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::commit_transaction::CommitTransaction;
    use crate::permissions::caller_reads::CallerReads;
    use crate::testing;
    use punie_core::ids::RequestId;

    /// Commits of these sizes, on a database where the device may poll.
    fn committed(sizes: &[usize]) -> rusqlite::Connection {
        let mut db = testing::database();
        let device = testing::device(&db);
        for (commit, size) in sizes.iter().enumerate() {
            let mut tx = CommitTransaction::begin(&mut db, 1000.0).expect("begun");
            for row in 0..*size {
                let request = RequestId::parse(format!("r{commit}-{row}")).expect("an id");
                tx.append_inbox_row(&device, "tool_cancel", &request)
                    .expect("appended");
            }
            tx.finish().expect("committed");
        }
        db
    }

    fn poll(db: &rusqlite::Connection, cursor: Option<&str>, limit: f64) -> InboxPage {
        let raw =
            serde_json::json!({ "deviceId": "d", "token": "t", "cursor": cursor, "limit": limit });
        let args: ListForDevice = serde_json::from_value(raw).expect("arguments");
        let view = SnapshotView {
            db,
            caller_reads: &CallerReads::default(),
        };
        args.run_on_snapshot(&view).expect("a page")
    }

    #[test]
    fn a_page_costs_what_it_holds() {
        let plan = testing::plan(&testing::database(), &SQL);
        assert!(
            plan.iter().all(|step| step.starts_with("SEARCH")),
            "a scan or a sort: {plan:?}"
        );
    }

    #[test]
    fn a_group_larger_than_the_limit_comes_whole() {
        let page = poll(&committed(&[5, 1]), None, 2.0);
        assert_eq!((page.events.len(), page.is_done), (5, false));
    }

    #[test]
    fn an_empty_page_keeps_the_cursor() {
        let page = poll(&committed(&[]), Some("7"), 2.0);
        assert_eq!(
            (page.events.len(), page.cursor.as_deref(), page.is_done),
            (0, Some("7"), true)
        );
    }

    proptest! {
        #[test]
        fn paging_meets_every_row_once_and_splits_no_commit(
            sizes in proptest::collection::vec(1_usize..6, 0..12), limit in 1_u8..9,
        ) {
            let db = committed(&sizes);
            let (mut cursor, mut seen, mut commits) = (None::<String>, Vec::new(), 0);
            loop {
                let page = poll(&db, cursor.as_deref(), f64::from(limit));
                let mut rows = page.events.len();
                while rows > 0 {
                    prop_assert!(sizes[commits] <= rows, "a page ends inside a commit");
                    rows -= sizes[commits];
                    commits += 1;
                }
                prop_assert!(page.events.len() <= usize::from(limit).max(5));
                seen.extend(page.events.iter().map(|event| event.get().to_owned()));
                cursor = page.cursor;
                if page.is_done {
                    break;
                }
            }
            prop_assert_eq!(seen.len(), sizes.iter().sum::<usize>());
            seen.dedup();
            prop_assert_eq!(seen.len(), sizes.iter().sum::<usize>());
        }
    }
}
