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

/// What a caller wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallerAction {
    /// Ask a device for a tool, take that back, see what comes of it.
    Ask,
    /// See and answer what devices ask about.
    Approve,
    /// See which devices there are and what they offer: open to every caller.
    Look,
}

impl CallerAction {
    /// Whether a token with this word of the operator is good for it.
    fn is_allowed(self, may: Option<&str>) -> bool {
        match (self, may) {
            (Self::Look, _) | (_, None) => true,
            (Self::Ask, Some(word)) => word == "ask",
            (Self::Approve, Some(word)) => word == "approve",
        }
    }

    fn refusal(self) -> &'static str {
        match self {
            Self::Ask => "this caller may approve, and not ask: its token was minted for that alone",
            Self::Approve => "this caller may ask, and not approve: its token was minted for that alone",
            Self::Look => "this caller may not look",
        }
    }
}

/// Refuses whoever holds no caller token, or one that is not good for this. A token is looked up by its hash, so timing
/// tells nothing of it.
pub(super) fn caller(db: &Connection, token: &str, action: CallerAction) -> Result<(), Failure> {
    let may: Option<Option<String>> = db
        .prepare_cached("SELECT may FROM callers WHERE token_hash = ?1")?
        .query_row([hash(token)], |row| row.get(0))
        .optional()?;
    let refusal = match may {
        Some(may) if action.is_allowed(may.as_deref()) => return Ok(()),
        Some(_) => action.refusal(),
        None => "the caller token is not one of this backend's",
    };
    Err(Failure::thrown(Code::CallerUnauthorized, refusal))
}

/// The device never opened a session here.
pub(super) fn unknown_device() -> Failure {
    Failure::thrown(Code::DeviceUnknown, "no device of this id has opened a session")
}

/// The owner withdrew the device.
pub(super) fn revoked_device() -> Failure {
    Failure::thrown(Code::DeviceUnauthorized, "this device was revoked")
}
