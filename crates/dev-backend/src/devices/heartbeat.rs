//! `devices:heartbeat`: a device reports that it is online. The report is signed, so that only the device can make it.

use serde::{Deserialize, Serialize};

use super::processes::DeviceProcessList;
use super::{BEAT_MS, LONGEST_BEAT_MS, is_false};
use crate::args::{self, WireNumber, optional};
use crate::commit_transaction::CommitTransaction;
use crate::failure::{FailureCode, FunctionFailure, FunctionResult};
use crate::function_traits::MutationFunction;
use crate::sql_calls::SqlCalls as _;
use crate::{auth, device_signature};
use punie_core::ids::{DeviceId, ProcessId};

/// The most bytes of a health report.
const HEALTH_LIMIT: usize = 4 * 1024;

/// The arguments of `heartbeat`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RecordHeartbeat {
    device_id: String,
    signed_at_ms: WireNumber,
    signature: String,
    #[serde(default, deserialize_with = "optional")]
    online: Option<bool>,
    /// The device's interval of heartbeats; long while it has a wake-up socket.
    #[serde(default, deserialize_with = "optional")]
    beat_ms: Option<WireNumber>,
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
pub(crate) struct RecordedHeartbeat {
    server_now_ms: f64,
    next_beat_ms: f64,
    /// True if another process with this device's identity sends heartbeats.
    #[serde(skip_serializing_if = "is_false")]
    other_process: bool,
}

impl MutationFunction for RecordHeartbeat {
    const PATH: &'static str = "devices:heartbeat";
    type Reply = RecordedHeartbeat;

    fn run_mutation(self, db: &mut CommitTransaction<'_>) -> FunctionResult<RecordedHeartbeat> {
        let device = DeviceId::parse(&self.device_id)?;
        let signed_at = self.signed_at_ms.whole_value("signedAtMs")?;
        if let Some(health) = &self.health {
            args::check_payload_size("health", health, HEALTH_LIMIT)?;
        }
        let wanted = self
            .beat_ms
            .map_or(Ok(BEAT_MS), |ms| ms.finite_value("beatMs"))?;
        let beat_ms = wanted.clamp(BEAT_MS, LONGEST_BEAT_MS);
        let (key, revoked): ([u8; 32], bool) = db
            .find_row(
                "SELECT public_key, revoked FROM devices WHERE device_id = ?1",
                [device.as_str()],
                |row| row.try_into(),
            )?
            .ok_or_else(auth::unknown_device)?;
        if revoked {
            return Err(auth::revoked_device());
        }
        device_signature::verify_text(
            &device_signature::pinned_key(&key)?,
            &format!("{device}:{signed_at}"),
            &self.signature,
        )?;
        device_signature::check_freshness(signed_at, db.now_ms)?;
        db.limit_topics([]);
        let online = self.online.unwrap_or(true);
        let (processes, other_process) = self.record_process(db, &device, online, beat_ms)?;
        let beaten = db.execute_cached(
            "INSERT INTO presence (device_id, signed_at_ms, seen_at_ms, online, health, processes, beat_ms) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (device_id) DO UPDATE SET \
             signed_at_ms = excluded.signed_at_ms, seen_at_ms = excluded.seen_at_ms, \
             online = excluded.online, health = excluded.health, processes = excluded.processes, \
             beat_ms = excluded.beat_ms \
             WHERE excluded.signed_at_ms > presence.signed_at_ms",
            (
                device.as_str(),
                signed_at,
                db.now_ms,
                online,
                &self.health,
                processes,
                beat_ms,
            ),
        )?;
        if beaten == 0 {
            let message = "a beat signed at this time or later was heard already; sign again";
            return Err(FunctionFailure::with_code(
                FailureCode::SignatureReplayed,
                message,
            ));
        }
        Ok(RecordedHeartbeat {
            server_now_ms: db.now_ms,
            next_beat_ms: beat_ms,
            other_process,
        })
    }
}

impl RecordHeartbeat {
    /// Returns the list of the device's processes after this heartbeat, and whether there is another process.
    fn record_process(
        &self,
        db: &CommitTransaction<'_>,
        device: &DeviceId,
        online: bool,
        beat_ms: f64,
    ) -> FunctionResult<(String, bool)> {
        let mut processes = DeviceProcessList::load_for_device(db, device)?;
        let Some(process_id) = &self.process_id else {
            return Ok((processes.to_stored_json(), false));
        };
        let process = ProcessId::parse(process_id)?;
        processes.record_beat(process.as_str(), online, db.now_ms, beat_ms);
        Ok((
            processes.to_stored_json(),
            processes.has_other_than(process.as_str(), db.now_ms),
        ))
    }
}
