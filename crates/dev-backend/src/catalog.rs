//! `catalog:upsertMany` and `catalog:list`: a device's tools, skills, agents and plugins. Bodies are JSON text that the
//! backend does not parse.

use std::collections::HashSet;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::args::{self, PAYLOAD_LIMIT, WireNumber, optional};
use super::auth;
use super::commit_transaction::CommitTransaction;
use super::failure::{FailureCode, FunctionFailure, FunctionResult};
use super::function_traits::{MutationFunction, QueryFunction, SnapshotView};
use super::sql_calls::SqlCalls as _;
use punie_core::ids::DeviceId;

/// The most items in one call.
const MOST_ITEMS: usize = 1000;
/// The most bytes of one kind's bodies, because `list` returns them in one reply.
const KIND_LIMIT: usize = 6 * 1024 * 1024;

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StoredCatalogKind {
    Tool,
    Skill,
    Agent,
    Plugin,
}

impl StoredCatalogKind {
    fn column_text(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Skill => "skill",
            Self::Agent => "agent",
            Self::Plugin => "plugin",
        }
    }
}

/// An item of a catalog. The hash shows if the body changed.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredCatalogItem {
    key: String,
    hash: String,
    body: String,
}

/// The arguments of `upsertMany`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct UpsertMany {
    device_id: String,
    token: String,
    kind: StoredCatalogKind,
    revision: WireNumber,
    /// True if these items are the complete set: all others are deleted.
    complete: bool,
    items: Vec<StoredCatalogItem>,
}

/// The value of `upsertMany`.
#[derive(Default, Serialize)]
pub(super) struct UpsertCounts {
    inserted: f64,
    updated: f64,
    removed: f64,
    unchanged: f64,
}

impl UpsertMany {
    fn check_items(&self) -> FunctionResult<()> {
        if self.items.len() > MOST_ITEMS {
            return Err(FunctionFailure::invalid_argument(format!(
                "items must be at most {MOST_ITEMS} in one call"
            )));
        }
        let mut keys = HashSet::new();
        for item in &self.items {
            args::check_text_length("key", &item.key, 256)?;
            args::check_text_length("hash", &item.hash, 128)?;
            args::check_payload_size("body", &item.body, PAYLOAD_LIMIT)?;
            if !keys.insert(item.key.as_str()) {
                return Err(FunctionFailure::invalid_argument(format!(
                    "the key {:?} is twice among items",
                    item.key
                )));
            }
        }
        Ok(())
    }

    /// Stores the revision. Returns false if a higher one is stored already: this call is too late and has no effect.
    fn record_revision(&self, db: &Connection, device: &DeviceId) -> FunctionResult<bool> {
        let noted = db.execute_cached(
            "INSERT INTO catalog_revisions (device_id, kind, revision) VALUES (?1, ?2, ?3) \
                 ON CONFLICT (device_id, kind) DO UPDATE SET revision = excluded.revision \
                 WHERE excluded.revision >= catalog_revisions.revision",
            (
                device.as_str(),
                self.kind.column_text(),
                self.revision.whole_value("revision")?,
            ),
        )?;
        Ok(noted == 1)
    }

    fn upsert_item(
        &self,
        db: &Connection,
        device: &DeviceId,
        item: &StoredCatalogItem,
        tally: &mut UpsertCounts,
    ) -> rusqlite::Result<()> {
        let id = (device.as_str(), self.kind.column_text(), &item.key);
        let stored: Option<String> = db.find_row(
            "SELECT hash FROM catalog WHERE device_id = ?1 AND kind = ?2 AND key = ?3",
            id,
            |row| row.get(0),
        )?;
        match stored {
            Some(hash) if hash == item.hash => {
                tally.unchanged += 1.0;
                return Ok(());
            }
            Some(_) => tally.updated += 1.0,
            None => tally.inserted += 1.0,
        }
        db.execute_cached(
            "INSERT INTO catalog (device_id, kind, key, hash, body) VALUES (?1, ?2, ?3, ?4, ?5) \
             ON CONFLICT (device_id, kind, key) DO UPDATE SET hash = excluded.hash, body = excluded.body",
            (id.0, id.1, id.2, &item.hash, &item.body),
        )?;
        Ok(())
    }

