//! Covered files on systems without mount namespaces: no cover can fall off.

use std::path::PathBuf;

use notify::event::Event;

use super::process_tree::ProcessTree;
use super::protected_path_guard::SharedGuard;

/// The covered files of commands: none here.
#[derive(Default)]
pub(super) struct CoveredFiles;

impl CoveredFiles {
    /// Does nothing.
    pub fn add_command(&self, _id: u64, _tree: ProcessTree, _files: Vec<PathBuf>) {}

    /// Does nothing.
    pub fn retain_commands(&self, _is_living: impl Fn(u64) -> bool) {}

    /// Returns 0.
    pub fn count_events(&self) -> u64 {
        0
    }

    /// Returns false.
    pub fn record_event(&self, _event: &Event) -> bool {
        false
    }
}

impl SharedGuard {
    /// Does nothing.
    pub fn renew_covers(&self) {}
}
