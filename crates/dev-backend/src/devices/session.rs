//! `devices:openSession`: a device proves its key and sets the token of its session. The first time it also shows the
//! pairing code, and its key is pinned for good.

use ed25519_dalek::VerifyingKey;
use serde::{Deserialize, Serialize};

use super::is_false;
use super::processes::DeviceProcessList;
use crate::args::{self, WireNumber, optional};
use crate::commit_transaction::CommitTransaction;
use crate::credentials::{Sha256Hash, hash_from_hex};
use crate::failure::{FailureCode, FunctionFailure, FunctionResult};
use crate::function_traits::MutationFunction;
use crate::sql_calls::SqlCalls as _;
use crate::{auth, device_signature, pairing};
use punie_core::ids::{DeviceId, ProcessId};

/// The version of the contract that this backend speaks.
const CONTRACT_VERSION: f64 = 1.0;

/// The arguments of `openSession`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct OpenSession {
    device_id: String,
    public_key: String,
    name: String,
    platform: String,
    signed_at_ms: WireNumber,
    /// SHA-256 of the token in hexadecimal; the token itself is not sent.
    token_hash: String,
    signature: String,
    #[serde(default, deserialize_with = "optional")]
    pairing_code: Option<String>,
    /// An id for each start of the device's process; older devices have none.
    #[serde(default, deserialize_with = "optional")]
    process_id: Option<String>,
}

/// The value of `openSession`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OpenedSession {
    device_id: DeviceId,
    /// True if this call registered the device.
    registered: bool,
    server_now_ms: f64,
    contract_version: f64,
    /// The id of the deployment, independent of its address.
    backend_id: String,
    /// True if another process with this device's identity sends heartbeats.
    #[serde(skip_serializing_if = "is_false")]
    other_process: bool,
}

impl OpenSession {
    /// Checks the signature before its age: only the key's holder learns more than that it is bad.
    fn verify_signature(&self, device: &DeviceId, now_ms: f64) -> FunctionResult<VerifyingKey> {
        let key = device_signature::parse_public_key(&self.public_key)?;
        let signed_at = self.signed_at_ms.whole_value("signedAtMs")?;
        let text = format!("punie-session:v1:{device}:{signed_at}:{}", self.token_hash);
        device_signature::verify_text(&key, &text, &self.signature)?;
        device_signature::check_freshness(signed_at, now_ms)?;
        Ok(key)
    }

    fn parse_token_hash(&self) -> FunctionResult<Sha256Hash> {
        hash_from_hex(&self.token_hash).ok_or_else(|| {
            FunctionFailure::invalid_argument("tokenHash must be a SHA-256: 64 hexadecimal digits")
        })
    }
}

/// Returns the id of this database; creates it on the first call.
fn ensure_backend_id(db: &CommitTransaction<'_>) -> rusqlite::Result<String> {
    let fresh = uuid::Uuid::new_v4().to_string();
    db.execute(
        "INSERT INTO deployment (only, id) VALUES (1, ?1) ON CONFLICT DO NOTHING",
        [fresh],
    )?;
    db.query_row("SELECT id FROM deployment", [], |row| row.get(0))
}

impl MutationFunction for OpenSession {
    const PATH: &'static str = "devices:openSession";
    type Reply = OpenedSession;

    fn run_mutation(self, db: &mut CommitTransaction<'_>) -> FunctionResult<OpenedSession> {
        let device = DeviceId::parse(&self.device_id)?;
        args::check_text_length("name", &self.name, 256)?;
        args::check_text_length("platform", &self.platform, 128)?;
        let token_hash = self.parse_token_hash()?;
        let key = self.verify_signature(&device, db.now_ms)?;
        let pinned: Option<([u8; 32], bool)> = db.find_row(
            "SELECT public_key, revoked FROM devices WHERE device_id = ?1",
            [device.as_str()],
            |row| row.try_into(),
        )?;
        let registered = match pinned {
            Some((pinned, _)) if pinned != *key.as_bytes() => {
                let message =
                    "this device id is pinned to another key; a new key needs a new device id";
                return Err(FunctionFailure::with_code(
                    FailureCode::DeviceKeyMismatch,
                    message,
                ));
            }
            Some((_, true)) => return Err(auth::revoked_device()),
            Some((_, false)) => false,
            None => {
                pairing::use_code(db, self.pairing_code.as_deref())?;
                true
            }
        };
        db.execute_cached(
            "INSERT INTO devices (device_id, public_key, token_hash, name, platform, registered_at_ms) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (device_id) DO UPDATE SET \
             token_hash = excluded.token_hash, name = excluded.name, platform = excluded.platform",
            (
                device.as_str(),
                key.as_bytes(),
                token_hash,
                &self.name,
                &self.platform,
                db.now_ms,
            ),
        )?;
        let other_process = match &self.process_id {
            Some(process) => {
                let process = ProcessId::parse(process)?;
                DeviceProcessList::load_for_device(db, &device)?
                    .has_other_than(process.as_str(), db.now_ms)
            }
            None => false,
        };
        Ok(OpenedSession {
            device_id: device,
            other_process,
            registered,
            server_now_ms: db.now_ms,
            contract_version: CONTRACT_VERSION,
            backend_id: ensure_backend_id(db)?,
        })
    }
}
