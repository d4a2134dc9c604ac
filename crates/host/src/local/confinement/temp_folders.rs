//! The folders for temporary files of commands, and the variables that name them.

#[cfg(unix)]
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Confinement;
#[cfg(target_os = "linux")]
use super::ConfinementState;
#[cfg(unix)]
use punie_core::ids::{ConversationId, to_hex};

#[cfg(target_os = "linux")]
impl ConfinementState {
    /// Returns the folder for temporary files of processes that belong to no conversation.
    pub(super) fn shared_temp(&self) -> PathBuf {
        self.setup.rules.temp.join("c-shared")
    }
}

impl Confinement {
    /// Returns the folder that holds all folders for temporary files, if commands are confined.
    pub fn temp_folder(&self) -> Option<PathBuf> {
        let shared = self.state().filter(|shared| {
            cfg!(any(target_os = "linux", target_os = "macos")) && shared.setup.confine
        })?;
        Some(shared.setup.rules.temp.clone())
    }

    /// Returns the folder for temporary files of a conversation, if commands are confined.
    #[cfg(unix)]
    pub(in crate::local) fn conversation_temp(
        &self,
        conversation: &ConversationId,
    ) -> Option<PathBuf> {
        use sha2::{Digest as _, Sha256};

        let digest = Sha256::digest(conversation.key());
        let name = format!("c-{}", to_hex(&digest[..8]));
        Some(self.temp_folder()?.join(name))
    }

    /// Returns whether commands have a view of the files, with a `/tmp` of their own.
    pub(super) fn has_view(&self) -> bool {
        #[cfg(target_os = "linux")]
        return self
            .state()
            .is_some_and(|shared| shared.view_spawner.get().is_some());
        #[cfg(not(target_os = "linux"))]
        false
    }

    /// Sets the variables for temporary files that the caller did not set. Without a view the Go build cache goes there
    /// too: the usual one is not writable then, and Go does not work without one.
    #[cfg(unix)]
    pub(in crate::local) fn set_temp_variables(
        &self,
        env: &mut BTreeMap<String, String>,
        asked: &[(String, String)],
    ) {
        let Some(temp) = self.temp_folder() else {
            return;
        };
        let has_view = self.has_view();
        // A short path: some programs put sockets there, and the path of a socket has 107 bytes at most.
        let folder = if has_view { Path::new("/tmp") } else { &temp };
        let names = ["TMPDIR", "TEMP", "TMP"].map(|name| (name, folder.to_owned()));
        let cache = (!has_view).then(|| ("GOCACHE", temp.join("go-build")));
        for (name, value) in names.into_iter().chain(cache) {
            if asked.iter().all(|(set, _)| set != name) {
                env.insert(name.to_owned(), value.display().to_string());
            }
        }
    }
}
