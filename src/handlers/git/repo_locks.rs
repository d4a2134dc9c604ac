//! One change of a repository at a time, because two calls would otherwise stage into each other's commit.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

use punie_tool::{ToolContext, ToolError};

/// One lock per repository; clones share the locks.
#[derive(Clone, Default)]
pub struct RepoLocks(Arc<Mutex<HashMap<PathBuf, Arc<tokio::sync::Mutex<()>>>>>);

impl RepoLocks {
    /// Waits until no other call changes this repository, and locks it until the guard is dropped.
    ///
    /// # Errors
    /// The call was cancelled, or reached its time limit, while it waited.
    pub(super) async fn lock(
        &self,
        cx: &ToolContext,
        git_dir: &Path,
    ) -> Result<OwnedMutexGuard<()>, ToolError> {
        let lock = Arc::clone(self.0.lock().entry(git_dir.to_owned()).or_default());
        tokio::select! {
            guard = lock.lock_owned() => Ok(guard),
            () = cx.wait_for_cancel() => Err(ToolError::call_cancelled(
                "Stopped while another call changed the repository; nothing was changed by this one.",
            )),
        }
    }
}
