//! The processes of a device that send heartbeats. The list tells two processes with the same identity (a copied home
//! folder) from one that was restarted. A device is told of another process only if that one sent a heartbeat after the
//! device's own first one. A process that has ended cannot do so, so a restart never looks like a second process, even
//! after a crash.

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::sql_calls::SqlCalls as _;
use punie_core::ids::DeviceId;

/// The most remembered processes per device.
const MOST: usize = 8;

/// A process with its heartbeats.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeviceProcess {
    #[serde(rename = "processId")]
    id: String,
    first_ms: f64,
    last_ms: f64,
    /// The time at which it counts as gone: two intervals after its last heartbeat.
    until_ms: f64,
}

/// The processes of a device; the last heartbeat is at the end.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct DeviceProcessList(Vec<DeviceProcess>);

impl DeviceProcessList {
    /// Loads the processes of a device; the list is empty before its first heartbeat.
    pub fn load_for_device(db: &Connection, device: &DeviceId) -> rusqlite::Result<Self> {
        let text: Option<Option<String>> = db.find_row(
            "SELECT processes FROM presence WHERE device_id = ?1",
            [device.as_str()],
            |row| row.get(0),
        )?;
        Ok(text
            .flatten()
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default())
    }

    /// Writes the list as JSON text.
    pub fn to_stored_json(&self) -> String {
        serde_json::to_string(&self.0).expect("texts and finite numbers are JSON")
    }

    /// Records a heartbeat of this process, whose next one is due within `next_ms`. A process that goes offline is
    /// removed.
    pub fn record_beat(&mut self, process_id: &str, online: bool, now_ms: f64, next_ms: f64) {
        let first_ms = self.find(process_id).map_or(now_ms, |own| own.first_ms);
        self.0
            .retain(|process| process.id != process_id && process.until_ms >= now_ms);
        if online {
            let until_ms = now_ms + 2.0 * next_ms;
            self.0.push(DeviceProcess {
                id: process_id.to_owned(),
                first_ms,
                last_ms: now_ms,
                until_ms,
            });
        }
        let surplus = self.0.len().saturating_sub(MOST);
        self.0.drain(..surplus);
    }

    /// Returns whether another process has sent a heartbeat since this one's first, and is not gone.
    pub fn has_other_than(&self, process_id: &str, now_ms: f64) -> bool {
        let Some(own) = self.find(process_id) else {
            return false;
        };
        self.0.iter().any(|other| {
            other.id != process_id && other.last_ms > own.first_ms && other.until_ms >= now_ms
        })
    }

    fn find(&self, process_id: &str) -> Option<&DeviceProcess> {
        self.0.iter().find(|process| process.id == process_id)
    }
}
