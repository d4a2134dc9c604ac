//! `devices:heartbeat`: a device reports that it is online. The report is signed, so that only the device can make it.

use rusqlite::OptionalExtension as _;
use serde::{Deserialize, Serialize};

use super::processes::Processes;
use super::{BEAT_MS, LONGEST_BEAT_MS, is_false};
use crate::dev_backend::args::{self, Number, optional};
use crate::dev_backend::failure::{Code, Failure};
use crate::dev_backend::functions::Mutation;
use crate::dev_backend::store::Commit;
use crate::dev_backend::{auth, signature};
use crate::ids::{DeviceId, ProcessId};

/// The most bytes of a health report.
const HEALTH_LIMIT: usize = 4 * 1024;

/// The arguments of `heartbeat`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::dev_backend) struct Heartbeat {
    device_id: String,
    signed_at_ms: Number,
    signature: String,
    #[serde(default, deserialize_with = "optional")]
    online: Option<bool>,
    /// The device's interval of heartbeats; long while it has a wake-up socket.
    #[serde(default, deserialize_with = "optional")]
    beat_ms: Option<Number>,
    /// The device's health as JSON text; each heartbeat replaces it, also with nothing.
    #[serde(default, deserialize_with = "optional")]
    health: Option<String>,
    /// An id for each start of the device's process; older devices have none.
    #[serde(default, deserialize_with = "optional")]
    process_id: Option<String>,
}

/// The value of `heartbeat`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::dev_backend) struct Heard {
    server_now_ms: f64,
    next_beat_ms: f64,
    /// True if another process with this device's identity sends heartbeats.
    #[serde(skip_serializing_if = "is_false")]
    other_process: bool,
}

impl Mutation for Heartbeat {
    const PATH: &'static str = "devices:heartbeat";
    type Reply = Heard;

    fn run(self, db: &mut Commit<'_>) -> Result<Heard, Failure> {
        let device = DeviceId::parse(&self.device_id)?;
        let signed_at = self.signed_at_ms.whole("signedAtMs")?;
        if let Some(health) = &self.health {
            args::payload("health", health, HEALTH_LIMIT)?;
        }
        let wanted = self.beat_ms.map_or(Ok(BEAT_MS), |ms| ms.finite("beatMs"))?;
        let beat_ms = wanted.clamp(BEAT_MS, LONGEST_BEAT_MS);
        let (key, revoked): ([u8; 32], bool) = db
            .prepare_cached("SELECT public_key, revoked FROM devices WHERE device_id = ?1")?
            .query_row([device.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?
            .ok_or_else(auth::unknown_device)?;
        if revoked {
            return Err(auth::revoked_device());
        }
        signature::verify(&signature::pinned(&key)?, &format!("{device}:{signed_at}"), &self.signature)?;
        signature::fresh(signed_at, db.now_ms)?;
        db.changes_only([]);
        let online = self.online.unwrap_or(true);
        let (processes, other_process) = self.note_process(db, &device, online, beat_ms)?;
        let beaten = db
            .prepare_cached(
                "INSERT INTO presence (device_id, signed_at_ms, seen_at_ms, online, health, processes, beat_ms) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (device_id) DO UPDATE SET \
                 signed_at_ms = excluded.signed_at_ms, seen_at_ms = excluded.seen_at_ms, \
                 online = excluded.online, health = excluded.health, processes = excluded.processes, \
                 beat_ms = excluded.beat_ms \
                 WHERE excluded.signed_at_ms > presence.signed_at_ms",
            )?
            .execute((
                device.as_str(),
                signed_at,
                db.now_ms,
                online,
                &self.health,
                processes,
                beat_ms,
            ))?;
        if beaten == 0 {
            let message = "a beat signed at this time or later was heard already; sign again";
            return Err(Failure::thrown(Code::SignatureReplayed, message));
        }
        Ok(Heard { server_now_ms: db.now_ms, next_beat_ms: beat_ms, other_process })
    }
}

impl Heartbeat {
    /// Returns the list of the device's processes after this heartbeat, and whether there is another process.
    fn note_process(
        &self,
        db: &Commit<'_>,
        device: &DeviceId,
        online: bool,
        beat_ms: f64,
    ) -> Result<(String, bool), Failure> {
        let mut processes = Processes::of(db, device)?;
        let Some(process_id) = &self.process_id else { return Ok((processes.to_text(), false)) };
        let process = ProcessId::parse(process_id)?;
        processes.beat(process.as_str(), online, db.now_ms, beat_ms);
        Ok((processes.to_text(), processes.others_than(process.as_str(), db.now_ms)))
    }
}
