//! `devices:presence` and `devices:list`: the devices with their last heartbeats. Only the first one has the device's
//! health. `online` is the last heartbeat's own statement. The reader judges by `seenAtMs` if that heartbeat is recent
//! enough (2.5 times `beatMs`). On Convex a query that used the clock would not be run again when the time is up.

use rusqlite::Row;
use serde::{Deserialize, Serialize};

use crate::args::optional;
use crate::auth;
use crate::failure::FunctionResult;
use crate::function_traits::{QueryFunction, SnapshotView};
use crate::sql_calls::SqlCalls as _;
use punie_core::ids::DeviceId;

/// The last heartbeat of a device. Absent parts were never sent.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PresenceStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    seen_at_ms: Option<f64>,
    /// The time from that heartbeat to the next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    beat_ms: Option<f64>,
    online: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    health: Option<String>,
}

impl PresenceStatus {
    /// Reads seen_at_ms, online, health and beat_ms.
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            seen_at_ms: row.get(0)?,
            online: row.get(1)?,
            health: row.get(2)?,
            beat_ms: row.get(3)?,
        })
    }
}

/// The arguments of `presence`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct GetPresence {
    #[serde(default)]
    caller_token: String,
    device_id: String,
}

impl QueryFunction for GetPresence {
    const PATH: &'static str = "devices:presence";
    /// Null for a device without any heartbeat.
    type Reply = Option<PresenceStatus>;

    fn run_on_snapshot(&self, view: &SnapshotView<'_>) -> FunctionResult<Self::Reply> {
        auth::authorize_caller(view.db, &self.caller_token, auth::CallerAction::Look)?;
        let device = DeviceId::parse(&self.device_id)?;
        let seen = view.db.find_row(
            "SELECT seen_at_ms, online, health, beat_ms FROM presence WHERE device_id = ?1",
            [device.as_str()],
            PresenceStatus::from_row,
        )?;
        Ok(seen)
    }
}

/// The arguments of `list`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ListDevices {
    #[serde(default)]
    caller_token: String,
    #[serde(default, deserialize_with = "optional")]
    device_id: Option<String>,
}

/// A device in the owner's list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListedDevice {
    device_id: String,
    name: String,
    platform: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    seen_at_ms: Option<f64>,
    /// The time from that heartbeat to the next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    beat_ms: Option<f64>,
    online: bool,
}

impl QueryFunction for ListDevices {
    const PATH: &'static str = "devices:list";
    /// All devices that are not revoked, or the requested one, sorted by id.
    type Reply = Vec<ListedDevice>;

    fn run_on_snapshot(&self, view: &SnapshotView<'_>) -> FunctionResult<Self::Reply> {
        auth::authorize_caller(view.db, &self.caller_token, auth::CallerAction::Look)?;
        let only = self.device_id.as_ref().map(DeviceId::parse).transpose()?;
        let mut statement = view.db.prepare_cached(
            "SELECT d.device_id, d.name, d.platform, p.seen_at_ms, ifnull(p.online, 0), p.beat_ms FROM devices d \
             LEFT JOIN presence p ON p.device_id = d.device_id \
             WHERE d.revoked = 0 AND (?1 IS NULL OR d.device_id = ?1) ORDER BY d.device_id",
        )?;
        let devices = statement
            .query_map([only.as_ref().map(DeviceId::as_str)], |row| {
                Ok(ListedDevice {
                    device_id: row.get(0)?,
                    name: row.get(1)?,
                    platform: row.get(2)?,
                    seen_at_ms: row.get(3)?,
                    online: row.get(4)?,
                    beat_ms: row.get(5)?,
                })
            })?
            .collect::<Result<_, _>>()?;
        Ok(devices)
    }
}
