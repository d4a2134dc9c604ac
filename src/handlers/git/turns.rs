//! One change of a repository at a time: two calls of different conversations would stage into each other's commit.
//! Not here: what others do in it meanwhile (git's own lock).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedMutexGuard;

use crate::tool::{ToolCx, ToolError};

/// Whose turn it is in each repository; clones share it.
#[derive(Clone, Default)]
pub struct Turns(Arc<Mutex<HashMap<PathBuf, Arc<tokio::sync::Mutex<()>>>>>);

impl Turns {
    /// Waits until no other call changes the repository of this git folder; the turn ends when the guard is dropped.
    ///
    /// # Errors
    /// The call was cancelled, or its time was up, while it waited.
    pub(super) async fn take(&self, cx: &ToolCx, git_dir: &Path) -> Result<OwnedMutexGuard<()>, ToolError> {
        let turn = {
            let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(turns.entry(git_dir.to_owned()).or_default())
        };
        tokio::select! {
            guard = turn.lock_owned() => Ok(guard),
            () = cx.cancelled() => Err(ToolError::cancelled(
                "Stopped while another call changed the repository; nothing was changed by this one.",
            )),
        }
    }
}
