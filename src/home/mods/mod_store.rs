//! Reads and writes the state below `mods/`. Contents of files are stored by their hash and never changed.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::mod_records::{FeatureRecord, PendingChange, StagedFiles};
use crate::error::HomeError;
use crate::file_modes::{FolderAccess, ensure_dir};
use crate::layout::Home;
use crate::name_grammar::is_item_id;
use crate::runner_lock::lock_exclusively;
use crate::state_file::StateFile;
use punie_core::clock;
use punie_core::content_hash::copy_hashed;
use punie_core::durable::{DraftFile, Readers, sync_folder};
use punie_core::ids::to_hex;

/// The state of self-modification in a home.
#[derive(Debug, Clone)]
pub struct ModStore {
    home: Home,
}

/// The lock on the state and on the files below the root, for this process and others.
#[derive(Debug)]
pub struct ModLock {
    _file: File,
}

/// The active feature of a conversation.
#[derive(Debug, Serialize, Deserialize)]
struct ActiveFeature {
    conversation: String,
    feature: String,
}

impl ModStore {
    /// Opens the state, and creates its folders.
    ///
    /// # Errors
    /// [`HomeError`] when a folder cannot be created or is open to others.
    pub fn open_store(home: &Home) -> Result<Self, HomeError> {
        for folder in [
            home.mods_dir(),
            home.mod_blobs_dir(),
            home.mod_scratch_dir(),
            home.mod_features_dir(),
            home.active_mods_dir(),
        ] {
            ensure_dir(&folder, FolderAccess::OwnerOnly)?;
        }
        Ok(Self { home: home.clone() })
    }

    /// Returns the present time in milliseconds since 1970.
    pub fn unix_time_ms() -> u64 {
        clock::unix_time_ms().unsigned_abs()
    }

    /// Returns the folder of the contents.
    pub fn blobs_dir(&self) -> PathBuf {
        self.home.mod_blobs_dir()
    }

    /// Returns the folder for contents while they are written.
    pub fn scratch_dir(&self) -> PathBuf {
        self.home.mod_scratch_dir()
    }

    /// Waits for the lock. Blocks.
    ///
    /// # Errors
    /// [`HomeError`] when the lock cannot be opened.
    pub fn lock_state(&self) -> Result<ModLock, HomeError> {
        let file = lock_exclusively(&self.home.mods_lock_file())?;
        Ok(ModLock { _file: file })
    }

    /// Creates a feature and makes it the active one of its conversation. One of the same request is returned as it is.
    ///
    /// # Errors
    /// [`HomeError`] when it cannot be written.
    pub fn create_feature(
        &self,
        _lock: &ModLock,
        feature: FeatureRecord,
    ) -> Result<FeatureRecord, HomeError> {
        let id = feature.id.as_str();
        let folder = self.home.mod_features_dir().join(id);
        ensure_dir(&folder, FolderAccess::OwnerOnly)?;
        sync_folder(&self.home.mod_features_dir()).map_err(HomeError::unwritable(&folder))?;
        let file = self.feature_file(id);
        let feature = match file.read()? {
            Some(known) if known.request == feature.request => known,
            Some(_) => {
                let taken = io::Error::from(io::ErrorKind::AlreadyExists);
                return Err(HomeError::unwritable(&folder)(taken));
            }
            None => {
                // Both files are there from now on, so that one that is missing was taken away.
                self.staging_file(id).write(&StagedFiles::default())?;
                file.write(&feature)?;
                feature
            }
        };
        self.active_file(&feature.conversation)
            .write(&ActiveFeature {
                conversation: feature.conversation.clone(),
                feature: feature.id.clone(),
            })?;
        Ok(feature)
    }

    /// Returns the id of a conversation's active feature.
    ///
    /// # Errors
    /// [`HomeError`] when the record is unreadable or damaged.
    pub fn active_feature(&self, conversation: &str) -> Result<Option<String>, HomeError> {
        let active = self.active_file(conversation).read()?;
        Ok(active
            .filter(|active| active.conversation == conversation && is_item_id(&active.feature))
            .map(|active| active.feature))
    }

    /// Reads a feature; `None` if there is none of this id, or the id is none.
    ///
    /// # Errors
    /// [`HomeError`] when the record is unreadable or damaged.
    pub fn read_feature(&self, id: &str) -> Result<Option<FeatureRecord>, HomeError> {
        if !is_item_id(id) {
            return Ok(None);
        }
        self.feature_file(id).read()
    }

    /// Replaces a feature's record.
    ///
    /// # Errors
    /// [`HomeError`] when it cannot be written.
    pub fn write_feature(&self, _lock: &ModLock, feature: &FeatureRecord) -> Result<(), HomeError> {
        self.feature_file(&feature.id).write(feature)
    }

    /// Reads the staged files of a feature.
    ///
    /// # Errors
    /// [`HomeError`] when the record is unreadable or damaged.
    pub fn read_staged(&self, id: &str) -> Result<StagedFiles, HomeError> {
        Ok(self.staging_file(id).read()?.unwrap_or_default())
    }

    /// Replaces the staged files of a feature.
    ///
    /// # Errors
    /// [`HomeError`] when they cannot be written.
    pub fn write_staged(
        &self,
        _lock: &ModLock,
        id: &str,
        staged: &StagedFiles,
    ) -> Result<(), HomeError> {
        self.staging_file(id).write(staged)
    }

