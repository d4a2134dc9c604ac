//! The operator's functions, which need the admin key: caller tokens, the pairing code, and revoked devices. The hosted
//! backend has the same ones, so `npx convex run` and `punie-runner operator` work with both.

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::args::{self, optional};
use super::failure::Failure;
use super::functions::{Mutation, Query, View};
use super::secrets;
use super::store::Commit;
use crate::ids::DeviceId;

/// The most bytes of a caller's name.
const NAME_LIMIT: usize = 256;

/// The permission of a caller, as the operator sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum May {
    Ask,
    Approve,
    Both,
}

impl May {
    /// Returns the stored and listed text; `None` for both permissions.
    fn word(self) -> Option<&'static str> {
        match self {
            Self::Ask => Some("ask"),
            Self::Approve => Some("approve"),
            Self::Both => None,
        }
    }
}

/// Creates a caller's token and returns it. Only its hash is stored.
pub(super) fn mint(db: &Connection, name: &str, may: Option<&str>, now_ms: f64) -> Result<String, Failure> {
    let token = secrets::new_token()?;
    db.prepare_cached("INSERT INTO callers (token_hash, name, minted_at_ms, may) VALUES (?1, ?2, ?3, ?4)")?
        .execute((secrets::hash(&token), name, now_ms, may))?;
    Ok(token)
}

/// The arguments of `callers:mint`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MintCaller {
    name: String,
    #[serde(default, deserialize_with = "optional")]
    may: Option<May>,
}

/// The value of `callers:mint`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Minted {
    name: String,
    caller_token: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    may: Option<&'static str>,
}

impl Mutation for MintCaller {
    const PATH: &'static str = "callers:mint";
    type Reply = Minted;

    fn run(self, db: &mut Commit<'_>) -> Result<Minted, Failure> {
        args::bounded("name", &self.name, NAME_LIMIT)?;
        let may = self.may.and_then(May::word);
        let caller_token = mint(db, &self.name, may, db.now_ms)?;
        Ok(Minted { name: self.name, caller_token, may })
    }
}

/// The arguments of `callers:list`: none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListCallers {}

/// A listed caller, without its token.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListedCaller {
    name: String,
    minted_at_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    may: Option<String>,
}

impl Query for ListCallers {
    const PATH: &'static str = "callers:list";
    /// Sorted by name.
    type Reply = Vec<ListedCaller>;

    fn run(&self, view: &View<'_>) -> Result<Self::Reply, Failure> {
        let mut callers = view
            .db
            .prepare_cached("SELECT name, minted_at_ms, may FROM callers ORDER BY name, minted_at_ms")?;
        let listed = callers.query_map([], |row| {
            Ok(ListedCaller { name: row.get(0)?, minted_at_ms: row.get(1)?, may: row.get(2)? })
        })?;
        Ok(listed.collect::<Result<_, _>>()?)
    }
}

/// The arguments of `callers:revoke`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RevokeCaller {
    name: String,
}

/// The value of `callers:revoke`: the number of revoked tokens.
#[derive(Serialize)]
pub(super) struct RevokedCallers {
    revoked: f64,
}

impl Mutation for RevokeCaller {
    const PATH: &'static str = "callers:revoke";
    type Reply = RevokedCallers;

    fn run(self, db: &mut Commit<'_>) -> Result<RevokedCallers, Failure> {
        let revoked = db.prepare_cached("DELETE FROM callers WHERE name = ?1")?.execute([&self.name])?;
        #[expect(clippy::cast_precision_loss, reason = "callers are few")]
        Ok(RevokedCallers { revoked: revoked as f64 })
    }
}

/// The arguments of `pairing:renew`: none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RenewPairing {}

/// The value of `pairing:renew`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Renewed {
    pairing_code: String,
}

impl Mutation for RenewPairing {
    const PATH: &'static str = "pairing:renew";
    type Reply = Renewed;

    fn run(self, db: &mut Commit<'_>) -> Result<Renewed, Failure> {
        let pairing_code = secrets::new_pairing_code()?;
        db.execute("UPDATE pairing SET code = ?1, closed = 0", [&pairing_code])?;
        Ok(Renewed { pairing_code })
    }
}

/// The arguments of `pairing:close`: none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClosePairing {}

impl Mutation for ClosePairing {
    const PATH: &'static str = "pairing:close";
    type Reply = ();

    fn run(self, db: &mut Commit<'_>) -> Result<(), Failure> {
        db.execute("UPDATE pairing SET closed = 1", [])?;
        Ok(())
    }
}

/// The arguments of `devices:revoke`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RevokeDevice {
    device_id: String,
}

/// The value of `devices:revoke`: true if the device exists.
#[derive(Serialize)]
pub(super) struct RevokedDevice {
    revoked: bool,
}

impl Mutation for RevokeDevice {
    const PATH: &'static str = "devices:revoke";
    type Reply = RevokedDevice;

    fn run(self, db: &mut Commit<'_>) -> Result<RevokedDevice, Failure> {
        let device = DeviceId::parse(&self.device_id)?;
        let revoked = db
            .prepare_cached("UPDATE devices SET revoked = 1 WHERE device_id = ?1")?
            .execute([device.as_str()])?;
        // A held poll ends now, with the refusal.
        db.touch(&device);
        Ok(RevokedDevice { revoked: revoked > 0 })
    }
}
