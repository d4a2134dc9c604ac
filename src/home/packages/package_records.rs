//! The records of installed and removed packages, and of a change that is under way: `state/packages.json`.

use serde::{Deserialize, Serialize};

use super::package_content::FileHashes;
use super::package_kind::PackageKind;

/// The record of one installed package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PackageReceipt {
    /// The kind.
    pub kind: PackageKind,
    /// The id in the home.
    pub id: String,
    /// The id of the package.
    pub package: String,
    /// The version, if it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The SHA-256 of the arguments that installed it.
    pub sha256: String,
    /// The SHA-256 of each installed file.
    pub files: FileHashes,
    /// The time of the installation, in milliseconds since 1970.
    pub at_ms: i64,
}

/// The record of a package that was removed or replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemovedPackage {
    /// The name of its file or folder among the removed ones.
    pub name: String,
    /// Its receipt.
    pub receipt: PackageReceipt,
    /// True if an update replaced it. Its files are then as the package brought them.
    #[serde(default)]
    pub is_replaced: bool,
    /// The time of the removal, in milliseconds since 1970.
    pub at_ms: i64,
}

/// Where the files come from that a change puts in place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum ChangeSource {
    /// The staging folder.
    Staging,
    /// This one of the removed packages.
    Removed(String),
}

/// A change that has begun. A later process finishes it or takes it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PendingChange {
    pub(super) kind: PackageKind,
    pub(super) id: String,
    /// The files that are put in place.
    pub(super) source: Option<ChangeSource>,
    /// What they replace, or what is removed.
    pub(super) removed: Option<RemovedPackage>,
    /// The receipt after the change.
    pub(super) receipt: Option<PackageReceipt>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PackageRecords {
    pub(super) installed: Vec<PackageReceipt>,
    pub(super) removed: Vec<RemovedPackage>,
    pub(super) pending: Option<PendingChange>,
}

impl PackageRecords {
    /// Returns the receipt of an installed package.
    pub(super) fn find_receipt(&self, kind: PackageKind, id: &str) -> Option<&PackageReceipt> {
        let mut all = self.installed.iter();
        all.find(|receipt| receipt.kind == kind && receipt.id == id)
    }

    /// Returns the package of this id that was removed last.
    pub(super) fn find_removed(&self, kind: PackageKind, id: &str) -> Option<&RemovedPackage> {
        let all = self.removed.iter().rev();
        let mut same = all.filter(|one| one.receipt.kind == kind && one.receipt.id == id);
        same.next()
    }

    /// Records that the pending change is complete.
    pub(super) fn complete_pending(&mut self) {
        let Some(change) = self.pending.take() else {
            return;
        };
        self.installed
            .retain(|receipt| (receipt.kind, &receipt.id) != (change.kind, &change.id));
        self.installed.extend(change.receipt);
        self.installed
            .sort_by(|a, b| (a.kind, &a.id).cmp(&(b.kind, &b.id)));
        if let Some(ChangeSource::Removed(name)) = &change.source {
            self.removed.retain(|one| one.name != *name);
        }
        // Only the last replaced version is kept, so that many updates do not fill the disk.
        if change.removed.as_ref().is_some_and(|one| one.is_replaced) {
            self.removed.retain(|one| {
                let is_same = (one.receipt.kind, &one.receipt.id) == (change.kind, &change.id);
                !(one.is_replaced && is_same)
            });
        }
        self.removed.extend(change.removed);
    }
}
