//! `events:head`: the newest sequence number of a device, which a wake-up socket subscribes to.

use serde::Deserialize;

use crate::auth;
use crate::commits::{CommitTopic, TopicSet};
use crate::failure::FunctionResult;
use crate::function_traits::{QueryFunction, SnapshotView};

/// The arguments of `head`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct GetHead {
    device_id: String,
    token: String,
}

impl QueryFunction for GetHead {
    const PATH: &'static str = "events:head";
    /// Decimal text, because nanoseconds do not fit a float.
    type Reply = Option<String>;

    fn topics_read(&self) -> TopicSet {
        TopicSet::Only(vec![CommitTopic::for_inbox(&self.device_id)])
    }

    fn run_on_snapshot(&self, view: &SnapshotView<'_>) -> FunctionResult<Self::Reply> {
        let device = auth::authenticate_device(view.db, &self.device_id, &self.token)?;
        let newest: Option<i64> = view
            .db
            .prepare_cached("SELECT max(seq) FROM inbox WHERE device_id = ?1")?
            .query_row([device.as_str()], |row| row.get(0))?;
        Ok(newest.map(|seq| seq.to_string()))
    }
}
