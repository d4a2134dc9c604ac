//! `events:listOpenIds` and `events:listOpen`: a device's requests without a result, oldest first, whatever its cursor
//! is. A device asks for the ids, and then for the unknown ones. Both replies are bounded: the rest appears once the
//! older requests are answered.

use std::sync::LazyLock;

use rusqlite::Row;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::request::{COLUMNS, PAGE_BYTES, StoredRequest};
use crate::args::optional;
use crate::auth;
use crate::failure::{FunctionFailure, FunctionResult};
use crate::function_traits::{QueryFunction, SnapshotView};
use punie_core::ids::RequestId;

/// The most requests in one reply.
const MOST: usize = 1000;

/// The arguments of `listOpenIds`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ListOpenIds {
    device_id: String,
    token: String,
}

/// An open request without its body.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OpenId {
    request_id: String,
    cancelled: bool,
}

/// The partial index holds open requests only, so finished ones cost nothing.
const IDS_SQL: &str = "SELECT request_id, cancelled FROM requests WHERE device_id = ?1 AND state = 'open' \
                       ORDER BY seq";

impl QueryFunction for ListOpenIds {
    const PATH: &'static str = "events:listOpenIds";
    type Reply = Vec<OpenId>;

    fn run_on_snapshot(&self, view: &SnapshotView<'_>) -> FunctionResult<Self::Reply> {
        let device = auth::authenticate_device(view.db, &self.device_id, &self.token)?;
        let mut statement = view.db.prepare_cached(IDS_SQL)?;
        let open = statement
            .query_map([device.as_str()], |row| {
                Ok(OpenId {
                    request_id: row.get(0)?,
                    cancelled: row.get(1)?,
                })
            })?
            .take(MOST)
            .collect::<Result<_, _>>()?;
        Ok(open)
    }
}

/// The arguments of `listOpen`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ListOpen {
    device_id: String,
    token: String,
    /// Restricts the reply to those of these that are open; without it, all are returned.
    #[serde(default, deserialize_with = "optional")]
    request_ids: Option<Vec<String>>,
}

static SQL: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {COLUMNS} FROM requests r JOIN request_args a ON a.number = r.number \
         WHERE r.device_id = ?1 AND r.state = 'open' ORDER BY r.seq"
    )
});

static NAMED_SQL: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {COLUMNS} FROM requests r JOIN request_args a ON a.number = r.number \
         WHERE r.device_id = ?1 AND r.state = 'open' AND r.request_id = ?2"
    )
});

/// A reply that is filled up to its limits.
#[derive(Default)]
struct OpenRequestPage {
    open: Vec<Box<RawValue>>,
    bytes: usize,
}

impl OpenRequestPage {
    /// Adds a request. Returns false if it does not fit.
    fn try_add_row(&mut self, row: &Row<'_>) -> FunctionResult<bool> {
        let request = to_raw_value(&StoredRequest::from_row(row, 0)?)?;
        self.bytes += request.get().len();
        if self.open.len() == MOST || (self.bytes > PAGE_BYTES && !self.open.is_empty()) {
            return Ok(false);
        }
        self.open.push(request);
        Ok(true)
    }
}

impl QueryFunction for ListOpen {
    const PATH: &'static str = "events:listOpen";
    type Reply = Vec<Box<RawValue>>;

    fn run_on_snapshot(&self, view: &SnapshotView<'_>) -> FunctionResult<Self::Reply> {
        let device = auth::authenticate_device(view.db, &self.device_id, &self.token)?;
        let mut reply = OpenRequestPage::default();
        let Some(named) = &self.request_ids else {
            let mut statement = view.db.prepare_cached(&SQL)?;
            let mut rows = statement.query([device.as_str()])?;
            while let Some(row) = rows.next()?
                && reply.try_add_row(row)?
            {}
            return Ok(reply.open);
        };
        if named.len() > MOST {
            return Err(FunctionFailure::invalid_argument(format!(
                "requestIds must be at most {MOST}"
            )));
        }
        let named = named
            .iter()
            .map(RequestId::parse)
            .collect::<Result<Vec<_>, _>>()?;
        let mut statement = view.db.prepare_cached(&NAMED_SQL)?;
        for id in named {
            let mut rows = statement.query((device.as_str(), id.as_str()))?;
            if let Some(row) = rows.next()?
                && !reply.try_add_row(row)?
            {
                break;
            }
        }
        Ok(reply.open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn only_open_requests_are_walked() {
        for sql in [SQL.as_str(), IDS_SQL] {
            let plan = testing::plan(&testing::database(), sql);
            assert!(
                plan.iter().any(|step| step.contains("requests_open")),
                "{plan:?}"
            );
            assert!(
                plan.iter().all(|step| step.starts_with("SEARCH")),
                "{plan:?}"
            );
        }
    }
}
