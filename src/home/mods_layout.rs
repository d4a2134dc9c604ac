//! The paths below `mods/`: features of self-modification, their staged files and contents.

use std::path::PathBuf;

use super::layout::Home;

impl Home {
    /// Returns `mods/`: the features of self-modification.
    pub fn mods_dir(&self) -> PathBuf {
        self.root_dir().join("mods")
    }

    /// Returns `mods/lock`, held while a feature's record or the files below the root are changed.
    pub(super) fn mods_lock_file(&self) -> PathBuf {
        self.mods_dir().join("lock")
    }

    /// Returns `mods/pending.json`: the change that is being made to the files below the root.
    pub(super) fn pending_mod_file(&self) -> PathBuf {
        self.mods_dir().join("pending.json")
    }

    /// Returns `mods/blobs/`: contents of files, each by its hash.
    pub fn mod_blobs_dir(&self) -> PathBuf {
        self.mods_dir().join("blobs")
    }

    /// Returns `mods/scratch/`: staged contents while they are written.
    pub fn mod_scratch_dir(&self) -> PathBuf {
        self.mods_dir().join("scratch")
    }

    /// Returns `mods/features/`: a folder for each feature.
    pub fn mod_features_dir(&self) -> PathBuf {
        self.mods_dir().join("features")
    }

    /// Returns `mods/features/ID/feature.json`. The id must be checked.
    pub(super) fn mod_feature_file(&self, id: &str) -> PathBuf {
        self.mod_features_dir().join(id).join("feature.json")
    }

    /// Returns `mods/features/ID/staged.json`. The id must be checked.
    pub(super) fn mod_staging_file(&self, id: &str) -> PathBuf {
        self.mod_features_dir().join(id).join("staged.json")
    }

    /// Returns `mods/active/`: a file for each conversation with a feature.
    pub(super) fn active_mods_dir(&self) -> PathBuf {
        self.mods_dir().join("active")
    }

    /// Returns the file of one conversation in `mods/active/`, by the hash of its id.
    pub(super) fn active_mod_file(&self, conversation_sha256: &str) -> PathBuf {
        self.active_mods_dir()
            .join(format!("{conversation_sha256}.json"))
    }
}
