//! `events:listOpen`: a device's requests without a result, oldest first, whatever its cursor says.
//! Bounded like a page: what does not fit shows once the older ones are answered.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};

use super::request::{COLUMNS, PAGE_BYTES, ToolRequest};
use crate::dev_backend::auth;
use crate::dev_backend::failure::Failure;
use crate::dev_backend::functions::{Query, View};

/// The most requests in one reply.
const MOST: usize = 1000;

/// The arguments.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::dev_backend) struct ListOpen {
    device_id: String,
    token: String,
}

/// The partial index holds open requests alone, so finished ones cost nothing.
static SQL: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {COLUMNS} FROM requests r JOIN request_args a ON a.number = r.number \
         WHERE r.device_id = ?1 AND r.state = 'open' ORDER BY r.seq"
    )
});

impl Query for ListOpen {
    const PATH: &'static str = "events:listOpen";
    type Reply = Vec<Box<RawValue>>;

    fn run(&self, view: &View<'_>) -> Result<Self::Reply, Failure> {
        let device = auth::device(view.db, &self.device_id, &self.token)?;
        let mut statement = view.db.prepare_cached(&SQL)?;
        let mut rows = statement.query([device.as_str()])?;
        let (mut open, mut bytes) = (Vec::new(), 0);
        while let Some(row) = rows.next()? {
            let request = to_raw_value(&ToolRequest::from_row(row, 0)?)?;
            bytes += request.get().len();
            if open.len() == MOST || (bytes > PAGE_BYTES && !open.is_empty()) {
                break;
            }
            open.push(request);
        }
        Ok(open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dev_backend::testing;

    #[test]
    fn only_open_requests_are_walked() {
        let plan = testing::plan(&testing::database(), &SQL);
        assert!(plan.iter().any(|step| step.contains("requests_open")), "{plan:?}");
        assert!(plan.iter().all(|step| step.starts_with("SEARCH")), "{plan:?}");
    }
}
