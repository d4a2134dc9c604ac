//! The data that a command passes to its shims in a variable: for which request they remove, and where to.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use punie_core::ids::RequestId;

/// The name of the variable.
pub const VARIABLE: &str = "PUNIE_TRASH";

/// Folders that mostly hold what can be made again. They may take a quarter of what commands may, an eighth of the trash.
const REBUILDABLE: &[&str] = &["target", "node_modules"];

/// The value of [`VARIABLE`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShimEnv {
    /// The request.
    pub request: RequestId,
    /// The proof that a manifest was written for this request.
    pub proof: String,
    /// The folder that takes removed items.
    pub into: PathBuf,
    /// The most that it takes, in bytes.
    pub max_bytes: u64,
    /// The workspaces, without links.
    pub workspaces: Vec<PathBuf>,
    /// The folder of the shims.
    pub programs: PathBuf,
    /// The socket by which the runner moves items, if it listens.
    #[serde(default)]
    pub mover: Option<PathBuf>,
}

/// The part of the quota that a path counts against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QuotaShare {
    Full,
    /// A quarter, for what can be made again or lies in a repository's own folder.
    Rebuildable,
}

/// The bytes on the disk that one run has moved to the trash.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct UsedQuota {
    all: u64,
    rebuildable: u64,
}

impl ShimEnv {
    /// Reads the value of the variable.
    pub fn parse_variable(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The value of the variable, or `None` if a path is not text.
    pub fn to_variable(&self) -> Option<String> {
        serde_json::to_string(self).ok()
    }

    /// Finds the workspace that holds this path, which has no links.
    pub(super) fn find_workspace(&self, path: &Path) -> Option<&Path> {
        let found = self
            .workspaces
            .iter()
            .find(|workspace| path.starts_with(workspace))?;
        (!path.starts_with(&self.into)).then_some(found)
    }

    /// Returns whether a workspace or the trash lies below this path.
    pub(super) fn contains_protected_folder(&self, path: &Path) -> bool {
        let is_below = |folder: &PathBuf| folder.starts_with(path) && folder != path;
        self.into.starts_with(path) || self.workspaces.iter().any(is_below)
    }

    /// The bytes that a share takes at most.
    pub(super) fn share_limit(&self, share: QuotaShare) -> u64 {
        if share == QuotaShare::Full {
            self.max_bytes
        } else {
            self.max_bytes / 4
        }
    }

    /// The bytes that a share still takes.
    pub(super) fn share_free_bytes(&self, share: QuotaShare, used: UsedQuota) -> u64 {
        let of_share = if share == QuotaShare::Full {
            0
        } else {
            used.rebuildable
        };
        self.share_limit(share)
            .saturating_sub(of_share)
            .min(self.max_bytes.saturating_sub(used.all))
    }
}

impl QuotaShare {
    /// The share that a path in this workspace counts against.
    pub fn for_path(path: &Path, workspace: &Path) -> Self {
        let below = path.strip_prefix(workspace).unwrap_or(path);
        let is_rebuildable = below
            .iter()
            .any(|part| REBUILDABLE.iter().any(|name| part == *name));
        let in_git = below
            .parent()
            .is_some_and(|above| above.iter().any(|part| part == ".git"));
        if is_rebuildable || in_git {
            Self::Rebuildable
        } else {
            Self::Full
        }
    }
}

impl UsedQuota {
    /// Counts bytes that go to the trash.
    pub fn add_bytes(&mut self, share: QuotaShare, bytes: u64) {
        self.all += bytes;
        self.rebuildable += if share == QuotaShare::Rebuildable {
            bytes
        } else {
            0
        };
    }

    /// Counts bytes back that did not go to the trash after all.
    pub fn subtract_bytes(&mut self, share: QuotaShare, bytes: u64) {
        self.all -= bytes;
        self.rebuildable -= if share == QuotaShare::Rebuildable {
            bytes
        } else {
            0
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(workspace: &str) -> ShimEnv {
        ShimEnv {
            request: RequestId::new(),
            proof: String::new(),
            into: PathBuf::from("/h"),
            max_bytes: 800,
            workspaces: vec![PathBuf::from(workspace)],
            programs: PathBuf::from("/p"),
            mover: None,
        }
    }

    #[test]
    fn what_is_made_again_gets_a_share_and_a_repository_does_not_count_as_that() {
        let env = env("/w/target");
        let most = |path: &str| {
            env.share_limit(QuotaShare::for_path(
                Path::new(path),
                Path::new("/w/target"),
            ))
        };
        assert_eq!(
            [
                most("/w/target/src"),
                most("/w/target/.git"),
                most("/w/target/a/target.rs")
            ],
            [800; 3]
        );
        assert_eq!(
            [
                most("/w/target/a/target"),
                most("/w/target/node_modules/x"),
                most("/w/target/.git/objects")
            ],
            [200; 3]
        );
    }

    #[test]
    fn what_was_made_again_takes_room_from_all_and_not_the_other_way_round() {
        let env = env("/w");
        let mut used = UsedQuota::default();
        used.add_bytes(QuotaShare::Full, 500);
        let free = |used| {
            (
                env.share_free_bytes(QuotaShare::Full, used),
                env.share_free_bytes(QuotaShare::Rebuildable, used),
            )
        };
        assert_eq!(free(used), (300, 200));
        used.add_bytes(QuotaShare::Rebuildable, 150);
        assert_eq!(free(used), (150, 50));
    }
}
