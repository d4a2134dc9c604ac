//! The caches that commands use, as `status` shows them.

use serde::{Deserialize, Serialize};

use super::Confinement;

/// The caches that commands use, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum CachesInUse {
    /// Nothing is mounted yet.
    #[default]
    Unknown,
    /// The user's own, as far as the level lets commands write there.
    OfUser,
    /// Those of commands.
    OfCommands {
        /// The paths in the home where they also see what the user's cache has.
        shared: Vec<String>,
        /// The others that the user has too: commands fill their own.
        empty: Vec<EmptyCache>,
    },
}

/// A cache that does not show what the user's has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmptyCache {
    /// The path in the home.
    pub path: String,
    /// The reason.
    pub why: String,
}

impl Confinement {
    /// Waits for the self-test and prepares what the first command would otherwise wait for.
    pub async fn prepare_commands(&self) {
        self.level().await;
        #[cfg(target_os = "linux")]
        if let Some(shared) = self.state()
            && let Some(spawner) = shared.view_spawner.get()
            && let Err(cause) = shared.caches.mount_once(&shared, spawner).await
        {
            tracing::warn!(%cause, "the caches of commands are not mounted; the next command tries again");
        }
    }

    /// Returns the caches that commands use.
    pub fn caches_in_use(&self) -> CachesInUse {
        match self.state() {
            #[cfg(target_os = "linux")]
            Some(shared) if self.has_view() => shared.caches.describe(&shared.setup.rules),
            Some(shared) if shared.proven.get().is_none() => CachesInUse::Unknown,
            _ => CachesInUse::OfUser,
        }
    }
}
