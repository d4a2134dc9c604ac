//! Who is calling: a device by its session token, a caller by its minted one.
//! Not here: signatures, which prove a device's key when a session is opened.

use rusqlite::{Connection, OptionalExtension as _};

use super::failure::{Code, Failure};
use super::secrets::{hash, same};
use crate::ids::DeviceId;

/// The device whose current session this token is.
pub(super) fn device(db: &Connection, device_id: &str, token: &str) -> Result<DeviceId, Failure> {
    let id = DeviceId::parse(device_id)?;
    let stored: Option<([u8; 32], bool)> = db
        .prepare_cached("SELECT token_hash, revoked FROM devices WHERE device_id = ?1")?
        .query_row([id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match stored {
        Some((token_hash, false)) if same(&token_hash, &hash(token)) => Ok(id),
        Some(_) => Err(Failure::thrown(Code::DeviceUnauthorized, "the token is not this device's session")),
        None => Err(unknown_device()),
    }
}

/// A device that a caller may send requests to.
pub(super) fn addressee(db: &Connection, device_id: &str) -> Result<DeviceId, Failure> {
    let id = DeviceId::parse(device_id)?;
    let revoked: Option<bool> = db
        .prepare_cached("SELECT revoked FROM devices WHERE device_id = ?1")?
        .query_row([id.as_str()], |row| row.get(0))
        .optional()?;
    match revoked {
        Some(false) => Ok(id),
        Some(true) => Err(revoked_device()),
        None => Err(unknown_device()),
    }
}

/// Refuses whoever holds no caller token.
pub(super) fn caller(db: &Connection, token: &str) -> Result<(), Failure> {
    if is_caller(db, token)? {
        return Ok(());
    }
    Err(Failure::thrown(Code::CallerUnauthorized, "the caller token is not one of this backend's"))
}

/// Whether a token was minted here. Looked up by its hash, so timing tells nothing of the token.
pub(super) fn is_caller(db: &Connection, token: &str) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT 1 FROM callers WHERE token_hash = ?1")?.exists([hash(token)])
}

/// The device never opened a session here.
pub(super) fn unknown_device() -> Failure {
    Failure::thrown(Code::DeviceUnknown, "no device of this id has opened a session")
}

/// The owner withdrew the device.
pub(super) fn revoked_device() -> Failure {
    Failure::thrown(Code::DeviceUnauthorized, "this device was revoked")
}
