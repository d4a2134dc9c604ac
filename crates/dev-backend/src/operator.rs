//! The operator's functions, which need the admin key: caller tokens and revoked devices. The hosted backend has the
//! same ones, so `npx convex run` and `punie-runner operator` work with both.

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::commit_transaction::CommitTransaction;
use super::credentials;
use super::failure::{FunctionFailure, FunctionResult};
use super::function_traits::{MutationFunction, QueryFunction, SnapshotView};
use super::sql_calls::SqlCalls as _;
use punie_core::caller_name::check_caller_name;
use punie_core::ids::DeviceId;

/// The permission of a caller, as the operator sets it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallerPermission {
    /// Send requests to devices and read their results.
    #[default]
    Ask,
    /// Read and answer the questions of devices.
    Approve,
    /// Both of these.
    Both,
}

impl CallerPermission {
    /// Returns the stored and listed text; `None` for both permissions, as in the rows from before this column.
    fn stored_text(self) -> Option<&'static str> {
        match self {
            Self::Ask => Some("ask"),
            Self::Approve => Some("approve"),
            Self::Both => None,
        }
    }
}

/// Creates a caller's token and returns it. Only its hash is stored.
pub(super) fn mint_token(
    db: &Connection,
    name: &str,
    may: CallerPermission,
    now_ms: f64,
) -> FunctionResult<String> {
    let token = credentials::new_token()?;
    db.execute_cached(
        "INSERT INTO callers (token_hash, name, minted_at_ms, may) VALUES (?1, ?2, ?3, ?4)",
        (
            credentials::hash_text(&token),
            name,
            now_ms,
            may.stored_text(),
        ),
    )?;
    Ok(token)
}

/// The arguments of `callers:mint`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MintCaller {
    name: String,
    #[serde(default)]
    may: CallerPermission,
}

/// The value of `callers:mint`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MintedCaller {
    name: String,
    caller_token: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    may: Option<&'static str>,
}

impl MutationFunction for MintCaller {
    const PATH: &'static str = "callers:mint";
    type Reply = MintedCaller;

    fn run_mutation(self, db: &mut CommitTransaction<'_>) -> FunctionResult<MintedCaller> {
        check_caller_name(&self.name)
            .map_err(|bad| FunctionFailure::invalid_argument(bad.to_string()))?;
        let caller_token = mint_token(db, &self.name, self.may, db.now_ms)?;
        Ok(MintedCaller {
            name: self.name,
            caller_token,
            may: self.may.stored_text(),
        })
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

impl QueryFunction for ListCallers {
    const PATH: &'static str = "callers:list";
    /// Sorted by name.
    type Reply = Vec<ListedCaller>;

    fn run_on_snapshot(&self, view: &SnapshotView<'_>) -> FunctionResult<Self::Reply> {
        let mut callers = view.db.prepare_cached(
            "SELECT name, minted_at_ms, may FROM callers ORDER BY name, minted_at_ms",
        )?;
        let listed = callers.query_map([], |row| {
            Ok(ListedCaller {
                name: row.get(0)?,
                minted_at_ms: row.get(1)?,
                may: row.get(2)?,
            })
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

impl MutationFunction for RevokeCaller {
    const PATH: &'static str = "callers:revoke";
    type Reply = RevokedCallers;

    fn run_mutation(self, db: &mut CommitTransaction<'_>) -> FunctionResult<RevokedCallers> {
        let revoked = db.execute_cached("DELETE FROM callers WHERE name = ?1", [&self.name])?;
        #[expect(clippy::cast_precision_loss, reason = "callers are few")]
        Ok(RevokedCallers {
            revoked: revoked as f64,
        })
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

impl MutationFunction for RevokeDevice {
    const PATH: &'static str = "devices:revoke";
    type Reply = RevokedDevice;

    fn run_mutation(self, db: &mut CommitTransaction<'_>) -> FunctionResult<RevokedDevice> {
        let device = DeviceId::parse(&self.device_id)?;
        let revoked = db.execute_cached(
            "UPDATE devices SET revoked = 1 WHERE device_id = ?1",
            [device.as_str()],
        )?;
        // A held poll ends now, with the refusal.
        db.wake_after_commit(&device);
        Ok(RevokedDevice {
            revoked: revoked > 0,
        })
    }
}
