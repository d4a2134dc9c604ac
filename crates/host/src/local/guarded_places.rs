//! The places where the guard of protected paths looks: the workspaces' folders, the folders from there to a command's
//! working folder, and the known repositories. A scan of everything would cost more than most commands.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::OnceLock;

use super::folder_scan::{MAX_SCANNED_ENTRIES, ScanExtent};
use super::known_repositories::KnownRepositories;
use super::protected_paths::{ProtectedPathScan, ProtectedPathState};
use punie_sandbox::SandboxRules;

/// The workspaces, the repositories that git uses beside them, and the paths that the owner lets commands write.
pub(super) struct GuardedPlaces {
    rules: SandboxRules,
    resolved: OnceLock<(Vec<PathBuf>, Vec<PathBuf>)>,
    pub repositories: KnownRepositories,
}

impl GuardedPlaces {
    pub fn new(rules: SandboxRules) -> Self {
        Self {
            rules,
            resolved: OnceLock::new(),
            repositories: KnownRepositories::default(),
        }
    }

    /// Returns whether these rules have the same workspaces and let commands write the same paths.
    pub fn has_same_places(&self, rules: &SandboxRules) -> bool {
        self.rules.workspaces == rules.workspaces
            && self.rules.repositories == rules.repositories
            && self.rules.write == rules.write
            && self.rules.own_home == rules.own_home
    }

    fn resolve(&self) -> &(Vec<PathBuf>, Vec<PathBuf>) {
        self.resolved.get_or_init(|| {
            let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
            let roots = self.rules.workspaces.iter().chain(&self.rules.repositories);
            let roots: Vec<PathBuf> = roots.map(real).collect();
            let named = self
                .rules
                .write
                .iter()
                .filter(|path| roots.iter().all(|root| !root.starts_with(path)));
            let free = named.chain([&self.rules.own_home]).cloned().collect();
            (roots, free)
        })
    }

    /// Returns the workspaces, resolved.
    pub fn workspaces(&self) -> &[PathBuf] {
        &self.roots()[..self.rules.workspaces.len()]
    }

    /// Returns the workspaces, then the repositories outside of them, resolved.
    pub fn roots(&self) -> &[PathBuf] {
        &self.resolve().0
    }

    /// Returns the paths that commands may write, among them the runner's own folder.
    pub fn free(&self) -> &[PathBuf] {
        &self.resolve().1
    }

    /// Scans the workspaces, these folders in them, and the repositories that are known. Returns the paths, and the
    /// descriptions of what was left out.
    pub fn scan_paths(
        &self,
        folders: &BTreeSet<PathBuf>,
    ) -> (BTreeMap<PathBuf, ProtectedPathState>, Vec<String>) {
        let (roots, repositories) = self.roots().split_at(self.rules.workspaces.len());
        let mut found = ProtectedPathScan::new(self.free());
        for repository in repositories {
            found.add_repository(repository);
        }
        for folder in self.repositories.below(roots) {
            found.add_repository(&folder.join(".git"));
        }
        for root in roots {
            let entries = found.add_folder(root);
            if entries.extent == ScanExtent::Refused {
                found.add_unreadable(root);
            } else if entries.extent == ScanExtent::Cut {
                found.limits.push(format!(
                    "{} holds more than is looked through ({MAX_SCANNED_ENTRIES} entries): repositories among the rest that were \
                     not found before are not protected from commands. One that is a workspace of its own is.",
                    root.display()
                ));
            }
            for child in self.repositories.candidates_among(entries.folders) {
                if found.add_repository(&child.join(".git")) {
                    self.repositories.add(&child);
                }
            }
        }
        for folder in folders {
            found.add_folder(folder);
        }
        (found.seen, found.limits)
    }
}
