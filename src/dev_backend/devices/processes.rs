//! Which processes of one device beat: how two that share an identity (a copied home) are told from one that was
//! restarted. A device is told of another process only when that one beat after the asker's own first beat. A process
//! that has ended cannot do that, so that a restart, after a crash too, is never taken for a second process.
//! Not here: where the list is kept (presence).

use rusqlite::{Connection, OptionalExtension as _};
use serde::{Deserialize, Serialize};

use crate::ids::DeviceId;

/// The most processes that are remembered of one device.
const MOST: usize = 8;

/// One process, by its beats.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Process {
    #[serde(rename = "processId")]
    id: String,
    first_ms: f64,
    last_ms: f64,
    /// After so long without a beat it counts as gone: two beats after its last one.
    until_ms: f64,
}

/// The processes of one device, the one that beat last at the end.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Processes(Vec<Process>);

impl Processes {
    /// Reads those of a device; none before its first beat.
    pub fn of(db: &Connection, device: &DeviceId) -> rusqlite::Result<Self> {
        let text: Option<Option<String>> = db
            .prepare_cached("SELECT processes FROM presence WHERE device_id = ?1")?
            .query_row([device.as_str()], |row| row.get(0))
            .optional()?;
        Ok(text.flatten().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
    }

    /// Writes the list as JSON text.
    pub fn to_text(&self) -> String {
        serde_json::to_string(&self.0).expect("texts and finite numbers are JSON")
    }

    /// Notes a beat of this process, which is to beat again within `next_ms`; one that says goodbye is taken off.
    pub fn beat(&mut self, process_id: &str, online: bool, now_ms: f64, next_ms: f64) {
        let first_ms = self.find(process_id).map_or(now_ms, |own| own.first_ms);
        self.0.retain(|process| process.id != process_id && process.until_ms >= now_ms);
        if online {
            let until_ms = now_ms + 2.0 * next_ms;
            self.0.push(Process { id: process_id.to_owned(), first_ms, last_ms: now_ms, until_ms });
        }
        let surplus = self.0.len().saturating_sub(MOST);
        self.0.drain(..surplus);
    }

    /// Tells whether another process has beaten since the first beat of this one, and is not gone.
    pub fn others_than(&self, process_id: &str, now_ms: f64) -> bool {
        let Some(own) = self.find(process_id) else { return false };
        self.0
            .iter()
            .any(|other| other.id != process_id && other.last_ms > own.first_ms && other.until_ms >= now_ms)
    }

    fn find(&self, process_id: &str) -> Option<&Process> {
        self.0.iter().find(|process| process.id == process_id)
    }
}
