//! Authentication: a device by its session token, a caller by its minted token.
//! Not here: signatures, which prove a device's key when it opens a session.

use rusqlite::Connection;

use super::credentials::{equals_in_constant_time, hash_text};
use super::failure::{FailureCode, FunctionFailure, FunctionResult};
use super::sql_calls::SqlCalls as _;
use punie_core::ids::DeviceId;

/// Returns the device if this is the token of its current session.
pub(super) fn authenticate_device(
    db: &Connection,
    device_id: &str,
    token: &str,
) -> FunctionResult<DeviceId> {
    let id = DeviceId::parse(device_id)?;
    let stored: Option<([u8; 32], bool)> = db.find_row(
        "SELECT token_hash, revoked FROM devices WHERE device_id = ?1",
        [id.as_str()],
        |row| row.try_into(),
    )?;
    match stored {
        Some((token_hash, false)) if equals_in_constant_time(&token_hash, &hash_text(token)) => {
            Ok(id)
        }
        Some(_) => Err(FunctionFailure::with_code(
            FailureCode::DeviceUnauthorized,
            "the token is not this device's session",
        )),
        None => Err(unknown_device()),
    }
}

/// Returns a device that callers may send requests to.
pub(super) fn find_active_device(db: &Connection, device_id: &str) -> FunctionResult<DeviceId> {
    let id = DeviceId::parse(device_id)?;
    let revoked: Option<bool> = db.find_row(
        "SELECT revoked FROM devices WHERE device_id = ?1",
        [id.as_str()],
        |row| row.get(0),
    )?;
    match revoked {
        Some(false) => Ok(id),
        Some(true) => Err(revoked_device()),
        None => Err(unknown_device()),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallerAction {
    /// Send requests to a device, cancel them, and read their results.
    Ask,
    /// Read and answer the questions of devices.
    Approve,
    /// List the devices and their catalogs; every caller may do this.
    Look,
}

impl CallerAction {
    /// Returns whether the token's restriction, set by the operator, allows the action.
    fn is_allowed_by(self, may: Option<&str>) -> bool {
        match (self, may) {
            (Self::Look, _) | (_, None) => true,
            (Self::Ask, Some(word)) => word == "ask",
            (Self::Approve, Some(word)) => word == "approve",
        }
    }

    fn refusal_text(self) -> &'static str {
        match self {
            Self::Ask => {
                "this caller may approve, and not ask: its token was minted for that alone"
            }
            Self::Approve => {
                "this caller may ask, and not approve: its token was minted for that alone"
            }
            Self::Look => "this caller may not look",
        }
    }
}

/// Returns the caller's name. Refuses an unknown caller token, and one that does not allow the action. Tokens are looked
/// up by their hash, so timing reveals nothing.
pub(super) fn authorize_caller(
    db: &Connection,
    token: &str,
    action: CallerAction,
) -> FunctionResult<String> {
    let caller: Option<(String, Option<String>)> = db.find_row(
        "SELECT name, may FROM callers WHERE token_hash = ?1",
        [hash_text(token)],
        |row| row.try_into(),
    )?;
    let refusal = match caller {
        Some((name, may)) if action.is_allowed_by(may.as_deref()) => return Ok(name),
        Some(_) => action.refusal_text(),
        None => "the caller token is not one of this backend's",
    };
    Err(FunctionFailure::with_code(
        FailureCode::CallerUnauthorized,
        refusal,
    ))
}

/// Returns the failure for a device that never opened a session here.
pub(super) fn unknown_device() -> FunctionFailure {
    FunctionFailure::with_code(
        FailureCode::DeviceUnknown,
        "no device of this id has opened a session",
    )
}

/// Returns the failure for a device that the owner revoked.
pub(super) fn revoked_device() -> FunctionFailure {
    FunctionFailure::with_code(FailureCode::DeviceUnauthorized, "this device was revoked")
}