    /// Deletes the items that are not in this complete set.
    fn remove_missing(&self, db: &Connection, device: &DeviceId) -> rusqlite::Result<f64> {
        let kept: HashSet<&str> = self.items.iter().map(|item| item.key.as_str()).collect();
        let stored: Vec<String> = db.read_rows(
            "SELECT key FROM catalog WHERE device_id = ?1 AND kind = ?2",
            (device.as_str(), self.kind.column_text()),
            |row| row.get(0),
        )?;
        let mut delete = db.prepare_cached(
            "DELETE FROM catalog WHERE device_id = ?1 AND kind = ?2 AND key = ?3",
        )?;
        let mut removed = 0.0;
        for key in stored.iter().filter(|key| !kept.contains(key.as_str())) {
            delete.execute((device.as_str(), self.kind.column_text(), key))?;
            removed += 1.0;
        }
        Ok(removed)
    }

    fn check_total_size(&self, db: &Connection, device: &DeviceId) -> FunctionResult<()> {
        let bytes: i64 = db
            .prepare_cached(
                "SELECT coalesce(sum(octet_length(body)), 0) FROM catalog WHERE device_id = ?1 AND kind = ?2",
            )?
            .query_row((device.as_str(), self.kind.column_text()), |row| row.get(0))?;
        if usize::try_from(bytes).is_ok_and(|bytes| bytes <= KIND_LIMIT) {
            return Ok(());
        }
        Err(FunctionFailure::payload_too_large(
            "the catalog of one kind",
            KIND_LIMIT,
        ))
    }
}

impl MutationFunction for UpsertMany {
    const PATH: &'static str = "catalog:upsertMany";
    type Reply = UpsertCounts;

    fn run_mutation(self, db: &mut CommitTransaction<'_>) -> FunctionResult<UpsertCounts> {
        let device = auth::authenticate_device(db, &self.device_id, &self.token)?;
        self.check_items()?;
        let mut tally = UpsertCounts::default();
        if !self.record_revision(db, &device)? {
            #[expect(clippy::cast_precision_loss, reason = "at most MOST_ITEMS")]
            let late = self.items.len() as f64;
            return Ok(UpsertCounts {
                unchanged: late,
                ..tally
            });
        }
        for item in &self.items {
            self.upsert_item(db, &device, item, &mut tally)?;
        }
        if self.complete {
            tally.removed = self.remove_missing(db, &device)?;
        }
        self.check_total_size(db, &device)?;
        Ok(tally)
    }
}

/// The arguments of `list`: the token of a caller or of the device.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ListCatalog {
    #[serde(default, deserialize_with = "optional")]
    caller_token: Option<String>,
    #[serde(default, deserialize_with = "optional")]
    token: Option<String>,
    device_id: String,
    kind: StoredCatalogKind,
}

impl QueryFunction for ListCatalog {
    const PATH: &'static str = "catalog:list";
    /// Sorted by key.
    type Reply = Vec<StoredCatalogItem>;

    fn run_on_snapshot(&self, view: &SnapshotView<'_>) -> FunctionResult<Self::Reply> {
        let device = match (&self.caller_token, &self.token) {
            (Some(caller), _) => {
                auth::authorize_caller(view.db, caller, auth::CallerAction::Look)?;
                DeviceId::parse(&self.device_id)?
            }
            (None, Some(token)) => auth::authenticate_device(view.db, &self.device_id, token)?,
            (None, None) => {
                return Err(FunctionFailure::with_code(
                    FailureCode::CallerUnauthorized,
                    "callerToken or token must be given",
                ));
            }
        };
        let items = view.db.read_rows(
            "SELECT key, hash, body FROM catalog WHERE device_id = ?1 AND kind = ?2 ORDER BY key",
            (device.as_str(), self.kind.column_text()),
            |row| {
                Ok(StoredCatalogItem {
                    key: row.get(0)?,
                    hash: row.get(1)?,
                    body: row.get(2)?,
                })
            },
        )?;
        Ok(items)
    }
}
