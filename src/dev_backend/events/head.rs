//! `events:head`: the newest sequence number of a device, which a wake-up socket subscribes to.

use serde::Deserialize;

use crate::dev_backend::auth;
use crate::dev_backend::commits::{Topic, Topics};
use crate::dev_backend::failure::Failure;
use crate::dev_backend::functions::{Query, View};

/// The arguments of `head`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::dev_backend) struct Head {
    device_id: String,
    token: String,
}

impl Query for Head {
    const PATH: &'static str = "events:head";
    /// Decimal text, because nanoseconds do not fit a float.
    type Reply = Option<String>;

    fn reads(&self) -> Topics {
        Topics::Only(vec![Topic::inbox(&self.device_id)])
    }

    fn run(&self, view: &View<'_>) -> Result<Self::Reply, Failure> {
        let device = auth::device(view.db, &self.device_id, &self.token)?;
        let newest: Option<i64> = view
            .db
            .prepare_cached("SELECT max(seq) FROM inbox WHERE device_id = ?1")?
            .query_row([device.as_str()], |row| row.get(0))?;
        Ok(newest.map(|seq| seq.to_string()))
    }
}