    /// Reads the change that has begun and not ended.
    ///
    /// # Errors
    /// [`HomeError`] when the record is unreadable or damaged.
    pub fn read_pending(&self, _lock: &ModLock) -> Result<Option<PendingChange>, HomeError> {
        Ok(self.pending_file().read()?.flatten())
    }

    /// Records the change that begins, or that none is pending.
    ///
    /// # Errors
    /// [`HomeError`] when it cannot be written.
    pub fn write_pending(
        &self,
        _lock: &ModLock,
        pending: Option<&PendingChange>,
    ) -> Result<(), HomeError> {
        self.pending_file().write(&pending.cloned())
    }

    /// Stores a content durably. Returns its hash and size.
    ///
    /// # Errors
    /// The system's.
    pub fn store_content(&self, mut from: impl Read) -> io::Result<(String, u64)> {
        let folder = self.blobs_dir();
        let mut draft = DraftFile::create_beside(&folder.join("content"), Readers::OwnerOnly)?;
        let (sha256, size) = copy_hashed(&mut from, &mut draft.file)?;
        let path = folder.join(&sha256);
        if self.check_content(&sha256).is_err() {
            draft.put_in_place(&path)?;
        }
        Ok((sha256, size))
    }

    /// Opens a stored content.
    ///
    /// # Errors
    /// The system's.
    pub fn open_content(&self, sha256: &str) -> io::Result<File> {
        File::open(self.content_path(sha256))
    }

    /// Returns the path of a stored content.
    pub fn content_path(&self, sha256: &str) -> PathBuf {
        let is_hash = sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
        self.blobs_dir()
            .join(if is_hash { sha256 } else { "no-such-content" })
    }

    /// Checks that a content is stored and whole.
    ///
    /// # Errors
    /// The system's, or `InvalidData`.
    pub fn check_content(&self, sha256: &str) -> io::Result<()> {
        let mut content = self.open_content(sha256)?;
        let (found, _) = copy_hashed(&mut content, &mut io::sink())?;
        if found == sha256 {
            Ok(())
        } else {
            Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a stored content is damaged",
            ))
        }
    }

    /// Creates a new folder in `mods/scratch/`.
    ///
    /// # Errors
    /// The system's.
    pub fn create_scratch_folder(&self) -> io::Result<PathBuf> {
        let name = uuid::Uuid::new_v4().simple().to_string();
        let folder = self.scratch_dir().join(name);
        fs::create_dir(&folder)?;
        Ok(folder)
    }

    /// Removes a folder of `mods/scratch/`.
    pub fn remove_scratch_folder(&self, folder: &Path) {
        if folder.parent() == Some(&self.scratch_dir()) {
            // A folder that stays is removed by the next start.
            let _ = fs::remove_dir_all(folder);
        }
    }

    /// Removes what a crash left: contents that no record names, and unfinished ones. No content is removed while a record
    /// is damaged or was taken away. For the start of the runner, before any call.
    ///
    /// # Errors
    /// [`HomeError`] when a record cannot be read.
    pub fn remove_leftovers(&self, _lock: &ModLock) -> Result<(), HomeError> {
        for folder in list_entries(&self.scratch_dir())? {
            let _ = fs::remove_dir_all(folder);
        }
        let mut named = BTreeSet::new();
        for folder in list_entries(&self.home.mod_features_dir())? {
            let id = folder.file_name().and_then(|name| name.to_str());
            let Some(id) = id.filter(|id| is_item_id(id)) else {
                continue;
            };
            let feature = self.read_feature(id)?;
            let staged = self.staging_file(id).read()?;
            let (Some(feature), Some(staged)) = (feature, staged) else {
                if list_entries(&folder)?.is_empty() {
                    continue;
                }
                tracing::warn!(feature = %id, "a record of this feature is missing, so no content is removed");
                return Ok(());
            };
            named.append(&mut feature.named_contents());
            for staged in staged.files.values() {
                let found = staged.found.iter().flat_map(|found| found.contents());
                let states = staged.base.iter().chain(&staged.content).chain(found);
                named.extend(states.map(|state| state.sha256.clone()));
            }
        }
        for content in list_entries(&self.blobs_dir())? {
            let name = content.file_name().and_then(|name| name.to_str());
            if name.is_none_or(|name| !named.contains(name)) {
                fs::remove_file(&content).map_err(HomeError::unwritable(&content))?;
            }
        }
        Ok(())
    }

    fn feature_file(&self, id: &str) -> StateFile<FeatureRecord> {
        StateFile::new(self.home.mod_feature_file(id))
    }

    fn staging_file(&self, id: &str) -> StateFile<StagedFiles> {
        StateFile::new(self.home.mod_staging_file(id))
    }

    fn pending_file(&self) -> StateFile<Option<PendingChange>> {
        StateFile::new(self.home.pending_mod_file())
    }

    fn active_file(&self, conversation: &str) -> StateFile<ActiveFeature> {
        let hash = to_hex(&Sha256::digest(conversation.as_bytes()));
        StateFile::new(self.home.active_mod_file(&hash))
    }
}

fn list_entries(folder: &Path) -> Result<Vec<PathBuf>, HomeError> {
    let entries = fs::read_dir(folder).map_err(HomeError::unreadable(folder))?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    paths
        .collect::<io::Result<_>>()
        .map_err(HomeError::unreadable(folder))
}
